"""The draft of a form that was sent after the end of a session: it is kept for its key, without secrets."""

import re
import sys
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Any

import httpx
import pytest

from mosaico.access.pages import SECRET_FIELD
from mosaico.core.web.forms.fields import FieldSchema, InputKind
from mosaico.core.web.forms.rendering import SchemaForm, iter_fields
from tests.support.browser_sessions import (
    FORM,
    end_session,
    hidden_fields,
    key_of,
    log_in,
    send_ended,
)
from tests.support.service import Service


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


def test_login__a_form_survives_a_lost_cookie(service: Service, browser: httpx.Client) -> None:
    key = key_of(service)
    log_in(browser, key)
    browser.post("/logout")
    ended = browser.post("/inbox/none/silence", data={"note": "a thought of mine"})
    assert ended.status_code == 401
    assert "a thought of mine" not in ended.text
    shown = log_in(browser, key, **hidden_fields(ended.text))
    assert hidden_fields(shown.text) == {"note": "a thought of mine"}
    assert fields_action(shown.text) == "/inbox/none/silence"


def test_login__a_form_of_another_site_leaves_no_draft(
    service: Service, browser: httpx.Client
) -> None:
    log_in(browser, key_of(service))
    browser.post("/logout")
    elsewhere = {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
    ended = browser.post("/inbox/none/silence", data={"note": "not mine"}, headers=elsewhere)
    assert "draft" not in hidden_fields(ended.text)


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
        "baselineRuns": "5", "enabled": "on", "recipients": "\n".join(shown),
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
    assert {name for name, is_secret in fields.items() if is_secret} == {"secretKey"}
    for name, is_secret in fields.items():
        assert bool(SECRET_FIELD.search(name)) == is_secret or name == "secret", name


def secret_flags() -> Iterator[tuple[str, bool]]:
    """The names of all inputs, and whether the value is a secret."""

    def flags_of(fields: Mapping[str, FieldSchema]) -> Iterator[tuple[str, bool]]:
        for name, schema in fields.items():
            yield name, schema.kind is InputKind.SECRET
            yield from flags_of(schema.members)

    import mosaico.api  # noqa: F401 - loads all pages

    pages = [module for name, module in sys.modules.items() if name.startswith("mosaico.")]
    values = [value for module in pages for value in vars(module).values()]
    for form in [value for value in values if isinstance(value, SchemaForm)]:
        for is_edit in (False, True):
            yield from flags_of(dict(iter_fields(form, is_edit=is_edit)))


def test_login__after_a_form_that_is_too_large_says_that_it_is_not_kept(
    browser: httpx.Client,
) -> None:
    # More than the 64 KiB that are kept.
    ended = browser.post("/inbox/none/silence", content=f"note={'x' * 70_000}", headers=FORM)
    assert ended.status_code == 401
    assert "is not kept" in ended.text


def fields_action(html: str) -> str:
    """The address of the form on a page after a login."""
    [action] = re.findall(r'<form method="post" action="(/(?:agents|inbox)[^"]*)"', html)
    return str(action)
