"""Verdicts of runs: regressions, chance, and what cannot be compared."""

from collections.abc import Collection

import pytest

from mosaico.items import queries as item_queries
from tests.integration.verdicts.conftest import CompleteRun, traces
from tests.support.service import JSON, Service

# 5 of 40 items fail on a good complete_run: 35/40 = 0.875.
GOOD = range(5)


def test_first_run__has_no_verdict_but_a_reason(
    service: Service, complete_run: CompleteRun
) -> None:
    run = complete_run("monday", traces(GOOD))
    assert run["validity"] == "VALID"
    assert run["verdict"]["verdict"] is None
    assert run["verdict"]["reason"].startswith("first run")
    [kpi] = service.get(f"/benchmark-runs/{run['id']}/kpis")["items"]
    assert kpi["verdict"]["verdict"] is None
    # Wilson for 35 of 40: (0.875 + z²/80 ± z·√(0.875·0.125/40 + z²/6400)) / (1 + z²/40).
    assert (kpi["intervalLow"], kpi["intervalHigh"]) == pytest.approx((0.7389, 0.9454), abs=1e-4)


def test_verdict__fifteen_regressed_items_are_a_regression(
    service: Service, complete_run: CompleteRun
) -> None:
    first = complete_run("monday", traces(GOOD))
    run = complete_run("tuesday", traces(range(20)))
    assert run["verdict"]["verdict"] == "REGRESSED"
    assert run["verdict"]["baseline"] == {"mode": "PREVIOUS_VALID", "runIds": [first["id"]]}
    [kpi] = service.get(f"/benchmark-runs/{run['id']}/kpis")["items"]
    # 20/40 after 35/40: 15 discordant items, all to the worse, p = 2 · 2^-15.
    assert kpi["verdict"]["verdict"] == "REGRESSED"
    assert kpi["verdict"]["effect"] == pytest.approx(-0.375)
    assert kpi["verdict"]["p"] < 0.001
    assert "chance alone does not explain" in kpi["verdict"]["explanation"]
    [metric] = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    assert metric["verdict"]["verdict"] == "REGRESSED"
    assert metric["intervalLow"] < 0.5 < metric["intervalHigh"]


def test_verdict__same_traces_are_no_evidence_of_a_change(
    service: Service, complete_run: CompleteRun
) -> None:
    complete_run("monday", traces(GOOD, items=100))
    run = complete_run("tuesday", traces(GOOD, items=100))
    assert run["verdict"]["verdict"] == "NO_EVIDENCE"
    assert run["verdict"]["items"] == {
        "compared": 100,
        "onlyBaseline": 0,
        "onlyCandidate": 0,
        "revised": 0,
        "leftOut": 0,
        "areSamples": False,
    }


def test_verdict__compares_the_shared_items(service: Service, complete_run: CompleteRun) -> None:
    complete_run("monday", traces(GOOD))
    revised = [
        trace | {"expectedOutput": "perhaps"} if trace["itemId"] == "i-39" else trace
        for trace in traces(GOOD, items=42)[1:]
    ]
    run = complete_run("tuesday", revised)
    # 42 items without the first: 39 are common, one of them with another expected output.
    assert run["verdict"]["items"] == {
        "compared": 38,
        "onlyBaseline": 1,
        "onlyCandidate": 2,
        "revised": 1,
        "leftOut": 0,
        "areSamples": False,
    }
    assert run["verdict"]["differences"] == [
        "2 items are new",
        "1 item is missing",
        "1 item has another task or expected output",
    ]


def test_invalid_run__has_an_invalid_verdict_and_is_no_baseline(
    service: Service, complete_run: CompleteRun
) -> None:
    first = complete_run("monday", traces(GOOD))
    failed = [trace | {"outcome": "infra_error"} for trace in traces(GOOD)]
    invalid = complete_run("tuesday", failed)
    assert (invalid["validity"], invalid["verdict"]["verdict"]) == ("INVALID", "INVALID")
    assert "invalid" in invalid["verdict"]["reason"]
    run = complete_run("wednesday", traces(GOOD))
    assert run["verdict"]["baseline"]["runIds"] == [first["id"]]


@pytest.mark.parametrize(("wrong", "verdict"), [(range(20), "REGRESSED"), (GOOD, "NO_EVIDENCE")])
def test_changed_formula__is_computed_from_the_values_of_the_baseline(
    service: Service, complete_run: CompleteRun, wrong: Collection[int], verdict: str
) -> None:
    first = complete_run("monday", traces(GOOD))
    # A tenth of the value of the baseline: no change of the agent.
    service.patch("/benchmarks/bench-001/kpis/quality", {"formula": "ACCURACY / 10"})
    run = complete_run("tuesday", traces(wrong))
    [kpi] = service.get(f"/benchmark-runs/{run['id']}/kpis")["items"]
    assert kpi["verdict"]["verdict"] == run["verdict"]["verdict"] == verdict
    assert kpi["verdict"]["baselineValue"] == pytest.approx(35 / 400)
    assert run["verdict"]["baseline"]["runIds"] == [first["id"]]
    [change] = run["verdict"]["measuredDifferently"]
    assert change.startswith("the KPI quality is measured differently from here on (formula ")


