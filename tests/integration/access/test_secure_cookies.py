"""Cookies of a service with an https address: Secure wherever https is used, and no silent loss where it is not."""

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from mosaico.access.sessions import create_login_link
from mosaico.core.network_policy import parse_networks
from mosaico.core.resources import Resources
from mosaico.core.web.client_network import TrustedProxies
from mosaico.jobs.process_pool import ProcessPool
from mosaico.main import create_app
from tests.support.http import serving
from tests.support.service import Service, running_service
from tests.support.waiting import LIVENESS_S

PUBLIC = "https://mosaico.example"


@pytest.fixture
def https_service(service_resources: Resources, metric_pool: ProcessPool) -> Iterator[Service]:
    options = {**service_resources.options, "public_url": PUBLIC}
    with running_service(replace(service_resources, options=options), metric_pool) as service:
        yield service


def log_in(service: Service, key: str, origin: str | None) -> httpx.Response:
    headers = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
    headers |= {"Origin": origin} if origin else {}
    with httpx.Client(
        base_url=service.client.base_url, trust_env=False, timeout=LIVENESS_S
    ) as browser:
        return browser.post("/login", data={"key": key}, headers=headers)


def test_login__cookie_is_secure_unless_the_browser_shows_its_own_machine(
    https_service: Service,
) -> None:
    key = str(https_service.post("/keys", {"name": "reader", "role": "read"})["token"])
    # Behind a proxy every connection is one of http, also to the name of the loopback interface.
    for origin in (PUBLIC, "https://127.0.0.1", "null", None, "http://"):
        response = log_in(https_service, key, origin)
        assert response.status_code == 303, origin
        assert "; Secure" in response.headers["set-cookie"], origin
    for origin in ("http://127.0.0.1:8080", "http://localhost:8080", "http://[::1]:8080"):
        response = log_in(https_service, key, origin)
        assert response.status_code == 303
        assert "; Secure" not in response.headers["set-cookie"]
        assert "HttpOnly" in response.headers["set-cookie"]
    # A browser would drop the cookie, and ask for the key again and again.
    for origin in ("http://mosaico.example", "http://10.0.0.7:8080", "http://localhost.example"):
        response = log_in(https_service, key, origin)
        assert response.status_code == 403
        assert "set-cookie" not in response.headers
        assert f"log in at {PUBLIC}" in response.text


def test_login__cookie_is_secure_at_https_without_a_configured_address(service: Service) -> None:
    """A proxy ends the TLS, and nobody told the service its public address."""
    key = str(service.post("/keys", {"name": "reader", "role": "read"})["token"])
    assert "; Secure" in log_in(service, key, PUBLIC).headers["set-cookie"]
    assert "; Secure" not in log_in(service, key, "http://10.0.0.7:8080").headers["set-cookie"]


@pytest.mark.parametrize(
    ("scheme", "networks", "is_secure"),
    [("https", "127.0.0.1", True), ("http", "127.0.0.1", False), ("https", "", False)],
    ids=["https", "http", "no trusted proxy"],
)
def test_login_link__cookie_is_secure_where_a_trusted_proxy_says_https(
    service: Service, scheme: str, networks: str, is_secure: bool
) -> None:
    """A link has no origin: only the proxy knows that the browser uses https."""
    app = create_app(service.resources, proxies=TrustedProxies(parse_networks(networks)))
    with service.resources.db.begin() as session:
        token = create_login_link(session, service.resources.clock())
    headers = {"Accept": "text/html", "X-Forwarded-Proto": scheme}
    with serving(app, lifespan=True) as browser:
        response = browser.get("/login", params={"once": token}, headers=headers)
    assert response.status_code == 303
    assert ("; Secure" in response.headers["set-cookie"]) is is_secure
