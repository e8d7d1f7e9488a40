"""Browser sessions: login by key or link, the role and end of the key, and requests of other sites."""

import gzip
import hashlib
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from html import unescape
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from app.access.models import ApiKey
from app.access.pages import SECRET_FIELD
from app.access.queries import CONFIGURED_KEY_ID
from app.access.service import FIRST_KEY_NAME, create_key
from app.access.sessions import create_login_link
from app.core.resources import Resources
from app.core.web.forms.fields import FieldSchema, InputKind
from app.core.web.forms.rendering import SchemaForm, iter_fields
from app.core.web.static_files import FOLDER, HASH_CHARS, asset_url
from app.main import create_app
from tests.support.http import serving
from tests.support.processes import until
from tests.support.service import Service

HTML = {"Accept": "text/html"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def browser(service: Service) -> Iterator[httpx.Client]:
    """A client without a key, which keeps cookies and asks for pages, of a service that listens already."""
    until(lambda: listens(service))
    headers = {**HTML, "Sec-Fetch-Site": "same-origin"}
    url = service.client.base_url
    with httpx.Client(
        base_url=url, headers=headers, trust_env=False, verify=False, timeout=60
    ) as client:
        yield client


def key_of(service: Service, role: str = "admin") -> str:
    return str(service.post("/keys", {"name": f"a {role}", "role": role})["token"])


def listens(service: Service) -> bool:
    """Whether the service listens for notifications; it wakes every stream when it begins."""
    with service.resources.db.read() as session:
        count = session.scalar(
            text(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'mosaico-events'"
                " AND datname = current_database() AND state = 'idle' AND query LIKE 'LISTEN%'"
            )
        )
    return bool(count)


def log_in(browser: httpx.Client, key: str, **form: str) -> httpx.Response:
    return browser.post("/login", data={"key": key, **form})


def end_session(service: Service) -> None:
    with service.resources.db.begin() as session:
        session.execute(text("UPDATE browser_sessions SET expires_at = now() - interval '1 hour'"))


def send_ended(browser: httpx.Client, path: str, **form: Any) -> httpx.Response:
    """The answer to a form after the end of the session, which a process may remember for a second."""
    responses: list[httpx.Response] = []

    def is_refused() -> bool:
        responses.append(browser.post(path, **form))
        return responses[-1].status_code == 401

    until(is_refused)
    return responses[-1]


def draft_of(
    service: Service, browser: httpx.Client, path: str, body: Mapping[str, str], **form: Any
) -> httpx.Response:
    """The page after a login with the key whose session had ended before the form was sent."""
    key = key_of(service)
    log_in(browser, key)
    end_session(service)
    ended = send_ended(browser, path, data=body, **form)
    return log_in(browser, key, **hidden_fields(ended.text))


@pytest.mark.parametrize(
    "draft",
    ["hours=8", "message=a&verdict=true&note=seen", "confirm=Delete+it%3F", "form=1&name=A"],
)
def test_login__after_a_form_shows_what_will_be_sent(
    service: Service, browser: httpx.Client, draft: str
) -> None:
    key = key_of(service)
    log_in(browser, key)
    end_session(service)
    ended = send_ended(browser, "/inbox/none/silence", content=draft, headers=FORM)
    assert "Your session has ended" in ended.text
    login_page = log_in(browser, key, **hidden_fields(ended.text))
    assert login_page.status_code == 200
    assert "Nothing was changed yet" in login_page.text
    assert fields_action(login_page.text) == "/inbox/none/silence"
    assert "set-cookie" in login_page.headers
    # A form with fields of its own can be opened again; a button is only sent.
    assert ("Back to the form" in login_page.text) == draft.startswith("form=1")


def test_login__a_draft_is_shown_to_its_key_only(service: Service, browser: httpx.Client) -> None:
    log_in(browser, key_of(service))
    end_session(service)
    ended = send_ended(browser, "/inbox/none/silence", data={"note": "a thought of mine"})
    assert "a thought of mine" not in ended.text
    fields = hidden_fields(ended.text)
    other = log_in(browser, key_of(service, "run"), **fields)
    assert (other.status_code, other.headers["location"]) == (303, fields["next"])


def test_login__a_form_without_a_session_leaves_no_draft(
    service: Service, browser: httpx.Client
) -> None:
    log_in(browser, key_of(service))
    browser.post("/logout")
    ended = browser.post("/inbox/none/silence", data={"note": "a thought of mine"})
    assert ended.status_code == 401
    assert "is not kept" in ended.text
    assert "draft" not in hidden_fields(ended.text)


def test_login__a_changed_draft_is_dropped(service: Service, browser: httpx.Client) -> None:
    response = log_in(browser, key_of(service), draft="v1.00000000.AAAA", next="/inbox")
    assert (response.status_code, response.headers["location"]) == (303, "/inbox")


@pytest.mark.parametrize(
    "field", ["recipient", "recipients", "runUrl", "secret", "langfuseSecretKey"]
)
def test_login__draft_has_no_credentials_and_says_what_was_not_kept(
    service: Service, browser: httpx.Client, field: str
) -> None:
    webhook = "https://hooks.example.com/T0/B0"
    body = {"form": "1", "name": "Ops", field: webhook}
    draft = draft_of(service, browser, "/endpoints", body)
    assert "Ops" in draft.text
    assert "hooks.example.com" not in draft.text
    assert "A page never shows a secret" in draft.text
    # The input is not complete: it is opened again, and not sent.
    assert "Back to the form" in draft.text
    assert ">Send<" not in draft.text


def test_login__draft_keeps_every_field_that_is_no_secret(
    service: Service, browser: httpx.Client
) -> None:
    """Also the removal of a stored secret, and a secret that is left empty so that it stays."""
    body = {
        "form": "1", "langfusePublicKey": "pk-1", "judgeCalibration.metric.key": "judge",
        "production.itemKey": "item", "remove:langfuseSecretKey": "1", "langfuseSecretKey": "",
        "recipients": "ops@example.com\r\nhttps://hooks.example.com/…T0B0", "runUrl": "https://agent.example/…T0B0",
    }  # fmt: skip
    draft = draft_of(service, browser, "/agents/a", body)
    assert hidden_fields(draft.text) == body
    assert "A page never shows a secret" not in draft.text
    assert ">Send<" in draft.text


def test_login__draft_of_a_rule_keeps_its_recipients(
    service: Service, browser: httpx.Client
) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["EXACT_MATCH"])
    webhooks = ["https://one.example.com/services/A", "https://two.example.com/services/B"]
    rule = service.post(
        "/alert-configs",
        {"id": "rule-1", "name": "falls", "benchmarkId": "bench-001", "metric": "EXACT_MATCH", "condition": "LESS_THAN",
         "threshold": 0.5, "channels": ["WEBHOOK"], "recipients": webhooks},
    )  # fmt: skip
    shown = rule["recipients"]
    body = {
        "form": "1", "revision": "1", "name": "falls a lot", "benchmarkId": "bench-001", "metric": "EXACT_MATCH",
        "condition": "LESS_THAN", "threshold": "0.5", "channels": "WEBHOOK", "severity": "WARNING",
        "forRuns": "1", "keepFiringForRuns": "1", "cooldownMinutes": "0", "noData": "NO_DATA",
        "baselineRuns": "5", "enabled": "on", "confirmRuns": "on", "recipients": "\n".join(shown),
    }  # fmt: skip
    draft = draft_of(service, browser, "/alerts/rule-1", body)
    sent = browser.post("/alerts/rule-1", data=hidden_fields(draft.text))
    assert sent.status_code == 303, sent.text
    after = service.get("/alert-configs/rule-1")
    assert (after["name"], after["recipients"]) == ("falls a lot", shown)
    # A new recipient is typed: the form is opened again with the others.
    third = "https://three.example.com/services/C"
    body = {**body, "revision": "2", "recipients": "\n".join([*shown, third])}
    draft = draft_of(service, browser, "/alerts/rule-1", body)
    assert "three.example.com" not in draft.text
    assert "this was not kept: Recipients." in draft.text
    form = browser.post("/alerts/rule-1", data={**hidden_fields(draft.text), "check": "1"})
    assert form.status_code == 200
    assert all(recipient in unescape(form.text) for recipient in shown)
    assert service.get("/alert-configs/rule-1")["recipients"] == shown


