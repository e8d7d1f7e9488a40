"""Rescored runs and power estimates."""

import re

import pytest

from tests.integration.verdicts.conftest import CompleteRun, traces
from tests.support.service import Service


def test_rescore__applies_current_formulas_to_the_same_traces(
    service: Service, complete_run: CompleteRun
) -> None:
    run = complete_run("monday", traces(range(5)))
    service.patch("/benchmarks/bench-001/kpis/quality", {"formula": "ACCURACY * 2"})
    again = service.post(f"/benchmark-runs/{run['id']}/rescore")
    service.work()
    rescored = service.get(f"/benchmark-runs/{again['id']}")
    assert (rescored["status"], rescored["rescoreOf"]) == ("COMPLETED", run["id"])
    # Nothing is measured twice: 40 traces × 1 metric and their failures are taken over.
    assert (rescored["metricsComputed"], rescored["metricsReused"]) == (0, 80)
    values = {
        row["runId"]: row["value"] for row in service.list_items("/kpi-history", kpi="quality")
    }
    assert values == {run["id"]: 0.875, again["id"]: 1.75}
    assert rescored["verdict"]["reason"].startswith("first run")
    # A rescored run that is rescored refers to the original.
    third = service.post(f"/benchmark-runs/{again['id']}/rescore")
    assert third["rescoreOf"] == run["id"]


def test_rescore__refuses_incomplete_runs(service: Service, complete_run: CompleteRun) -> None:
    run = service.start_run(runName="nobody-uploaded-it")
    problem = service.expect_problem(409, "POST", f"/benchmark-runs/{run['id']}/rescore")
    assert "only COMPLETED runs" in problem["detail"]


def test_power__is_estimated_from_two_runs(service: Service, complete_run: CompleteRun) -> None:
    service.expect_problem(409, "POST", "/benchmarks/bench-001/power", {})
    service.patch("/benchmarks/bench-001", {"baseline": {"runSd": 0}})
    complete_run("monday", traces(range(5)))
    complete_run("tuesday", traces(range(3, 8)))
    [kpi, metric] = service.post("/benchmarks/bench-001/power", {"drop": 0.1})["items"]
    # Of 40 items 3 fell and 3 rose. With one more unseen change their mean square is 7/41, the
    # standard error √(7/41/40) = 0.0653, and 2.94 of them (39 degrees of freedom) are 0.192. When a
    # share of the 87.5 % passes fails, some items fall and others do not: that adds to the spread.
    assert kpi["minDetectableEffect"] == pytest.approx(0.2735, abs=1e-3)
    assert (kpi["items"], kpi["trials"], kpi["basis"]) == (40, 1, "TWO_RUNS")
    # For 0.1 about (0.2735/0.1)² as many items, less because a smaller drop adds a smaller spread.
    assert 150 < kpi["itemsNeeded"] < 300
    assert kpi["trialsNeeded"] > 3
    assert (metric["kind"], metric["name"]) == ("METRIC", "ACCURACY")
    [larger, _] = service.post("/benchmarks/bench-001/power", {"items": 160})["items"]
    assert 0.4 < larger["minDetectableEffect"] / kpi["minDetectableEffect"] < 0.5
    assert (kpi["about"], kpi["minDetectableTasks"]) == ("POPULATION", None)
    # With several trials the question is about these tasks, of which two or more have to break.
    [repeated, _] = service.post("/benchmarks/bench-001/power", {"trials": 5})["items"]
    assert repeated["about"] == "TASKS"
    assert repeated["minDetectableTasks"] > 1
    assert repeated["minDetectableEffect"] < kpi["minDetectableEffect"]


def test_power__knows_how_whole_runs_vary(service: Service, complete_run: CompleteRun) -> None:
    service.patch("/benchmarks/bench-001", {"baseline": {"runSd": 0.03}})
    complete_run("monday", traces(range(5)))
    complete_run("tuesday", traces(range(3, 8)))
    [kpi, _] = service.post("/benchmarks/bench-001/power", {"drop": 0.05})["items"]
    # √2 · 0.03 alone is 0.042: 2.8 of it is 0.12, which no number of items detects.
    assert kpi["minDetectableEffect"] > 0.2735
    assert (kpi["trialsNeeded"], kpi["itemsNeeded"]) == (None, None)
    assert "whole runs vary" in kpi["explanation"]


