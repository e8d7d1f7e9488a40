"""What GET answers may be sent back to each PUT and PATCH route: unchanged, and with one changed field."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.support.described_api import api_routes
from tests.support.people import create_person
from tests.support.service import JSON, Service, pair, pointers


class RoundTrip(NamedTuple):
    """A route that edits, how to make its resource, a field to change, and one that is read-only."""

    create: Callable[[Service], str]
    change: tuple[str, Any]
    read_only: str
    read: Callable[[JSON], JSON] = lambda answer: answer


def create_agent(service: Service) -> str:
    service.create_agent(
        langfusePublicKey="pk-lf-1",
        langfuseSecretKey="sk-lf-1",
        runUrl="https://agent.example/run/secret-token",
    )
    return "/agents/agent-001"


def create_benchmark(service: Service) -> str:
    service.create_agent()
    service.create_benchmark(
        evaluates=["agent-001"],
        metadata={"name": "Quality"},
        measures=[
            {"id": "quality", "name": "quality", "formula": "AVERAGE(ROUGE, BLEU)"},
            {"id": "words", "name": "words", "formula": "ROUGE"},
        ],
    )
    return "/benchmarks/bench-001"


def create_kpi(service: Service) -> str:
    return f"{create_benchmark(service)}/kpis/quality"


def create_schedule(service: Service) -> str:
    create_benchmark(service)
    schedule = {"benchmarkId": "bench-001", "agentId": "agent-001", "cronExpression": "0 0 2 * * *"}
    service.post("/schedule-configs", {"id": "nightly", "name": "Nightly", **schedule})
    return "/schedule-configs/nightly"


def create_rule(service: Service) -> str:
    create_benchmark(service)
    watched = {"benchmarkId": "bench-001", "kpi": "quality", "condition": "REGRESSED"}
    sent = {
        "channels": ["EMAIL", "WEBHOOK"],
        "recipients": ["ops@example.org", "https://hooks.example/a/token"],
    }
    service.post("/alert-configs", {"id": "rule", "name": "Quality", **watched, **sent})
    return "/alert-configs/rule"


def create_silence(service: Service) -> str:
    silence = {"matchers": {"name": "nightly-*"}, "endsAt": "2099-01-01T00:00:00Z"}
    service.post("/silences", {"id": "holiday", **silence})
    return "/silences/holiday"


def create_person_path(service: Service) -> str:
    # One that a limit can name.
    service.create_benchmark("support")
    return f"/people/{create_person(service)}"


def create_key(service: Service) -> str:
    return f"/keys/{service.post('/keys', {'name': 'ci', 'role': 'run'})['id']}"


def create_endpoint(service: Service) -> str:
    endpoint = {"channel": "WEBHOOK", "recipient": "https://hooks.example/a/token"}
    return f"/endpoints/{service.post('/endpoints', endpoint)['id']}"


def create_pin(service: Service) -> str:
    create_benchmark(service)
    service.upload([pair(number) for number in range(5)])
    service.complete_run()
    second = service.complete_run()
    service.put("/benchmarks/bench-001/baseline", {"runId": second["id"]})
    return "/benchmarks/bench-001/baseline"


ROUND_TRIPS = {
    "/agents/{agentId}": RoundTrip(create_agent, ("description", "new"), "secretSet"),
    "/benchmarks/{benchmarkId}": RoundTrip(create_benchmark, ("taskDef", "new"), "createdAt"),
    "/benchmarks/{benchmarkId}/kpis/{kpiId}": RoundTrip(create_kpi, ("unit", "%"), "benchmarkId"),
    "/benchmarks/{benchmarkId}/baseline": RoundTrip(
        create_pin, ("runId", "latest"), "agentId", lambda answer: answer["pinned"][0]
    ),
    "/schedule-configs/{scheduleId}": RoundTrip(
        create_schedule, ("timezone", "Europe/Rome"), "updatedAt"
    ),
    "/alert-configs/{alertConfigId}": RoundTrip(
        create_rule, ("severity", "CRITICAL"), "promisedFalsePages"
    ),
    "/silences/{silenceId}": RoundTrip(create_silence, ("comment", "holiday"), "startsAt"),
    "/people/{personId}": RoundTrip(create_person_path, ("only", ["support"]), "issuer"),
    "/keys/{keyId}": RoundTrip(create_key, ("name", "other"), "role"),
    "/endpoints/{endpointId}": RoundTrip(create_endpoint, ("dailySummary", True), "recipient"),
}
ROUTES = sorted(
    (method, (route.path or "").removeprefix("/api/v1"))
    for route in api_routes()
    for method in (route.methods or set()) & {"PUT", "PATCH"}
)


@pytest.mark.parametrize(("method", "route"), ROUTES)
def test_edit__answer_of_get_is_accepted_unchanged_or_with_one_field_that_is_not_read_only(
    service: Service, method: str, route: str
) -> None:
    trip = ROUND_TRIPS[route]
    path = trip.create(service)
    shown = trip.read(service.get(path))
    answer = service.send(method, path, shown)
    assert answer.status_code == 200, answer.text
    assert answer.json() == shown
    assert trip.read(service.get(path)) == shown
    problem = service.expect_problem(422, method, path, {**shown, trip.read_only: "other"})
    assert pointers(problem) == [f"/{trip.read_only}"]
    assert trip.read(service.get(path)) == shown
    name, value = trip.change
    answer = service.send(method, path, {**shown, name: value})
    assert answer.status_code == 200, answer.text
    changed = answer.json()
    assert changed[name] == value or value == "latest"
    derived = {name, "revision", "updatedAt", "createdAt", "nextRunAt", "clockChanges", "pinnedAt"}
    assert {key for key in shown if changed[key] != shown[key]} <= derived