def test_secret_field__every_secret_of_a_form_is_one() -> None:
    """And no other field."""
    fields = dict(secret_flags())
    assert {name for name, is_secret in fields.items() if is_secret} == {"langfuseSecretKey"}
    for name, is_secret in fields.items():
        assert bool(SECRET_FIELD.search(name)) == is_secret or name == "secret", name


def secret_flags() -> Iterator[tuple[str, bool]]:
    """The names of all inputs, and whether the value is a secret."""

    def flags_of(fields: Mapping[str, FieldSchema]) -> Iterator[tuple[str, bool]]:
        for name, schema in fields.items():
            yield name, schema.kind is InputKind.SECRET
            yield from flags_of(schema.members)

    import app.api  # noqa: F401 - loads all pages

    pages = [module for name, module in sys.modules.items() if name.startswith("app.")]
    values = [value for module in pages for value in vars(module).values()]
    for form in [value for value in values if isinstance(value, SchemaForm)]:
        for is_edit in (False, True):
            yield from flags_of(dict(iter_fields(form, is_edit=is_edit)))


def hidden_fields(html: str) -> dict[str, str]:
    """The values of the hidden inputs of a page."""
    inputs = re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', html)
    return {unescape(name): unescape(value) for name, value in inputs}


def test_login__after_a_form_that_is_too_large_says_that_it_is_not_kept(
    browser: httpx.Client,
) -> None:
    # More than the 64 KiB that are kept.
    ended = browser.post("/inbox/none/silence", content=f"note={'x' * 70_000}", headers=FORM)
    assert ended.status_code == 401
    assert "is not kept" in ended.text


