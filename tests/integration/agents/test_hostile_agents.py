"""What a broken or hostile client sends is refused whole, and named."""

import pytest

from tests.support.service import Service, pointers

BODIES = [
    (b"", 422),
    (b"[]", 422),
    (b"null", 422),
    (b'"text"', 422),
    (b"{", 400),
    (b'{"name": "a"} {"name": "b"}', 400),
    (b'\xff{"name": "a"}', 400),
    (b'{"name": "a", "name": "b"}', 422),
    (b'{"name": "a", "whatever": 1}', 422),
    (b'{"name": NaN}', 422),
    (b'{"name": 1e999}', 422),
    (b'{"name": 123456789012345678901234567890}', 422),
    (b'{"name": true}', 422),
    (b'{"name": ""}', 422),
    (b'{"name": "   "}', 422),
    (b'{"name": "a\\u0000b"}', 422),
    (b'{"name": "a\\ud800b"}', 422),
    (b'{"name": "a\\nb"}', 422),
    (b'{"name": "' + b"x" * 201 + b'"}', 422),
    # Of 64 KiB at most; the next is larger than a body may be, 1 MiB.
    (b'{"name": "a", "description": "' + b"x" * 70_000 + b'"}', 422),
    (b'{"name": "a", "description": "' + b"x" * 1_100_000 + b'"}', 413),
    (b'{"name": "a", "description": "\\u0000"}', 422),
    (b'{"name": "a", "archived": 1}', 422),
    (b'{"name": "a", "langfuseUrl": "javascript:alert(1)"}', 422),
    (b'{"name": "a", "langfuseUrl": "not an address"}', 422),
    (b'{"name": "a", "langfuseUrl": ""}', 422),
    (b'{"name": "a", "langfuseSecretKey": ""}', 422),
    (b'{"name": "a", "langfuseSecretKey": "\\u0000"}', 422),
    (b'{"name": ' + b"[" * 100_000, 422),
]


def test_agents_api__hostile_bodies_are_rejected(service: Service) -> None:
    json_type = {"Content-Type": "application/json"}
    for body, status in BODIES:
        for method, path in (("POST", "/agents"), ("PUT", "/agents/agent-001")):
            response = service.send(method, path, content=body, headers=json_type)
            assert (response.status_code, method, body[:80]) == (status, method, body[:80])
            assert response.headers["content-type"] == "application/problem+json"
    service.expect_problem(415, "POST", "/agents", content=b'{"name": "a"}')
    service.expect_problem(415, "POST", "/agents", data={"name": "a"})
    assert service.get("/agents")["items"] == []


@pytest.mark.parametrize(
    "host",
    # Metadata services of clouds, also in forms that resolvers accept: hexadecimal, a final dot.
    ["169.254.169.254", "0xa9fea9fe", "[fe80::1]", "metadata.google.internal", "metadata.goog."],
)
@pytest.mark.parametrize("field", ["langfuseUrl", "runUrl"])
def test_agents_api__metadata_hosts_are_refused_when_saved(
    service: Service, field: str, host: str
) -> None:
    url = f"http://{host}/"
    problem = service.expect_problem(422, "POST", "/agents", {"name": "a", field: url})
    assert pointers(problem) == [f"/{field}"]
    assert "never called" in problem["errors"][0]["detail"]

    agent = service.create_agent()
    service.expect_problem(422, "PATCH", f"/agents/{agent['id']}", {field: url})
