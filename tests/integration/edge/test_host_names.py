"""Host names under which the service answers, and those that it refuses."""

import pytest

from mosaico.core.network_policy import parse_networks
from mosaico.core.resources import Resources
from mosaico.core.web.client_network import TrustedProxies
from mosaico.core.web.request_origin import HostPolicy, host_policy
from mosaico.main import create_app
from tests.support.http import serving
from tests.support.service import Service

PROBLEM = "application/problem+json"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8080", "10.0.0.1", "[::2]"],
)
def test_host__foreign_name_is_refused(host: str, module_service: Service) -> None:
    response = module_service.client.get("/api/v1/agents", headers={"Host": host})
    assert response.status_code == 421
    assert response.headers["content-type"] == PROBLEM
    assert "MOSAICO_ALLOWED_HOSTS" in response.json()["detail"]
    assert module_service.client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:80"])
def test_host__loopback_is_accepted(host: str, module_service: Service) -> None:
    assert module_service.client.get("/api/v1/agents", headers={"Host": host}).status_code == 200


def test_host__the_name_that_a_trusted_proxy_forwards_is_checked(
    service_resources: Resources,
) -> None:
    proxies = TrustedProxies(parse_networks("127.0.0.1"))
    app = create_app(service_resources, proxies=proxies)
    with serving(app) as client:
        # A proxy may send the name that the client used beside that of its own upstream.
        inner, outer = {"Host": "api.internal"}, {"X-Forwarded-Host": "localhost"}
        assert client.get("/problems/not-found", headers=inner).status_code == 421
        assert client.get("/problems/not-found", headers={**inner, **outer}).status_code == 200
        assert client.get("/", headers={"X-Forwarded-Host": "evil.example"}).status_code == 421


ANYWHERE = host_policy(None, bind_host="0.0.0.0", public_host="mosaico.example.org")
LISTED = host_policy("a.example, *.b.example", bind_host="192.168.1.5", public_host=None)


@pytest.mark.parametrize(
    ("policy", "host", "is_allowed"),
    [
        (ANYWHERE, "10.1.2.3:8080", True),
        (ANYWHERE, "mosaico.example.org", True),
        (ANYWHERE, "other.example.org", False),
        (ANYWHERE, "[fe80::1]:80", True),
        (LISTED, "192.168.1.5:8080", True),
        (LISTED, "192.168.1.6", False),
        (LISTED, "A.example.", True),
        (LISTED, "x.y.b.example", True),
        (LISTED, "b.example", False),
        (LISTED, "xb.example", False),
        (LISTED, "", False),
        (LISTED, "a.example:80:80", False),
        (LISTED, "a.example:x", False),
        (host_policy("*", bind_host="127.0.0.1", public_host=None), "any.example", True),
    ],
)
def test_host_policy__allows_configured_names(
    policy: HostPolicy, host: str, is_allowed: bool
) -> None:
    assert policy.allows(host) is is_allowed