def test_login__session_reads_the_api_and_changes_nothing_there(
    service: Service, browser: httpx.Client
) -> None:
    response = log_in(browser, key_of(service), next="/runs?status=FAILED")
    assert (response.status_code, response.headers["location"]) == (303, "/runs?status=FAILED")
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert browser.get("/api/v1/agents").status_code == 200
    refused = browser.post("/api/v1/agents", json={"id": "a", "name": "A"})
    assert refused.status_code == 401
    assert service.list_items("/agents") == []


def test_login__wrong_key_shows_the_form_again(service: Service, browser: httpx.Client) -> None:
    response = log_in(browser, "mosaico_admin_wrong")
    assert response.status_code == 401
    assert 'aria-describedby="key-error"' in response.text
    assert "mosaico_admin_wrong" not in response.text


# Browsers read a backslash as a slash.
@pytest.mark.parametrize("target", ["//evil.example/", "https://evil.example/", "/\\evil.example"])
def test_login__never_leads_to_another_host(
    target: str, service: Service, browser: httpx.Client
) -> None:
    response = log_in(browser, key_of(service), next=target)
    assert response.headers["location"] == "/"


def test_session__ends_when_its_key_is_revoked(service: Service, browser: httpx.Client) -> None:
    created = service.post("/keys", {"name": "browser", "role": "read"})
    log_in(browser, created["token"])
    assert browser.get("/api/v1/agents").status_code == 200
    service.delete(f"/keys/{created['id']}")
    assert browser.get("/api/v1/agents").status_code == 401


def test_login__before_a_question_leads_back_to_the_page_of_the_form(
    service: Service, browser: httpx.Client
) -> None:
    """Not to the login, which sent the form again."""
    page, path, body = (
        "/agents/a?tab=1",
        "/agents/a/delete",
        {"confirm": "Delete it?", "why": "old"},
    )
    url = str(browser.base_url).rstrip("/")
    draft = draft_of(service, browser, path, body, headers={"Referer": f"{url}{page}"})
    fields = hidden_fields(draft.text)
    login = {"Referer": f"{url}/login"}
    question = browser.post(fields_action(draft.text), data=fields, headers=login)
    assert question.status_code == 428
    assert f'href="{page}">Back</a>' in question.text
    assert 'name="why" value="old"' in question.text
    assert 'name="back"' not in question.text


