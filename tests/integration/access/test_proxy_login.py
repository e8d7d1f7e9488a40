"""Login through a proxy that names people in a header, and what a change of the rules means for open sessions."""

import string
from typing import Any

import pytest

from mosaico.access.people import end_withdrawn_sessions
from mosaico.core.login_settings import LoginSettings, parse_role_rules
from mosaico.core.network_policy import parse_networks
from mosaico.core.web.client_network import TrustedProxies
from tests.support.openid_provider import served
from tests.support.service import Service


def through_proxy(service: Service, **options: Any) -> Any:
    login = LoginSettings(header="X-Forwarded-Email", rules=parse_role_rules("@example.org=run"))
    return served(service, login, **options)


def test_header_of_a_trusted_proxy__logs_in_and_changes_with_it(service: Service) -> None:
    proxies = TrustedProxies(parse_networks("127.0.0.0/8"))
    with through_proxy(service, proxies=proxies) as browser:
        named = {"X-Forwarded-Email": "Ana@Example.org", "X-Forwarded-For": "192.0.2.7"}
        assert browser.get("/login?next=/runs", headers=named).headers["location"] == "/runs"
        assert browser.get("/api/v1/agents", headers=named).status_code == 200
        # The session is that of the person whom the proxy names.
        other = {**named, "X-Forwarded-Email": "ben@example.org"}
        assert browser.get("/api/v1/agents", headers=other).status_code == 401
        assert browser.get("/api/v1/agents").status_code == 401
        outside = {**named, "X-Forwarded-Email": "eve@evil-example.org"}
        assert browser.get("/login", headers=outside).status_code == 403
    assert [person["email"] for person in service.list_items("/people")] == ["ana@example.org"]


@pytest.mark.parametrize(
    "header",
    [
        "ana@example.org, ben@example.org", "eve@evil.org@example.org", "@example.org", '"a b"@example.org',
        f"{string.ascii_letters * 100}@example.org", b"\xff@example.org",
    ],
)  # fmt: skip
def test_header_of_a_proxy__that_names_not_one_person_is_refused(
    service: Service, header: str | bytes
) -> None:
    proxies = TrustedProxies(parse_networks("127.0.0.0/8"))
    with through_proxy(service, proxies=proxies) as browser:
        named = {b"X-Forwarded-Email": header if isinstance(header, bytes) else header.encode()}
        page = browser.get("/login", headers=named)
    assert page.status_code == 401
    assert "X-Forwarded-Email" in page.text
    assert service.list_items("/people") == []


def test_header_of_a_proxy__is_read_as_utf_8(service: Service) -> None:
    proxies = TrustedProxies(parse_networks("127.0.0.0/8"))
    with through_proxy(service, proxies=proxies) as browser:
        browser.get("/login", headers={b"X-Forwarded-Email": "Änne@example.org".encode()})
    assert [person["email"] for person in service.list_items("/people")] == ["änne@example.org"]


def test_header_of_anybody_else__says_nothing(service: Service) -> None:
    with through_proxy(service) as browser:
        page = browser.get("/login", headers={"X-Forwarded-Email": "ana@example.org"})
        assert page.status_code == 200
        assert service.list_items("/people") == []


@pytest.mark.parametrize(
    ("rules", "status"),
    [
        ("ana@example.org=run", 200),
        ("ana@example.org=read", 401),
        ("ben@example.org=run", 401),
        ("", 401),
        # The groups of a person are known at a login only.
        ("ana@example.org=read, group:developers=run", 200),
        ("group:developers=admin", 401),
    ],
)
def test_session__ends_at_a_start_whose_rules_give_another_role(
    service: Service, rules: str, status: int
) -> None:
    proxies = TrustedProxies(parse_networks("127.0.0.0/8"))
    with through_proxy(service, proxies=proxies) as browser:
        browser.headers["X-Forwarded-Email"] = "ana@example.org"
        browser.get("/login")
        with service.resources.db.begin() as session:
            end_withdrawn_sessions(session, parse_role_rules(rules))
        assert browser.get("/api/v1/agents").status_code == status
