"""Comparisons of two runs: verdicts, flipped items, enriched features, usage."""

import pickle
from typing import Any

import pytest

from mosaico.comparison.pair_comparison import MetricNotCompared
from mosaico.comparison.stored_run_comparison import ComparisonRequest, compare_runs
from tests.integration.comparison.conftest import CompleteRun, traces
from tests.support.service import JSON, Service

COMPARE = "/benchmark-runs/compare"


def compared(service: Service, base: JSON, candidate: JSON, **more: Any) -> JSON:
    """The same as the route answers, but computed in this process."""
    comparison = compare_runs(
        service.resources.db, ComparisonRequest((base["id"],), candidate["id"], **more)
    )
    return comparison.model_dump(mode="json")


def test_compare_route__reports_a_drop_and_its_items(
    service: Service, complete_run: CompleteRun
) -> None:
    base = complete_run("monday", traces([39], latencyMs=100.0, inputTokens=10, outputTokens=10))
    # The ten sums fail; each takes twice as long and costs as many tokens as before.
    worse = complete_run(
        "tuesday", traces(range(10), latencyMs=200.0, inputTokens=10, outputTokens=10)
    )
    comparison = service.get(COMPARE, baseline=base["id"], candidate=worse["id"])
    assert (comparison["baseline"]["id"], comparison["candidate"]["id"]) == (
        base["id"],
        worse["id"],
    )
    assert comparison["verdict"]["verdict"] == "REGRESSED"
    [kpi] = comparison["kpis"]
    # 39/40 before, 30/40 now: 10 fell and 1 rose. In fortieths: mean -9, deviations² 11 - 81/40 =
    # 8.975, CR2 ·40/39 = 9.205; the pad 1 · 29/40 · 40/39 = 0.744; whole runs, 2 · 0.015² · 40² = 0.72;
    # t = 9 / √10.669 = 2.755 of 39.
    assert kpi["verdict"]["effect"] == pytest.approx(-9 / 40)
    assert kpi["verdict"]["p"] == pytest.approx(0.00886, abs=1e-5)
    latency, tokens = comparison["usage"]
    assert (latency["metric"], tokens["metric"]) == ("LATENCY_MS", "TOTAL_TOKENS")
    assert latency["verdict"]["effect"] == pytest.approx(1.0)
    assert latency["verdict"]["verdict"] == "REGRESSED"
    assert tokens["verdict"]["effect"] == pytest.approx(0.0)
    flips = comparison["flippedItems"]
    assert (flips["metric"], flips["regressions"], flips["improvements"]) == ("ACCURACY", 10, 1)
    assert [item["itemId"] for item in flips["items"]] == [
        *(f"i-{number}" for number in range(10)),
        "i-39",
    ]
    first = flips["items"][0]
    assert (first["baseline"], first["candidate"], first["change"]) == (1.0, 0.0, -1.0)
    assert first["traces"][0] == {
        "side": "candidate",
        "traceId": "t-0",
        "url": "https://langfuse.example/t/0",
    }
    # All ten that fell are sums, and none of the thirty others: 1 of (40 over 10) ways.
    assert {feature["feature"] for feature in comparison["enrichedFeatures"]} == {
        "tag:kind:sum",
        "tool:search",
    }
    assert comparison["enrichedFeatures"][0]["p"] == pytest.approx(1 / 847660528)
    assert (
        comparison["enrichedFeatures"][0]["count"],
        comparison["enrichedFeatures"][0]["baselineTotal"],
    ) == (
        10,
        30,
    )
    weight = comparison["constantItems"]
    assert (weight["runs"], weight["alwaysPass"], weight["alwaysFail"]) == (2, 29, 0)