def test_power__of_one_run_uses_the_noise_between_trials(
    service: Service, complete_run: CompleteRun
) -> None:
    both = traces([], items=10, trials=2)
    flaky = [trace | {"output": "no"} if trace["trial"] else trace for trace in both]
    complete_run("monday", flaky)
    [kpi, _] = service.post("/benchmarks/bench-001/power", {})["items"]
    assert kpi["basis"] == "TRIALS_OF_ONE_RUN"
    # All trials of the mean 1/2 are noise: ten items do not detect even a fall to 0 reliably.
    assert kpi["minDetectableEffect"] is None
    assert "cannot reliably detect any change of quality" in kpi["explanation"]
    [needed] = re.findall(r"At least (\d+) items are", kpi["explanation"])
    [larger, _] = service.post("/benchmarks/bench-001/power", {"items": int(needed)})["items"]
    assert 0.4 < larger["minDetectableEffect"] <= 0.5


def test_power__clusters_reduce_it(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"], clusterField="topic")
    grouped = [traces(failed, items=40) for failed in (range(4), range(4, 8))]
    for name, uploaded in zip(("monday", "tuesday"), grouped, strict=True):
        tagged = [
            trace | {"tags": [f"topic:{number // 4}"]} for number, trace in enumerate(uploaded)
        ]
        service.upload(tagged, run_name=name)
        service.complete_run(runName=name)
    [metric] = service.post("/benchmarks/bench-001/power", {})["items"]
    # Ten topics of four items: one rose by 4, one fell by 4. One by one the same changes would
    # detect 0.29.
    assert metric["minDetectableEffect"] > 0.41740
    assert "40 items in 10 clusters" in metric["explanation"]


def test_power__accepts_values_of_any_size(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(
        metrics=["LATENCY_MS"],
        measures=[{"id": "slow", "name": "slow", "formula": "LATENCY_MS / 2"}],
    )
    # Near the ends of a float: a square is 0, and a sum is infinite.
    for name, high in (("monday", 1e-300), ("tuesday", 1.7e308)):
        timed = [
            trace | {"latencyMs": high if number % 2 else 1.0}
            for number, trace in enumerate(traces((), items=10, trials=2))
        ]
        service.upload(timed, run_name=name)
        service.complete_run(runName=name)
    for drop in (0.1, 1e-200):
        for estimate in service.post("/benchmarks/bench-001/power", {"drop": drop})["items"]:
            assert estimate["minDetectableEffect"] is None or estimate["itemsNeeded"] is None


def test_power__resamples_formulas_that_are_no_mean_over_items(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(
        baseline={"runSd": 0},
        metrics=["ACCURACY", "LATENCY_MS", {"key": "F1_SCORE", "options": {"labels": "micro"}}],
        measures=[
            {"id": "total", "name": "total", "formula": "ACCURACY.sum"},
            {"id": "slow", "name": "slow", "formula": "LATENCY_MS.p95"},
            {"id": "labels", "name": "labels", "formula": "F1_SCORE"},
        ],
    )
    for name, failed in (("monday", range(5)), ("tuesday", range(3, 8))):
        timed = [
            trace | {"latencyMs": 100 + (number * 7 + len(name)) % 40}
            for number, trace in enumerate(traces(failed))
        ]
        service.upload(timed, run_name=name)
        service.complete_run(runName=name)
    estimates = service.post("/benchmarks/bench-001/power", {"drop": 0.1})["items"]
    by_name = {estimate["name"]: estimate for estimate in estimates}
    assert {estimate["basis"] for estimate in estimates} == {"TWO_RUNS"}
    # As above 0.2735 for the share, and the micro F1 is the share; the sum is a logarithm.
    for name in ("ACCURACY", "labels", "F1_SCORE"):
        assert by_name[name]["minDetectableEffect"] == pytest.approx(0.2735, rel=0.02)
    assert by_name["total"]["minDetectableEffect"] == pytest.approx(40 * 0.2, rel=0.3)
    assert by_name["slow"]["minDetectableEffect"] > 0
    # One trial of each item says nothing of the noise of trials: so many are needed at least.
    assert "needs at least" in by_name["ACCURACY"]["explanation"]
