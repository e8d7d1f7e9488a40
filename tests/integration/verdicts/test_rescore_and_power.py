"""Traces judged once more, and what a benchmark could see."""

import pytest

from tests.integration.verdicts.conftest import Night, traces
from tests.support.service import Service


def test_a_rescored_run_judges_the_same_traces_by_the_formulas_of_now(
    service: Service, night: Night
) -> None:
    run = night("monday", traces(range(5)))
    service.patch("/benchmarks/bench-001/kpis/quality", {"formula": "ACCURACY * 2"})
    again = service.post(f"/benchmark-runs/{run['id']}/rescore")
    service.work()
    found = service.get(f"/benchmark-runs/{again['id']}")
    assert (found["status"], found["rescoreOf"]) == ("COMPLETED", run["id"])
    # Nothing is measured twice: 40 traces × 1 metric are taken over.
    assert (found["metricsComputed"], found["metricsReused"]) == (0, 40)
    values = {
        each["runId"]: each["value"] for each in service.listed("/kpi-history", kpi="quality")
    }
    assert values == {run["id"]: 0.875, again["id"]: 1.75}
    assert found["verdict"]["reason"].startswith("first run")


def test_a_rescored_run_is_rescored_from_its_origin(service: Service, night: Night) -> None:
    run = night("monday", traces(range(5)))
    again = service.post(f"/benchmark-runs/{run['id']}/rescore")
    service.work()
    third = service.post(f"/benchmark-runs/{again['id']}/rescore")
    assert third["rescoreOf"] == run["id"]


def test_a_run_that_did_not_complete_is_not_rescored(service: Service, night: Night) -> None:
    run = service.start(runName="nobody-uploaded-it")
    problem = service.refused(409, "POST", f"/benchmark-runs/{run['id']}/rescore")
    assert "only COMPLETED runs" in problem["detail"]


def test_the_smallest_visible_drop_follows_from_how_two_runs_differ(
    service: Service, night: Night
) -> None:
    service.refused(409, "POST", "/benchmarks/bench-001/power", {})
    night("monday", traces(range(5)))
    night("tuesday", traces(range(3, 8)))
    [kpi, metric] = service.post("/benchmarks/bench-001/power", {"drop": 0.1})["items"]
    # Of 40 items 3 fell and 3 rose: the changes have mean 0 and variance 6/39, their mean a
    # standard error of √(6/39/40) = 0.06202; 2.80 times that is 0.17365.
    assert kpi["smallestDrop"] == pytest.approx(0.17365, abs=1e-4)
    assert (kpi["items"], kpi["trials"], kpi["basis"]) == (40, 1, "TWO_RUNS")
    # For 0.1: n = 6/39 · (2.80/0.1)² = 120.6 items, or (0.17365/0.1)² = 3.02 trials.
    assert (kpi["itemsNeeded"], kpi["trialsNeeded"]) == (121, 4)
    assert (metric["kind"], metric["name"]) == ("METRIC", "ACCURACY")
    [larger, _] = service.post("/benchmarks/bench-001/power", {"items": 160})["items"]
    assert larger["smallestDrop"] == pytest.approx(kpi["smallestDrop"] / 2)


def test_one_run_with_trials_tells_the_noise_within_items(service: Service, night: Night) -> None:
    both = traces([], items=10, trials=2)
    flaky = [trace | {"output": "no"} if trace["trial"] else trace for trace in both]
    night("monday", flaky)
    [kpi, _] = service.post("/benchmarks/bench-001/power", {})["items"]
    assert kpi["basis"] == "TRIALS_OF_ONE_RUN"
    # Each item has 1 and 0: a variance of 1/2, of a change 1; with 2 trials 1/2, over 10 items:
    # 2.80 · √0.05.
    assert kpi["smallestDrop"] == pytest.approx(0.6261, abs=1e-4)