def test_usage__clustered_items_are_compared_by_cluster(
    service: Service, complete_run: CompleteRun
) -> None:
    # Four groups of ten: one group is three times as slow, which four groups cannot tell from chance.
    service.patch("/benchmarks/bench-001", {"clusterField": "group"})

    def slow(factor: float) -> list[JSON]:
        took = [100.0 + number for number in range(40)]
        return [
            trace
            | {
                "tags": [f"group:{number // 10}"],
                "latencyMs": took[number] * (factor if number < 10 else 1.01),
            }
            for number, trace in enumerate(traces([39]))
        ]

    comparison = compared(
        service, complete_run("monday", slow(1.0)), complete_run("tuesday", slow(3.0))
    )
    [latency] = comparison["usage"]
    assert (latency["verdict"]["clusters"], latency["verdict"]["verdict"]) == (4, "INCONCLUSIVE")


def test_flipped_items__regression_of_all_agents_is_the_environment(
    service: Service, complete_run: CompleteRun
) -> None:
    for agent in ("agent-002", "agent-003"):
        service.create_agent(agent)
    # Item 1 falls for all three agents, item 2 for two of them, item 3 for one.
    complete_run("b1", traces([]), "agent-002")
    complete_run("b2", traces([1]), "agent-002")
    complete_run("c1", traces([]), "agent-003")
    complete_run("c2", traces([1, 2]), "agent-003")
    base = complete_run("a1", traces([]))
    worse = complete_run("a2", traces([1, 2, 3]))
    comparison = compared(service, base, worse)
    causes = {item["itemId"]: item["cause"] for item in comparison["flippedItems"]["items"]}
    assert causes == {"i-1": "ENVIRONMENT", "i-2": "SOME_AGENTS", "i-3": "AGENT"}
    falls = {item["itemId"]: item["agents"] for item in comparison["flippedItems"]["items"]}
    assert falls["i-1"] == ["agent-002", "agent-003"]
    assert [peer["agentId"] for peer in comparison["peers"]] == ["agent-002", "agent-003"]
    assert comparison["constantItems"]["runs"] == 6


def test_compare__same_run_twice_has_no_differences(
    service: Service, complete_run: CompleteRun
) -> None:
    run = complete_run("monday", traces(range(5)))
    comparison = compared(service, run, run)
    assert comparison["verdict"]["verdict"] == "NO_EVIDENCE"
    assert (
        comparison["flippedItems"]["regressions"],
        comparison["flippedItems"]["improvements"],
        comparison["enrichedFeatures"],
    ) == (0, 0, [])
    assert (
        comparison["constantItems"]["alwaysPass"],
        comparison["constantItems"]["alwaysFail"],
    ) == (35, 5)


def test_compare__invalid_run_has_no_verdict_but_flipped_items(
    service: Service, complete_run: CompleteRun
) -> None:
    base = complete_run("monday", traces([]))
    incomplete = [
        trace | ({"outcome": "infra_error"} if number < 10 else {})
        for number, trace in enumerate(traces([20]))
    ]
    comparison = compared(service, base, complete_run("tuesday", incomplete))
    assert comparison["verdict"]["verdict"] == "INVALID"
    assert "the candidate is invalid" in comparison["verdict"]["reason"]
    assert [item["itemId"] for item in comparison["flippedItems"]["items"]] == ["i-20"]


def test_compare__incomparable_runs_are_refused(
    service: Service, complete_run: CompleteRun
) -> None:
    run = complete_run("monday", traces([]))
    unread = service.start_run(runName="nobody-uploaded-it")
    problem = service.expect_problem(
        409, "GET", COMPARE, params={"baseline": run["id"], "candidate": unread["id"]}
    )
    assert problem["type"].endswith("run-not-comparable")
    service.expect_problem(404, "GET", COMPARE, params={"baseline": "none", "candidate": run["id"]})
    with pytest.raises(MetricNotCompared, match="name one of ACCURACY") as refused:
        compared(service, run, run, metric="ROUGE")
    # It crosses from one process to the other as it is.
    again = pickle.loads(pickle.dumps(refused.value))
    assert (again.detail, again.error_code) == (refused.value.detail, "metric-not-compared")
    service.create_benchmark("other", metrics=["ACCURACY"])
    other = service.complete_run(benchmarkId="other", runName="monday")
    service.expect_problem(
        422, "GET", COMPARE, params={"baseline": run["id"], "candidate": other["id"]}
    )
