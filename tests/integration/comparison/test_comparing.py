"""Two runs held against each other: what changed, which items turned round, what these share."""

import pickle

import pytest

from app.comparison.run_pair import MetricNotCompared
from app.comparison.stored_runs import compare_runs
from tests.integration.comparison.conftest import Night, traces
from tests.support.service import JSON, Service

COMPARE = "/benchmark-runs/compare"


def compared(service: Service, base: JSON, candidate: JSON, **more: str) -> JSON:
    """The same as the route answers, but computed in this process."""
    found = compare_runs(service.resources.db, [base["id"]], candidate["id"], **more)
    return found.model_dump(mode="json")


def test_the_route_tells_of_a_drop_and_of_the_items_behind_it(
    service: Service, night: Night
) -> None:
    base = night("monday", traces([39], latencyMs=100.0, inputTokens=10, outputTokens=10))
    # The ten sums fail; each takes twice as long and costs as many tokens as before.
    worse = night("tuesday", traces(range(10), latencyMs=200.0, inputTokens=10, outputTokens=10))
    found = service.get(COMPARE, baseline=base["id"], candidate=worse["id"])
    assert (found["baseline"]["id"], found["candidate"]["id"]) == (base["id"], worse["id"])
    assert found["verdict"]["verdict"] == "REGRESSED"
    [kpi] = found["kpis"]
    # 39/40 before, 30/40 now: 10 fell and 1 rose, p = 2·(P[X<1] + P[X=1]/2) of Bin(11, ½)
    # = 2·(1 + 11/2)/2048.
    assert kpi["verdict"]["effect"] == pytest.approx(-9 / 40)
    assert kpi["verdict"]["p"] == pytest.approx(13 / 2048)
    latency, tokens = found["usage"]
    assert (latency["metric"], tokens["metric"]) == ("latency_ms", "tokens")
    assert latency["verdict"]["effect"] == pytest.approx(1.0)
    assert latency["verdict"]["verdict"] == "REGRESSED"
    assert tokens["verdict"]["effect"] == pytest.approx(0.0)
    flips = found["flippedItems"]
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
    assert {each["feature"] for each in found["enrichedFeatures"]} == {
        "tag:kind:sum",
        "tool:search",
    }
    assert found["enrichedFeatures"][0]["p"] == pytest.approx(1 / 847660528)
    assert (
        found["enrichedFeatures"][0]["count"],
        found["enrichedFeatures"][0]["baselineTotal"],
    ) == (
        10,
        30,
    )
    weight = found["constantItems"]
    assert (weight["runs"], weight["alwaysPass"], weight["alwaysFail"]) == (2, 29, 0)


def test_what_grouped_items_took_is_compared_by_group(service: Service, night: Night) -> None:
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

    found = compared(service, night("monday", slow(1.0)), night("tuesday", slow(3.0)))
    [latency] = found["usage"]
    assert (latency["verdict"]["clusters"], latency["verdict"]["verdict"]) == (4, "INCONCLUSIVE")


def test_an_item_that_falls_for_all_agents_is_the_environment(
    service: Service, night: Night
) -> None:
    for agent in ("agent-002", "agent-003"):
        service.agent(agent)
    night("b1", traces([]), "agent-002")
    night("b2", traces([1]), "agent-002")
    night("c1", traces([]), "agent-003")
    night("c2", traces([1, 2]), "agent-003")
    base = night("a1", traces([]))
    worse = night("a2", traces([1, 2, 3]))
    found = compared(service, base, worse)
    causes = {item["itemId"]: item["cause"] for item in found["flippedItems"]["items"]}
    assert causes == {"i-1": "ENVIRONMENT", "i-2": "SOME_AGENTS", "i-3": "AGENT"}
    falls = {item["itemId"]: item["agents"] for item in found["flippedItems"]["items"]}
    assert falls["i-1"] == ["agent-002", "agent-003"]
    assert [each["agentId"] for each in found["peers"]] == ["agent-002", "agent-003"]
    assert found["constantItems"]["runs"] == 6


def test_the_same_run_twice_has_nothing_to_tell(service: Service, night: Night) -> None:
    run = night("monday", traces(range(5)))
    found = compared(service, run, run)
    assert found["verdict"]["verdict"] in {"NO_EVIDENCE", "INCONCLUSIVE"}
    assert (
        found["flippedItems"]["regressions"],
        found["flippedItems"]["improvements"],
        found["enrichedFeatures"],
    ) == (0, 0, [])
    assert (found["constantItems"]["alwaysPass"], found["constantItems"]["alwaysFail"]) == (35, 5)


def test_an_invalid_run_has_no_verdict_but_its_items_are_told(
    service: Service, night: Night
) -> None:
    base = night("monday", traces([]))
    lost = [
        trace | ({"outcome": "infra_error"} if number < 10 else {})
        for number, trace in enumerate(traces([20]))
    ]
    found = compared(service, base, night("tuesday", lost))
    assert found["verdict"]["verdict"] == "INVALID"
    assert "the candidate is invalid" in found["verdict"]["reason"]
    assert [item["itemId"] for item in found["flippedItems"]["items"]] == ["i-20"]


def test_what_cannot_be_compared_is_refused(service: Service, night: Night) -> None:
    run = night("monday", traces([]))
    unread = service.start(runName="nobody-uploaded-it")
    problem = service.refused(
        409, "GET", COMPARE, params={"baseline": run["id"], "candidate": unread["id"]}
    )
    assert problem["type"].endswith("run-not-comparable")
    service.refused(404, "GET", COMPARE, params={"baseline": "none", "candidate": run["id"]})
    with pytest.raises(MetricNotCompared, match="name one of ACCURACY") as refused:
        compared(service, run, run, metric="ROUGE")
    # It crosses from one process to the other as it is.
    again = pickle.loads(pickle.dumps(refused.value))
    assert (again.detail, again.error_code) == (refused.value.detail, "metric-not-compared")
    service.benchmark("other", metrics=["ACCURACY"])
    other = service.completed(benchmarkId="other", runName="monday")
    service.refused(422, "GET", COMPARE, params={"baseline": run["id"], "candidate": other["id"]})
