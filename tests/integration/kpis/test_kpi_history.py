"""The KPI history over HTTP."""

from tests.support.service import Service, pair

HISTORY = "/kpi-history"


def test_kpi_history__is_listed_newest_first_and_filtered(service: Service) -> None:
    for number in (1, 2):
        service.create_agent(f"agent-00{number}")
        service.create_benchmark(
            f"bench-00{number}",
            metrics=["ACCURACY"],
            measures=[
                {"id": f"q{number}", "name": "quality", "formula": "ACCURACY", "unit": "ratio"},
                {"name": "twice", "formula": "2 * ACCURACY", "direction": "NEITHER"},
            ],
        )
    service.upload([pair(1), pair(2, output="x")])
    starts = [("1", "1"), ("1", "2"), ("2", "1"), ("2", "2")]
    runs = [
        service.complete_run(benchmarkId=f"bench-00{benchmark}", agentId=f"agent-00{agent}")
        for benchmark, agent in starts
    ]

    def found(**parameters: object) -> list[tuple[int, str]]:
        entries = service.list_items(HISTORY, **parameters)
        order = [run["id"] for run in runs]
        return [(order.index(entry["runId"]), entry["name"]) for entry in entries]

    names = ("twice", "quality")
    assert found() == found(limit=3) == [(run, name) for run in (3, 2, 1, 0) for name in names]
    assert found(benchmarkId="bench-001") == [(run, name) for run in (1, 0) for name in names]
    assert found(agentId="agent-002") == [(run, name) for run in (3, 1) for name in names]
    assert found(kpi="quality", benchmarkId="bench-002") == [(3, "quality"), (2, "quality")]
    assert found(kpi="q1") == [(1, "quality"), (0, "quality")]
    assert found(benchmarkId=["bench-001", "bench-002"], agentId=["agent-002"]) == found(
        agentId="agent-002"
    )
    assert found(kpi=["q1", "q2"]) == [(run, "quality") for run in (3, 2, 1, 0)]
    assert found(kpi=["q2", "nobody"]) == found(kpi="q2") == [(3, "quality"), (2, "quality")]
    assert found(kpi="nobody") == found(benchmarkId="' OR 1=1 --") == []
    assert found(sort="recorded") == found(sort="recorded", limit=3) == found()[::-1]
    by_agent = found(sort="agent", limit=3)
    assert [run for run, _ in by_agent] == [0, 0, 2, 2, 1, 1, 3, 3]
    assert found(sort="-agent") == by_agent[::-1]
    assert [name for _, name in found(sort="kpi")] == ["quality"] * 4 + ["twice"] * 4
    assert [run for run, _ in found(sort="-benchmark")] == [3, 3, 2, 2, 1, 1, 0, 0]
    entries = service.get(HISTORY)["items"]
    assert found(sort="recorded", to="2100-01-01T00:00:00Z") == found()[::-1]
    middle = entries[4]["recordedAt"]
    # `from` includes its instant, which both KPIs of a run have.
    assert found(**{"from": middle}) == found()[:6]
    assert len(found(to=middle)) + len(found(**{"from": middle})) == 8
    newest = entries[0]
    assert (
        newest.items()
        >= {
            "benchmarkId": "bench-002",
            "agentId": "agent-002",
            "kpiRevision": 1,
            "formula": "2 * ACCURACY",
            "value": 1.0,
            "undefinedReason": None,
            "direction": "NEITHER",
            "withinThresholds": None,
            "validity": "VALID",
        }.items()
    )
    assert (entries[1]["value"], entries[1]["unit"]) == (0.5, "ratio")
    for parameters in ({"from": "soon"}, {"cursor": "x"}, {"limit": -1}, {"sort": "value"}):
        service.expect_problem(422, "GET", HISTORY, params=parameters)
