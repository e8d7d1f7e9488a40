"""Browser sessions: login by key or link, the role and end of the key, and requests of other sites."""

from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from mosaico.access.models import ApiKey
from mosaico.access.queries import CONFIGURED_KEY_ID
from mosaico.access.service import FIRST_KEY_NAME, create_key
from mosaico.access.sessions import create_login_link
from mosaico.core.resources import Resources
from mosaico.main import create_app
from tests.support.browser_sessions import (
    HTML,
    key_of,
    log_in,
)
from tests.support.http import serving
from tests.support.service import Service
from tests.support.waiting import LIVENESS_S


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
            timeout=LIVENESS_S,
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
            base_url=url, cookies=cookies, trust_env=False, verify=False, timeout=LIVENESS_S
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
