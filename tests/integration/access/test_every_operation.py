"""Every operation of the OpenAPI description, called with every kind of key: nothing leaks."""

import json
import re
from datetime import timedelta
from functools import cache
from typing import NamedTuple

import httpx
import pytest

from mosaico.access import rate_limits
from mosaico.access.rules import RoleName, role_allows
from mosaico.access.service import create_key, revoke_key
from mosaico.core.clock import utc_now
from mosaico.core.problem_documents import MEDIA_TYPE
from tests.support.described_api import api_routes, roles
from tests.support.service import Service

# These routes check the signature of the request instead of an API key (`mosaico.triggers`).
SIGNED = re.compile(r"/api/v1/webhooks/(benchmarks/[^/]+/runs|langfuse)$")
BODIES = {"POST", "PUT", "PATCH"}


class Operation(NamedTuple):
    method: str
    path: str
    role: str


@cache
def every_operation() -> list[Operation]:
    return [
        Operation(method, route.path or "", roles(route.dependant)[-1])
        for route in api_routes()
        if not SIGNED.search(route.path or "")
        for method in sorted(route.methods or ())
    ]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    # Every operation is called with invalid keys: the limit would answer for most of them.
    monkeypatch.setattr(rate_limits, "FAILURE_BURST", 1_000_000)


@pytest.fixture
def keys(service: Service) -> dict[str, str | None]:
    """A key of each kind, by kind."""
    now = utc_now()
    tokens: dict[str, str | None] = {"none": None, "bad": "x" * 40}
    key_roles: list[tuple[str, RoleName]] = [
        ("read", "read"),
        ("run", "run"),
        ("revoked", "admin"),
        ("expired", "admin"),
    ]
    for name, role in key_roles:
        ended = now if name == "expired" else None
        with service.resources.db.begin() as session:
            key = create_key(session, name, role, now=now - timedelta(days=1), expires_at=ended)
            if name == "revoked":
                revoke_key(session, key.id, now=now)
        tokens[name] = key.token.reveal()
    return tokens


def send_request(stranger: httpx.Client, operation: Operation, token: str | None) -> httpx.Response:
    with stranger.stream(
        operation.method,
        re.sub(r"\{[^}]*\}", "some-id", operation.path),
        headers={"Authorization": f"Bearer {token}"} if token is not None else {},
        json={} if operation.method in BODIES else None,
    ) as answer:
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            return answer  # the stream may be endless
        answer.read()
    return answer


def problem_without_instance(answer: httpx.Response) -> dict[str, object]:
    """The problem document without the request ID."""
    problem: dict[str, object] = answer.json()
    assert answer.headers["content-type"] == MEDIA_TYPE
    del problem["instance"]
    return problem


def test_operations__cover_the_openapi_description(service: Service) -> None:
    document = service.client.get("/openapi.json").json()["paths"]
    described = {
        (method.upper(), path)
        for path, operations in document.items()
        if path.startswith("/api/") and not SIGNED.search(path)
        for method in operations
    }
    # OpenAPI has no word for a parameter that may contain slashes.
    served = {
        (operation.method, operation.path.replace(":path}", "}")) for operation in every_operation()
    }
    assert served == described
    assert len(described) >= 40


def test_operations__invalid_keys_get_the_same_response_everywhere(
    stranger: httpx.Client, keys: dict[str, str | None]
) -> None:
    for kind in ("none", "bad", "revoked", "expired"):
        answers = [send_request(stranger, operation, keys[kind]) for operation in every_operation()]
        assert {answer.status_code for answer in answers} == {401}
        assert {answer.headers["www-authenticate"] for answer in answers} == {"Bearer"}
        assert len({json.dumps(problem_without_instance(answer)) for answer in answers}) == 1
    invalid = [
        problem_without_instance(send_request(stranger, every_operation()[0], keys[kind]))
        for kind in ("bad", "revoked")
    ]
    assert (
        invalid[0]
        == invalid[1]
        == problem_without_instance(send_request(stranger, every_operation()[0], keys["expired"]))
    )


def test_operations__insufficient_role_names_the_role_and_reveals_nothing(
    service: Service, stranger: httpx.Client, keys: dict[str, str | None]
) -> None:
    service.create_benchmark("some-id")
    for kind, role in (("read", "read"), ("run", "run")):
        for operation in every_operation():
            answer = send_request(stranger, operation, keys[kind])
            if role_allows(role, operation.role):  # type: ignore[arg-type]
                assert answer.status_code not in (401, 403), operation
                continue
            problem = problem_without_instance(answer)
            assert (answer.status_code, problem["type"]) == (403, "/problems/forbidden"), operation
            needs = (
                f"requires an API key with the role {operation.role}, but your key has the role "
                f"{role}"
            )
            assert needs in str(problem["detail"])
    assert service.get("/benchmarks/some-id")["revision"] == 1