def fields_action(html: str) -> str:
    """The address of the form on a page after a login."""
    [action] = re.findall(r'<form method="post" action="(/(?:agents|inbox)[^"]*)"', html)
    return str(action)


def test_login__that_is_done_leads_on_when_the_browser_goes_back_to_it(
    service: Service, browser: httpx.Client
) -> None:
    redirect = browser.get("/runs?sort=agent")
    address = redirect.headers["location"]
    assert (redirect.status_code, address) == (303, "/login?next=%2Fruns%3Fsort%3Dagent")
    assert browser.get(address).status_code == 200
    log_in(browser, key_of(service), next="/runs?sort=agent")
    again = browser.get(address)
    assert (again.status_code, again.headers["location"]) == (303, "/runs?sort=agent")
    # Without it, a reader logs in with another key.
    assert browser.get("/login").status_code == 200
    with service.resources.db.begin() as session:
        token = create_login_link(session, service.resources.clock() - timedelta(minutes=11))
    assert browser.get("/login", params={"once": token}).headers["location"] == "/"


def test_logout__ends_the_session(service: Service, browser: httpx.Client) -> None:
    log_in(browser, key_of(service))
    token = browser.cookies["mosaico_session"]
    browser.post("/logout")
    assert "mosaico_session" not in browser.cookies
    browser.cookies.set("mosaico_session", token)
    assert browser.get("/api/v1/agents").status_code == 401


@pytest.mark.parametrize("end", ["revoke", "expire"])
def test_key__that_is_revoked_or_expires_ends_its_streams(
    end: str, service: Service, browser: httpx.Client
) -> None:
    created = service.post("/keys", {"name": "reader", "role": "read"})
    with (
        httpx.Client(
            base_url=browser.base_url,
            headers={"Authorization": f"Bearer {created['token']}"},
            trust_env=False,
            verify=False,
            timeout=60,
        ) as reader,
        reader.stream("GET", "/api/v1/notifications/events") as stream,
    ):
        lines = stream.iter_lines()
        next(lines)
        if end == "revoke":
            service.delete(f"/keys/{created['id']}")
        else:
            with service.resources.db.begin() as session:
                session.get_one(ApiKey, created["id"]).expires_at = service.resources.clock()
        # Not a heartbeat, which would come first if the stream stayed open.
        assert not any(line.startswith(":") for line in lines)


def test_logout__ends_the_streams_of_the_session(service: Service, browser: httpx.Client) -> None:
    log_in(browser, key_of(service))
    cookies, url = dict(browser.cookies), browser.base_url
    with (
        httpx.Client(
            base_url=url, cookies=cookies, trust_env=False, verify=False, timeout=60
        ) as reader,
        reader.stream("GET", "/api/v1/notifications/events") as stream,
    ):
        lines = stream.iter_lines()
        next(lines)
        browser.post("/logout")
        # Until the stream ends; otherwise heartbeats would follow for ever.
        list(lines)
    assert browser.get("/api/v1/agents").status_code == 401


def test_logout__ends_the_streams_while_a_slow_scrape_holds_its_connection(
    service_resources: Resources,
) -> None:
    """`/metrics` and `/readyz` share one connection, which a slow query may occupy."""
    app = create_app(service_resources)
    with service_resources.db.begin() as session:
        key = create_key(session, "reader", "read", now=service_resources.clock())
    with (
        serving(app, lifespan=True) as browser,
        app.state.probe.db.engine.connect(),
    ):
        browser.headers["Sec-Fetch-Site"] = "same-origin"
        log_in(browser, key.token.reveal())
        with browser.stream("GET", "/api/v1/notifications/events") as stream:
            lines = stream.iter_lines()
            next(lines)
            browser.post("/logout")
            # Not a heartbeat, which would come first if the stream stayed open.
            assert not any(line.startswith(":") for line in lines)


