"""Login with OpenID Connect: a real provider, and a counterpart that sends what a real one must not."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from mosaico.access.openid import LOGOUT_EVENT, LogoutRefused, OpenIdProvider
from tests.support.http import serving
from tests.support.openid_counterpart import Counterpart, come_back
from tests.support.openid_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    log_in_at_provider,
    provider_settings,
    running_provider,
    served,
)
from tests.support.serve import free_port
from tests.support.service import Service


def way_back(browser: httpx.Client, person: str, target: str = "/runs") -> str:
    """The address to which the provider sends the browser after the login of a person."""
    started = browser.get("/login/provider", params={"next": target})
    assert started.status_code == 303, started.text
    return log_in_at_provider(started.headers["location"], person)


def test_real_provider__gives_people_their_role_until_they_are_blocked(service: Service) -> None:
    port = free_port()
    with (
        served(service, provider_settings(f"http://127.0.0.1:{port}")) as browser,
        running_provider(port, str(browser.base_url).rstrip("/")),
    ):
        assert "Log in with 127.0.0.1" in browser.get("/login").text
        back = way_back(browser, "ana")
        done = browser.get(back)
        assert done.status_code == 303, done.text
        assert (done.status_code, done.headers["location"]) == (303, "/runs")
        assert "HttpOnly" in done.headers["set-cookie"]
        # The role of the group, and the name in the audit log.
        assert browser.post("/agents", data={"name": "Pelican", "id": "a"}).status_code == 303
        [entry] = service.list_items("/audit", action="create_agent")
        assert (entry["actorType"], entry["actorName"]) == ("person", "Ana Rossi")
        [ana] = service.list_items("/people")
        assert (ana["name"], ana["role"], ana["blockedAt"]) == ("Ana Rossi", "admin", None)
        # A code and its attempt are used once.
        assert browser.get(back).status_code == 401

        service.patch(f"/people/{ana['id']}", {"blocked": True})
        assert browser.get("/api/v1/agents").status_code == 401
        refused = browser.get(way_back(browser, "ana"))
        assert refused.status_code == 403
        assert "blocked" in refused.text
        service.patch(f"/people/{ana['id']}", {"blocked": False})
        assert browser.get(way_back(browser, "ana")).status_code == 303
        browser.post("/logout")
        assert browser.get("/api/v1/agents").status_code == 401


@pytest.fixture
def counterpart() -> Iterator[Counterpart]:
    provider = Counterpart()
    with serving(provider.app()) as client:
        provider.issuer = str(client.base_url).rstrip("/")
        yield provider


@pytest.fixture
def browser(service: Service, counterpart: Counterpart) -> Iterator[httpx.Client]:
    with served(service, provider_settings(counterpart.issuer)) as client:
        yield client


def test_verified_address__gets_the_role_of_its_rule(
    browser: httpx.Client, counterpart: Counterpart
) -> None:
    assert come_back(browser, counterpart).status_code == 303
    assert browser.get("/api/v1/agents").status_code == 200
    # The role read, of the address.
    assert browser.post("/agents", data={"name": "Pelican"}).status_code == 403


WRONG_CLAIMS: tuple[dict[str, Any], ...] = (
    {"aud": "another client"},
    {"aud": [CLIENT_ID, "another client"]},  # without `azp`
    {"azp": "another client"},
    {"iss": "https://evil.example"},
    {"exp": 1},
    {"nonce": "of another login"},
    {"nonce": None},
    {"iat": int(time.time()) + 3600},
    {"at_hash": "AAAA"},
)


def test_wrong_claim__is_refused(browser: httpx.Client, counterpart: Counterpart) -> None:
    for claims in WRONG_CLAIMS:
        counterpart.claims = claims
        assert come_back(browser, counterpart).status_code == 401, claims
        assert browser.get("/api/v1/agents").status_code == 401, claims


def unsigned(claims: dict[str, Any]) -> str:
    return jwt.encode({"alg": "none"}, claims, OctKey.import_key("x"), algorithms=["none"])


def signed_with_the_shared_secret(claims: dict[str, Any]) -> str:
    key = OctKey.import_key(CLIENT_SECRET)
    return jwt.encode({"alg": "HS256"}, claims, key, algorithms=["HS256"])


def signed_by_another(claims: dict[str, Any]) -> str:
    key = RSAKey.generate_key(2048, private=True, auto_kid=True)
    return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key)


def test_wrong_signature__is_refused(browser: httpx.Client, counterpart: Counterpart) -> None:
    for sign in (unsigned, signed_with_the_shared_secret, signed_by_another):
        counterpart.sign = sign
        assert come_back(browser, counterpart).status_code == 401, sign


def test_new_keys_of_the_provider__are_read(
    browser: httpx.Client, counterpart: Counterpart
) -> None:
    assert come_back(browser, counterpart).status_code == 303
    counterpart.key = RSAKey.generate_key(2048, private=True, auto_kid=True)
    assert come_back(browser, counterpart).status_code == 303


def test_unverified_or_other_address__has_no_role(
    browser: httpx.Client, counterpart: Counterpart
) -> None:
    claims: dict[str, Any]
    for claims in (
        {"email_verified": False},
        {"email_verified": None},
        {"email": "x@evil.example"},
    ):
        counterpart.claims = claims
        refused = come_back(browser, counterpart)
        assert refused.status_code == 403, claims
        assert "MOSAICO_LOGIN_ROLES" in refused.text


GROUPS: tuple[tuple[object, int], ...] = (
    (["admins"], 303), ("admins", 303), (None, 403), (5, 403), ({"admins": 1}, 403),
)  # fmt: skip


def test_groups__of_any_form_are_read_or_give_no_role(
    browser: httpx.Client, counterpart: Counterpart
) -> None:
    for groups, status in GROUPS:
        counterpart.claims = {"email": "x@evil.example", "groups": groups, "name": "A\0a"}
        assert come_back(browser, counterpart).status_code == status, groups


def test_unknown_keys__ask_the_provider_once_in_a_while(counterpart: Counterpart) -> None:
    now = [100.0]
    login = provider_settings(counterpart.issuer)
    assert login.provider is not None
    provider = OpenIdProvider(login.provider, monotonic=lambda: now[0])

    def refused_with_unknown_key() -> None:
        with pytest.raises(LogoutRefused):
            provider.read_logout(signed_by_another({"sub": "ana"}))

    for _ in range(5):
        refused_with_unknown_key()
    # The first keys, and one look for new ones.
    assert counterpart.key_requests == 2
    now[0] += 60
    refused_with_unknown_key()
    assert counterpart.key_requests == 3


def test_lost_role__ends_the_open_sessions(browser: httpx.Client, counterpart: Counterpart) -> None:
    assert come_back(browser, counterpart).status_code == 303
    token = browser.cookies["mosaico_session"]
    counterpart.claims = {"email": "other@example.com"}
    assert come_back(browser, counterpart).status_code == 403
    browser.cookies.set("mosaico_session", token)
    assert browser.get("/api/v1/agents").status_code == 401


def test_state_of_another_browser__is_refused(
    browser: httpx.Client, counterpart: Counterpart
) -> None:
    assert come_back(browser, counterpart, state="of another browser").status_code == 401
    browser.cookies.clear()
    assert browser.get("/login/callback", params={"code": "c", "state": "s"}).status_code == 401


def test_refusal_of_the_provider__is_said(browser: httpx.Client, counterpart: Counterpart) -> None:
    refused = come_back(browser, counterpart, error="access_denied")
    assert refused.status_code == 401
    assert "access_denied" in refused.text


def test_provider_that_is_down__leaves_the_login_with_a_key(service: Service) -> None:
    with served(service, provider_settings(f"http://127.0.0.1:{free_port()}")) as browser:
        page = browser.get("/login/provider")
        assert page.status_code == 503
        assert 'name="key"' in page.text


def logout_status(browser: httpx.Client, counterpart: Counterpart, **claims: Any) -> int:
    """What the service answers to a report of a logout; a claim that is `...` is left out."""
    now = int(time.time())
    standard = {"iss": counterpart.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 60}
    token = {**standard, "jti": "1", "events": {LOGOUT_EVENT: {}}, **claims}
    sent = {name: claim for name, claim in token.items() if claim is not ...}
    return report_logout(browser, counterpart.signed(sent))


def report_logout(browser: httpx.Client, token: str) -> int:
    headers = {"Sec-Fetch-Site": "none", "Accept": "application/json"}
    body = {"logout_token": token}
    return browser.post("/login/provider-logout", data=body, headers=headers).status_code


@pytest.mark.parametrize("claims", [{"sid": "session-1"}, {"sub": "ana"}])
def test_logout_at_the_provider__ends_the_session(
    claims: dict[str, Any], browser: httpx.Client, counterpart: Counterpart
) -> None:
    assert come_back(browser, counterpart).status_code == 303
    wrong_claims: list[dict[str, Any]] = [
        {"aud": "x"}, {"iss": "x"}, {"events": {}}, {"nonce": "n"}, {"exp": 1}, {"iat": 1},
        {"nbf": time.time() + 3600}, {"sub": ..., "sid": ...},
    ]  # fmt: skip
    for wrong in wrong_claims:
        assert logout_status(browser, counterpart, **{**claims, **wrong}) == 400
    assert browser.get("/api/v1/agents").status_code == 200
    assert logout_status(browser, counterpart, **claims) == 200
    assert browser.get("/api/v1/agents").status_code == 401


# What no claim should be.
ODD_CLAIMS: tuple[Any, ...] = (
    None, "", "17", "\0", "\ud800", "x" * 2000, True, 0, -1, 10**400, float("nan"), [], ["x", None], {"a": [1]},
)  # fmt: skip


# The statuses of a logout. `jti` is not read; some are optional, or name somebody who has no session.
LOGOUT_STATUSES = {
    **{name: {400} for name in ("iat", "iss", "aud", "events")},
    **{name: {200, 400} for name in ("exp", "nbf", "sub", "sid")},
    "jti": {200},
}


def test_logout_token__with_an_odd_claim_is_refused_or_right(
    browser: httpx.Client, counterpart: Counterpart
) -> None:
    for claim, may_be in LOGOUT_STATUSES.items():
        statuses = {
            repr(odd)[:20]: logout_status(browser, counterpart, **{"sub": "nobody", claim: odd})
            for odd in (..., *ODD_CLAIMS)
        }
        assert set(statuses.values()) <= may_be, (claim, statuses)


NEEDED_CLAIMS = ("iss", "sub", "aud", "exp", "iat", "nonce")
OTHER_CLAIMS = (
    "nbf", "azp", "auth_time", "at_hash", "acr", "amr", "sid", "email", "email_verified", "name",
    "preferred_username", "groups",
)  # fmt: skip


def test_id_token__with_an_odd_claim_is_refused_or_right(
    browser: httpx.Client, counterpart: Counterpart
) -> None:
    for claim in (*NEEDED_CLAIMS, *OTHER_CLAIMS):
        for odd in ODD_CLAIMS:
            counterpart.claims = {claim: odd}
            answer = come_back(browser, counterpart)
            assert answer.status_code in (303, 401, 403), (claim, odd, answer.text)
        counterpart.claims = {claim: ...}
        is_refused = come_back(browser, counterpart).status_code == 401
        assert is_refused == (claim in NEEDED_CLAIMS), claim


def sends(token: str) -> Callable[[dict[str, Any]], str]:
    """A provider that sends this text, whatever the claims."""
    return lambda _: token


def test_token__that_is_none_is_refused(browser: httpx.Client, counterpart: Counterpart) -> None:
    right = counterpart.signed({"sub": "ana"})
    header, body, signature = right.split(".")
    odd_headers = [
        counterpart.signed({}, header={name: odd})
        for name in ("kid", "typ", "cty", "crit", "jwk")
        for odd in (5, ["x"], {"a": 1}, None)
    ]
    texts = [
        "", ".", "..", "a.b.c", "a.b.c.d.e", "é.é.é", right[:-4], f"{header}.{body}.", f"{header}..{signature}",
        f"{body}.{body}.{signature}", *odd_headers, counterpart.signed_text("[1]"), counterpart.signed_text("x"),
    ]  # fmt: skip
    assert {text: report_logout(browser, text) for text in texts} == dict.fromkeys(texts, 400)
    for text in texts:
        counterpart.sign = sends(text)
        assert come_back(browser, counterpart).status_code == 401, text


USER_INFO: tuple[tuple[object, int], ...] = (
    ({"sub": "ana", "groups": ["admins"]}, 303),
    ({"sub": "ana", "email": "ben@example.org", "email_verified": True}, 303),
    ({"sub": "ana"}, 403),
    # Of somebody else, and of another address than that of the ID token.
    ({"sub": "ben", "groups": ["admins"]}, 403),
    ({"sub": "ana", "email": "x@evil.example", "email_verified": True}, 403),
    (503, 503),
    (403, 403),
    ("not JSON", 503),
)


def test_user_info__gives_the_role_that_the_id_token_lacks(
    browser: httpx.Client, counterpart: Counterpart
) -> None:
    counterpart.claims = {"email": "ben@example.org", "email_verified": ...}
    for user_info, status in USER_INFO:
        counterpart.user_info = user_info
        assert come_back(browser, counterpart).status_code == status, user_info


def test_signed_user_info__is_read(browser: httpx.Client, counterpart: Counterpart) -> None:
    counterpart.user_info = counterpart.signed({"sub": "ana", "groups": "admins"}).encode()
    counterpart.claims = {"email": ...}
    assert come_back(browser, counterpart).status_code == 303
    counterpart.user_info = signed_by_another({"sub": "ana", "groups": "admins"}).encode()
    assert come_back(browser, counterpart).status_code == 401


def test_key_of_a_person__stops_with_their_access(
    browser: httpx.Client, counterpart: Counterpart, service: Service
) -> None:
    come_back(browser, counterpart)
    [person] = service.list_items("/people")
    key = service.post("/keys", {"name": "laptop", "role": "read", "personId": person["id"]})
    headers = {"Authorization": f"Bearer {key['token']}"}
    assert browser.get("/api/v1/agents", headers=headers).status_code == 200
    service.patch(f"/people/{person['id']}", {"blocked": True})
    time_limit = time.monotonic() + 30
    while browser.get("/api/v1/agents", headers=headers).status_code != 401:
        assert time.monotonic() < time_limit
    problem = service.expect_problem(422, "POST", "/keys", {"name": "x", "personId": "nobody"})
    assert json.dumps(problem["errors"]).count("/personId") == 1
