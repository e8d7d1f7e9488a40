"""Whose fault the errors of a run are: by the rules of the service, and by those of its benchmark."""

from typing import Any

import pytest

from tests.support.service import JSON, Service, pair

RUNS = "/benchmark-runs"
BENCHMARK = "/benchmarks/bench-001"
PATTERN = "^pump .* broken$"


def upload_errors(service: Service, run_name: str = "run-1") -> None:
    """Six answers, two errors that the service knows, and two of a pump that it does not know."""
    errors = ["KeyError: 'x'", "Server disconnected", "pump 1 is broken", "pump 2 is broken"]
    failed = [
        {
            "traceId": f"e{n}",
            "input": "?",
            "expectedOutput": "a",
            "outcome": outcome,
            "error": error,
        }
        for n, (error, outcome) in enumerate(
            zip(errors, ["agent_error", "infra_error", "agent_error", "agent_error"], strict=True)
        )
    ]
    service.upload([*map(pair, range(6)), *failed], run_name=run_name)


def create(service: Service, **fields: Any) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["STATUS"], maxErrorShare=1, minCoverage=0, **fields)
    upload_errors(service)


def status_of(service: Service, run: JSON) -> tuple[float, int]:
    """The mean of STATUS, and the number of traces that have one."""
    [metric] = service.get(f"{RUNS}/{run['id']}/metrics")["items"]
    return round(metric["mean"], 6), metric["n"]


def test_errors__are_listed_by_rule(service: Service) -> None:
    create(service)
    run = service.complete_run()
    groups = service.get(f"{RUNS}/{run['id']}/errors")["items"]
    assert [(g["fault"], g["count"], g["example"], g["traceId"]) for g in groups] == [
        ("agent", 2, "pump 1 is broken", "e2"),
        ("agent", 1, "KeyError: 'x'", "e0"),
        ("infrastructure", 1, "Server disconnected", "e1"),
    ]
    page = service.client.get(f"/runs/{run['id']}").text
    assert "class KeyError" in page
    assert "pump 1 is broken" in page


def test_infra_errors__excuse_the_agent_in_the_runs_of_the_benchmark(service: Service) -> None:
    create(service, infraErrors=[PATTERN])
    run = service.complete_run()
    # Of ten traces one is an error of the agent, and three are nobody's.
    assert status_of(service, run) == (round(6 / 7, 6), 7)
    assert run["errorShare"] == pytest.approx(3 / 10)
    groups = service.get(f"{RUNS}/{run['id']}/errors")["items"]
    assert [(g["rule"], g["fault"], g["count"]) for g in groups][:1] == [
        (f"infraErrors {PATTERN}", "infrastructure", 2)
    ]
    results = service.list_items(f"{RUNS}/{run['id']}/results")
    assert [r["outcome"] for r in results[6:]] == [
        "agent_error", "infra_error", "infra_error", "infra_error",
    ]  # fmt: skip
    assert service.get(f"{RUNS}/{run['id']}/traces/e2")["outcome"] == "infra_error"


def test_infra_errors__that_change_are_a_change_of_the_ruler(service: Service) -> None:
    create(service)
    before = service.complete_run()
    assert status_of(service, before) == (round(6 / 9, 6), 9)
    service.patch(BENCHMARK, {"infraErrors": [PATTERN]})
    # The same traces: nothing that was measured by the other rules is taken over.
    run = service.complete_run()
    assert status_of(service, run) == (round(6 / 7, 6), 7)
    service.patch(BENCHMARK, {"infraErrors": []})
    assert status_of(service, service.complete_run()) == (round(6 / 9, 6), 9)

    upload_errors(service, "run-2")
    service.patch(BENCHMARK, {"infraErrors": [PATTERN]})
    verdict = service.complete_run()["verdict"]
    assert verdict["verdict"] not in ("REGRESSED", "IMPROVED")
    assert any("infraErrors" in text for text in verdict["measuredDifferently"])


def test_infra_errors__an_invalid_pattern_is_refused_at_once(service: Service) -> None:
    body = {"id": "b", "datasetRef": "support", "infraErrors": ["fine", "pump ("]}
    problem = service.expect_problem(422, "POST", "/benchmarks", body)
    [error] = problem["errors"]
    assert error["pointer"] == "/infraErrors/1"
    assert "regular expression" in error["detail"]


def test_infra_errors__are_said_of_the_items_of_a_comparison(service: Service) -> None:
    create(service, infraErrors=[PATTERN])
    base = service.complete_run()
    upload_errors(service, "run-2")
    run = service.complete_run()
    items = service.list_items(
        f"{RUNS}/compare/items", baseline=base["id"], candidate=run["id"], metric="STATUS"
    )
    errors = {item["itemId"]: item["errors"] for item in items}
    assert (errors["e0"], errors["e2"]) == (["agent error"], ["infra error"])
    comparison = service.get(f"{RUNS}/compare", baseline=base["id"], candidate=run["id"])
    assert comparison["candidate"]["id"] == run["id"]