def test_login_link__works_once(service: Service, browser: httpx.Client) -> None:
    with service.resources.db.begin() as session:
        token = create_login_link(session, service.resources.clock())
    response = browser.get("/login", params={"once": token})
    assert response.status_code == 303
    assert browser.get("/api/v1/keys").status_code == 200
    browser.cookies.clear()
    assert browser.get("/login", params={"once": token}).status_code == 401
    assert browser.get("/api/v1/keys").status_code == 401


def test_login_link__expires_after_ten_minutes(service: Service, browser: httpx.Client) -> None:
    with service.resources.db.begin() as session:
        token = create_login_link(session, service.resources.clock() - timedelta(minutes=11))
    assert browser.get("/login", params={"once": token}).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {},
    ],
)
@pytest.mark.parametrize("path", ["/login", "/logout", "/time-zone"])
def test_form__of_another_site_is_refused(
    path: str, headers: dict[str, str], service: Service, browser: httpx.Client
) -> None:
    del browser.headers["Sec-Fetch-Site"]
    response = browser.post(
        path, data={"key": key_of(service), "zone": "Asia/Tokyo"}, headers=headers
    )
    assert response.status_code == 403
    assert "set-cookie" not in response.headers


def test_form__without_fetch_metadata_needs_the_origin_of_the_service(
    service: Service, browser: httpx.Client
) -> None:
    del browser.headers["Sec-Fetch-Site"]
    origin = {"Origin": str(browser.base_url).rstrip("/")}
    assert (
        browser.post("/time-zone", data={"zone": "Asia/Tokyo"}, headers=origin).status_code == 303
    )


def test_error__is_a_page_for_a_browser_and_a_problem_for_a_program(service: Service) -> None:
    page = service.client.get("/nothing", headers=HTML)
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["x-request-id"] in page.text
    program = service.client.get("/nothing")
    assert program.headers["content-type"] == "application/problem+json"
    api = service.client.get("/api/v1/agents/nobody", headers=HTML)
    assert api.headers["content-type"] == "application/problem+json"


def test_static_files__are_kept_forever_under_the_hash_of_their_content(service: Service) -> None:
    by_hash = service.client.get(asset_url("app.css"))
    assert "immutable" in by_hash.headers["cache-control"]
    assert "immutable" not in service.client.get("/static/app.css").headers["cache-control"]
    names = ("app.css", "app.js", "theme.js")
    contents = [service.client.get(asset_url(name)).content for name in names]
    assert sum(map(len, contents)) <= 24_000
    assert len(contents[0]) <= 12_000
    assert sum(len(gzip.compress(content)) for content in contents) <= 8_000


def test_static_files__are_sent_small_by_their_hash_and_as_written_without(
    service: Service,
) -> None:
    for name in ("app.css", "app.js"):
        small = service.client.get(asset_url(name))
        written = service.client.get(f"/static/{name}")
        assert small.headers["content-type"] == written.headers["content-type"]
        assert written.text == (FOLDER / name).read_text()
        assert len(small.content) < 0.9 * len(written.content)
        assert hashlib.sha256(small.content).hexdigest().startswith(asset_url(name)[-HASH_CHARS:])


@pytest.mark.parametrize(
    ("names", "expected"),
    [({"a": "team"}, "a"), ({"a": "team", "b": FIRST_KEY_NAME}, "b"), ({}, None)],
)
def test_login_link__is_of_the_key_of_this_installation(
    service: Service, names: dict[str, str], expected: str | None
) -> None:
    now = service.resources.clock()
    for has_configured in (False, True):
        with service.resources.db.begin() as session:
            session.execute(text("DELETE FROM api_keys"))
            ids = names | ({CONFIGURED_KEY_ID: "configured"} if has_configured else {})
            for key_id, name in ids.items():
                # Only the first one expires.
                expires_at = now + timedelta(hours=1) if key_id == "b" else None
                row: dict[str, Any] = {"digest": b"x", "created_at": now, "expires_at": expires_at}
                session.add(ApiKey(id=key_id, name=name, role="admin", **row))
            session.flush()
            is_created = create_login_link(session, now) is not None
            owners = session.scalars(text("SELECT api_key_id FROM login_links")).all()
        assert owners == [(CONFIGURED_KEY_ID if has_configured else expected)][: len(ids)]
        assert is_created is bool(ids)
