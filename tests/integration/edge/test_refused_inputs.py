"""Inputs that were accepted, misread or answered in the wrong order; sent to the real application."""

import socket
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app.core.db import Database
from app.core.encryption import SecretBox
from app.core.keyset import encode_cursor
from app.core.resources import Resources
from app.core.web.allowed_hosts import HostPolicy, host_policy
from app.jobs.process_pool import ProcessPool
from tests.support.recycling import Databases
from tests.support.service import Service, pair, pointers, running_service

INT64_MAX = 2**63 - 1
AGENT = {"id": "agent-002", "name": "Pelican"}
CRON = {"cronExpression": "0 0 3 * * *"}
KEY = {"name": "spare", "role": "read"}
PROBLEM = "application/problem+json"


@pytest.fixture(scope="module")
def service(
    databases: Databases,
    plugins: None,
    metric_pool: ProcessPool,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    """The service with one completed run, shared by the tests of this file."""
    name = databases.take()
    db = Database(databases.url(name), pool_size=10, name="tests")
    resources = Resources(
        db=db,
        secrets=SecretBox.from_keys([b64encode(bytes(range(32))).decode()]),
        data_dir=tmp_path_factory.mktemp("data"),
        options={"langfuse_default_url": "https://cloud.langfuse.com"},
    )
    try:
        with running_service(resources, metric_pool) as running:
            running.create_agent()
            running.create_benchmark(metrics=["ROUGE"], evaluates=["agent-001"])
            running.upload([pair(1)])
            running.complete_run()
            yield running
    finally:
        db.dispose()
        databases.give_back(name)


@pytest.fixture
def stranger(service: Service) -> Iterator[httpx.Client]:
    """A client without an API key."""
    with httpx.Client(base_url=service.client.base_url, trust_env=False, timeout=30) as client:
        yield client


@pytest.mark.parametrize("position", [INT64_MAX, 2**31, -(2**31) - 1, -INT64_MAX])
def test_results_cursor__position_out_of_range_is_refused(position: int, service: Service) -> None:
    [run] = service.get("/benchmark-runs", status="COMPLETED")["items"]
    path = f"/benchmark-runs/{run['id']}/results?cursor={encode_cursor([position])}"
    assert pointers(service.expect_problem(422, "GET", path)) == ["cursor"]


@pytest.mark.parametrize("key", [None, "Bearer " + "x" * 40, "Basic dTpw"])
@pytest.mark.parametrize(
    ("method", "path", "request_fields"),
    [
        ("POST", "/agents", {"content": b"{not json"}),
        ("POST", "/agents", {"content": b"a,b", "headers": {"Content-Type": "text/csv"}}),
        ("POST", "/agents", {"content": b"[" * 2_000_000}),
        ("POST", "/agents", {"json": {"nmae": 1}}),
        ("GET", "/benchmark-runs?benchmarkid=x", {}),
        ("GET", "/benchmark-runs?limit=0", {}),
        ("GET", "/agents/%FF", {}),
        ("GET", "/agents/a%00b", {}),
        ("POST", "/local-datasets", {"content": b"x"}),
        ("DELETE", "/agents", {}),
        ("GET", "/nothing", {}),
    ],
)
def test_stranger__is_refused_before_anything_is_checked(
    method: str, path: str, request_fields: dict[str, Any], key: str | None, stranger: httpx.Client
) -> None:
    headers = {**request_fields.get("headers", {}), **({"Authorization": key} if key else {})}
    response = stranger.request(method, f"/api/v1{path}", **{**request_fields, "headers": headers})
    assert response.status_code == 401
    assert response.headers["content-type"] == PROBLEM
    assert response.headers["www-authenticate"] == "Bearer"


def _exchange(service: Service, request: bytes) -> bytes:
    url = service.client.base_url
    with socket.create_connection((url.host, url.port or 80), timeout=30) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: a\x00b\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX\x00: a\r\n\r\n",
        b"GET /health\x00z HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200 + b"\r\n\r\n",
    ],
)
def test_malformed_request__gets_a_problem_document(request_bytes: bytes, service: Service) -> None:
    head, _, body = _exchange(service, request_bytes).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert PROBLEM.encode() in head
    assert b"x-request-id" in head.lower()
    assert b"/problems/malformed-request" in body


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8080", "10.0.0.1", "[::2]"],
)
def test_host__foreign_name_is_refused(host: str, service: Service) -> None:
    response = service.client.get("/api/v1/agents", headers={"Host": host})
    assert response.status_code == 421
    assert response.headers["content-type"] == PROBLEM
    assert "MOSAICO_ALLOWED_HOSTS" in response.json()["detail"]
    assert service.client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:80"])
def test_host__loopback_is_accepted(host: str, service: Service) -> None:
    assert service.client.get("/api/v1/agents", headers={"Host": host}).status_code == 200


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


