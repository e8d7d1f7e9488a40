"""A deletion takes others along only if the request says so; it names them, and history forbids it."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import update

from mosaico.core.console import resource
from mosaico.triggers.models import WebhookSecret
from tests.support.service import JSON, Service, pair, run_mosaico

RULE = {
    "id": "low",
    "name": "Quality is low",
    "benchmarkId": "bench-001",
    "agentId": "agent-001",
    "kpi": "quality",
    "condition": "LESS_THAN",
    "threshold": 0.5,
    "severity": "WARNING",
}
SCHEDULE = {
    "id": "nightly",
    "name": "Every night",
    "benchmarkId": "bench-001",
    "agentId": "agent-001",
    "cronExpression": "0 0 3 * * *",
}
PATHS = {
    "agent": "/agents/agent-001",
    "benchmark": "/benchmarks/bench-001",
    "KPI": "/benchmarks/bench-001/kpis/k",
}
# What each deletion would take along.
TAKEN = {
    "agent": {"Quality is low", "Every night"},
    "benchmark": {"Quality is low", "Every night", "of 2026-11-23 02:10 UTC"},
    "KPI": {"Quality is low"},
}


@pytest.fixture
def used(service: Service) -> Service:
    """An agent, and a benchmark with a KPI, an alert rule, a schedule and a webhook secret."""
    service.create_agent()
    service.create_benchmark(measures=[{"id": "k", "name": "quality", "formula": "ROUGE"}])
    service.post("/alert-configs", RULE)
    service.post("/schedule-configs", SCHEDULE)
    service.post("/benchmarks/bench-001/webhook-secrets", {})
    with service.resources.db.begin() as session:
        session.execute(
            update(WebhookSecret).values(created_at=datetime(2026, 11, 23, 2, 10, tzinfo=UTC))
        )
    return service


def remaining(service: Service) -> dict[str, int]:
    paths = ("/alert-configs", "/schedule-configs", "/agents", "/benchmarks")
    return {path: len(service.list_items(path)) for path in paths}


def named(problem: JSON) -> set[str]:
    names = set().union(*TAKEN.values())
    return {name for name in names if name in problem["detail"]}


@pytest.mark.parametrize("kind", PATHS)
def test_delete__names_what_would_go_and_deletes_nothing(used: Service, kind: str) -> None:
    before = remaining(used)
    problem = used.expect_problem(409, "DELETE", PATHS[kind])
    assert problem["type"] == "/problems/dependents-exist"
    assert named(problem) == TAKEN[kind]
    assert len(problem["errors"]) == len(TAKEN[kind])
    assert remaining(used) == before
    used.get(PATHS[kind])


@pytest.mark.parametrize("kind", PATHS)
def test_delete__with_cascade_takes_them_along(used: Service, kind: str) -> None:
    used.delete(f"{PATHS[kind]}?cascade=true")
    used.expect_problem(404, "GET", PATHS[kind])
    after = remaining(used)
    assert after["/alert-configs"] == 0
    assert after["/schedule-configs"] == (1 if kind == "KPI" else 0)


def test_delete__resource_that_nothing_refers_to_needs_no_cascade(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(measures=[{"id": "k", "name": "quality", "formula": "ROUGE"}])
    service.delete(PATHS["KPI"])
    service.delete(PATHS["benchmark"])
    service.delete(PATHS["agent"])


@pytest.mark.parametrize("kind", ["agent", "benchmark"])
def test_delete__history_is_kept_with_cascade_too(used: Service, kind: str) -> None:
    used.upload([pair(1)], agentId="agent-001")
    run = used.complete_run()
    before = remaining(used)
    problem = used.expect_problem(409, "DELETE", f"{PATHS[kind]}?cascade=true")
    assert problem["type"] == f"/problems/{kind}-in-use"
    assert run["id"] in problem["detail"]
    assert remaining(used) == before


def test_delete_agent__benchmark_that_lists_it_is_named(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(evaluates=["agent-001"], metadata={"name": "Questions"})
    problem = service.expect_problem(409, "DELETE", "/agents/agent-001?cascade=true")
    assert problem["type"] == "/problems/agent-in-use"
    assert "Questions" in problem["detail"]


@pytest.mark.parametrize("kind", PATHS)
def test_page__asks_with_the_names_before_others_go(used: Service, kind: str) -> None:
    before = remaining(used)
    url = f"{PATHS[kind]}/delete"

    def send(**fields: Any) -> Any:
        return used.client.post(url, data=fields, headers={"Origin": str(used.client.base_url)})

    asked = send()
    assert asked.status_code == 409
    assert all(name in asked.text for name in TAKEN[kind])
    assert remaining(used) == before
    # What was added since the page was shown is not deleted unseen.
    ids = ["low", "nightly"]
    used.post("/alert-configs", {**RULE, "id": "later", "name": "Added later"})
    again = send(agreed=ids)
    assert again.status_code == 409
    assert "Added later" in again.text
    secrets = [row["id"] for row in used.list_items("/benchmarks/bench-001/webhook-secrets")]
    assert send(agreed=[*ids, "later", *secrets]).status_code == 303
    used.expect_problem(404, "GET", PATHS[kind])


def test_command__has_an_option_for_what_goes_too(
    used: Service,
) -> None:
    refused = run_mosaico(used, "benchmarks", "delete", "bench-001", "--yes")
    assert refused.exit_code == 73
    assert "Every night" in refused.stderr
    assert "--cascade" in refused.stderr
    done = run_mosaico(used, "benchmarks", "delete", "bench-001", "--yes", "--cascade")
    assert done.exit_code == 0, done.stderr
    assert remaining(used)["/schedule-configs"] == 0


def test_command__asks_on_a_terminal_before_others_go(
    used: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions: list[str] = []
    monkeypatch.setattr(resource, "is_interactive", lambda _: True)
    monkeypatch.setattr(resource, "confirm", lambda text, **_: questions.append(text))
    done = run_mosaico(used, "agents", "delete", "agent-001")
    assert done.exit_code == 0, done.stderr
    assert len(questions) == 2
    assert "Quality is low" in done.stderr
    assert remaining(used)["/agents"] == 0