def test_trials__do_not_change_the_weight_of_an_item(
    service: Service, complete_run: CompleteRun
) -> None:
    service.post(
        "/benchmarks/bench-001/kpis",
        {"id": "twice", "name": "twice", "formula": "ACCURACY + ACCURACY"},
    )
    # Ten of 40 items fail, in four trials each; all others pass in the only one: 30/40 and not 30/70.
    once = traces(range(10))
    repeated = once + [trace for trace in traces(range(10), trials=4)[:40] if trace["trial"]]
    for name in ("monday", "tuesday"):
        run = complete_run(name, repeated)
    [metric] = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    kpis = {row["name"]: row for row in service.get(f"/benchmark-runs/{run['id']}/kpis")["items"]}
    assert metric["mean"] == metric["verdict"]["value"] == kpis["quality"]["value"] == 0.75
    assert (kpis["twice"]["value"], kpis["twice"]["verdict"]["value"]) == (1.5, 1.5)
    for row, value in ((metric, 0.75), (kpis["quality"], 0.75), (kpis["twice"], 1.5)):
        assert row["intervalLow"] < value < row["intervalHigh"]
        # Around 30/70 the interval of the second would hold 0.857 in the middle.
        assert row["intervalLow"] > value * 0.75


def test_verdict__same_traces_give_the_same_bits(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(
        metrics=["ROUGE", {"key": "F1_SCORE", "options": {"labels": "macro"}}],
        measures=[
            {"id": "mixed", "name": "mixed", "formula": "WEIGHTED_SUM(ROUGE:0.7, F1_SCORE:0.3)"},
            {"id": "worst", "name": "worst", "formula": "MIN(ROUGE.p50, F1_SCORE)"},
        ],
    )
    for name, failed in (("monday", range(3)), ("tuesday", range(8))):
        service.upload(traces(failed, items=20, trials=2), run_name=name)
        run = service.complete_run(runName=name)
    again = [service.post(f"/benchmark-runs/{run['id']}/rescore") for _ in range(2)]
    service.work()

    def numbers(run_id: str) -> list[JSON]:
        rows = [
            *service.get(f"/benchmark-runs/{run_id}/metrics")["items"],
            *service.get(f"/benchmark-runs/{run_id}/kpis")["items"],
        ]
        return [
            {key: row[key] for key in ("intervalLow", "intervalHigh", "verdict")} for row in rows
        ]

    first = numbers(run["id"])
    assert all(row["verdict"]["p"] is not None for row in first)
    assert [numbers(other_run["id"]) for other_run in again] == [first, first]


def test_verdict__of_many_trials_compares_fewer_items_with_all_their_trials(
    service: Service, complete_run: CompleteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_queries, "MAX_ITEMS", 30)
    monkeypatch.setattr(item_queries, "MAX_TRACES", 60)
    rows = [
        trace | {"traceId": f"{trace['traceId']}-{trial}", "trial": trial}
        for trace in traces(GOOD)
        for trial in range(3)
    ]
    assert len(rows) == 120
    complete_run("monday", rows)
    run = complete_run("tuesday", rows[::-1])
    # 60 of 120 traces are those of 20 items.
    assert (run["verdict"]["items"]["compared"], run["verdict"]["items"]["leftOut"]) == (20, 20)


def test_verdict__reports_items_beyond_the_limit(
    service: Service, complete_run: CompleteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_queries, "MAX_ITEMS", 30)
    complete_run("monday", traces(GOOD))
    # i-31 has the first of all MD5s. Monday's 30 go less far than Tuesday's, who lacks it: 29 are
    # in both, and ten of Tuesday's 39 beyond.
    uploaded = [trace for trace in traces(GOOD) if trace["itemId"] != "i-31"]
    run = complete_run("tuesday", uploaded)
    assert run["verdict"]["items"] == {
        "compared": 29,
        "onlyBaseline": 1,
        "onlyCandidate": 0,
        "revised": 0,
        "leftOut": 10,
        "areSamples": False,
    }
    assert "10 items are left out of the comparison" in run["verdict"]["explanation"]
    [kpi] = service.get(f"/benchmark-runs/{run['id']}/kpis")["items"]
    # The value of the run is that of all its items, of which five failed.
    assert kpi["value"] == pytest.approx(34 / 39)
    assert kpi["verdict"]["items"] == 29