def test_query_parameters__repeated_status_lists_every_status(service: Service) -> None:
    [run] = service.get("/benchmark-runs", status="COMPLETED")["items"]
    completed, pending = run["id"], service.start_run()["id"]

    def ids(query: str) -> set[str]:
        response = service.send("GET", f"/benchmark-runs{query}")
        return {run["id"] for run in response.json()["items"]}

    assert ids("?status=COMPLETED&status=FAILED") == {completed}
    assert ids("?status=COMPLETED&status=PENDING") == {completed, pending}
    assert ids("?status=FAILED&status=RUNNING") == set()


@pytest.mark.parametrize("path", ["/deliveries", "/trigger-events", "/alerts", "/incidents"])
def test_query_parameters__states_of_other_lists_may_be_repeated(
    path: str, service: Service
) -> None:
    name, values = {
        "/deliveries": ("status", ("PENDING", "DELIVERED")),
        "/trigger-events": ("type", ("new-run", "agent-updated")),
        "/alerts": ("state", ("FIRING", "RESOLVED")),
        "/incidents": ("state", ("OPEN", "RESOLVED")),
    }[path]
    query = "&".join(f"{name}={value}" for value in values)
    assert service.send("GET", f"{path}?{query}").json()["items"] == []


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/benchmark-runs?limit=1&limit=2", "limit"),
        ("/kpi-history?agentId=a&agentId=b", "agentId"),
        ("/benchmark-runs?cursor=a&cursor=b", "cursor"),
        ("/agents?archived=true&archived=false", "archived"),
        ("/audit?action=a&action=b", "action"),
    ],
)
def test_query_parameters__other_repeated_parameter_is_refused(
    path: str, name: str, service: Service
) -> None:
    problem = service.expect_problem(422, "GET", path)
    assert problem["type"] == "/problems/repeated-parameter"
    assert pointers(problem) == [name]


@pytest.mark.parametrize(
    "url",
    [
        "https://langfuse.example\r\nX-Injected: 1",
        "https://langfuse.example\n",
        "https://lang\tfuse.example",
        "http:///x",
        "http:/x",
        "https://langfuse.example:99999",
        "https://langfuse.example:0",
        "https://langfuse.example:-1",
        "https://langfuse.example\\@evil.example",
        "https://user:password@langfuse.example",
        "https://",
        "https://[::1",
        "https://lang fuse.example",
        "https://langfuse.example/\u202e",
    ],
)
def test_langfuse_url__malformed_url_is_refused(url: str, service: Service) -> None:
    problem = service.expect_problem(422, "POST", "/agents", {**AGENT, "langfuseUrl": url})
    assert pointers(problem) == ["/langfuseUrl"]


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1:3000", "https://l.example/base", "http://[::1]:1"]
)
def test_langfuse_url__valid_url_is_stored_unchanged(url: str, service: Service) -> None:
    assert service.create_agent(f"agent-{len(url)}", langfuseUrl=url)["langfuseUrl"] == url


@pytest.mark.parametrize("zone", ["localtime", "Factory", "posixrules", "../etc/passwd"])
def test_time_zone__name_without_a_place_is_refused(zone: str, service: Service) -> None:
    body = {**CRON, "timezone": zone}
    problem = service.expect_problem(422, "POST", "/schedule-configs/preview", body)
    assert pointers(problem) == ["/timezone"]
    service.expect_problem(422, "GET", f"/daily-summary?timezone={zone}")


@pytest.mark.parametrize("step", ["99999999999", "2147483648", "9" * 200])
def test_cron__step_above_every_integer_is_refused(step: str, service: Service) -> None:
    body = {"cronExpression": f"0 */{step} * * * *"}
    problem = service.expect_problem(422, "POST", "/schedule-configs/preview", body)
    assert pointers(problem) == ["/cronExpression"]


@pytest.mark.parametrize(
    "at", ["0", "-1", "1e3", "1700000000", "2026-11-22", "2026-11-22T07:00:00"]
)
@pytest.mark.parametrize("path", ["/benchmark-runs", "/audit", "/kpi-history"])
def test_query_times__number_or_time_without_zone_is_refused(
    at: str, path: str, service: Service
) -> None:
    assert pointers(service.expect_problem(422, "GET", f"{path}?from={at}")) == ["from"]


@pytest.mark.parametrize("at", [0, "0", 4_000_000_000, True])
def test_body_times__number_is_refused(at: object, service: Service) -> None:
    problem = service.expect_problem(422, "POST", "/keys", {**KEY, "expiresAt": at})
    assert pointers(problem) == ["/expiresAt"]


def test_405__allows_the_documented_methods_of_every_path(service: Service) -> None:
    document = service.client.get("/openapi.json").json()["paths"]
    for path, operations in document.items():
        response = service.client.options(path.replace("{", "").replace("}", ""))
        allowed = set(response.headers["allow"].split(", "))
        assert allowed == {method.upper() for method in operations}, path


def test_endpoint_secret__channel_that_does_not_sign_is_refused(service: Service) -> None:
    body = {"channel": "EMAIL", "recipient": "ann@example.org"}
    endpoint = service.post("/endpoints", body)
    path = f"/endpoints/{endpoint['id']}/secret"
    problem = service.expect_problem(409, "POST", path, {})
    assert problem["type"] == "/problems/endpoint-not-signed"
    assert service.get(f"/endpoints/{endpoint['id']}")["secretSet"] is False
