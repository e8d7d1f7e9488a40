"""Alert rules with the condition REGRESSED."""

from mosaico.alerts.rules import AlertStatus
from tests.integration.verdicts.conftest import CompleteRun, traces
from tests.support.service import Service, pointers

RULE = {
    "id": "worse",
    "name": "worse",
    "benchmarkId": "bench-001",
    "kpi": "quality",
    "condition": "REGRESSED",
}


def test_regressed_rule__fires_on_a_regression_and_not_on_chance(
    service: Service, complete_run: CompleteRun
) -> None:
    service.post("/alert-configs", RULE)
    states = []
    for name, failed in (("monday", 5), ("tuesday", 6), ("wednesday", 25)):
        complete_run(name, traces(range(failed)))
        [state_row] = service.get("/alert-configs/worse")["states"]
        states.append(state_row["state"])
    # One run has none to compare with; in the third, 19 of 40 items fall.
    assert states == [AlertStatus.WARMUP, AlertStatus.OK, AlertStatus.FIRING]
    [alert] = service.list_items("/alerts")
    assert alert["explanation"].startswith(
        "quality is 0.375. The last run is 0.487 below the 2 runs before (0.862 to 0.375, likely"
    )
    # The verdict of the run alone stays visible beside the evidence over runs.
    assert alert["details"]["verdict"]["verdict"] == "REGRESSED"
    assert alert["details"]["runs"]["event"] == "OPENED"


def test_rescored_run__raises_no_alert(service: Service, complete_run: CompleteRun) -> None:
    complete_run("monday", traces(range(5)))
    worse = complete_run("tuesday", traces(range(25)))
    service.post("/alert-configs", RULE)
    service.post(f"/benchmark-runs/{worse['id']}/rescore")
    service.work()
    assert service.list_items("/alerts") == []


def test_regressed_rule__takes_no_threshold_and_watches_a_mean(
    service: Service, complete_run: CompleteRun
) -> None:
    problem = service.expect_problem(422, "POST", "/alert-configs", {**RULE, "threshold": 10})
    assert pointers(problem) == ["/threshold"]
    of_metric = {**RULE, "kpi": None, "metric": "ACCURACY.p95"}
    problem = service.expect_problem(422, "POST", "/alert-configs", of_metric)
    assert pointers(problem) == ["/metric"]
