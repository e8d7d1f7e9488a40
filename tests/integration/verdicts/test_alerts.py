"""Alert rules with the condition REGRESSED."""

from app.alerts.rules import AlertStatus
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
        [standing] = service.get("/alert-configs/worse")["states"]
        states.append(standing["state"])
    # Without a baseline and without certainty nothing is said; then 19 of 40 items fall.
    assert states == [AlertStatus.WARMUP, AlertStatus.WARMUP, AlertStatus.FIRING]
    [alert] = service.listed("/alerts")
    assert "more than chance" in alert["explanation"]
    assert alert["details"]["verdict"] == "REGRESSED"


def test_rescored_run__raises_no_alert(service: Service, complete_run: CompleteRun) -> None:
    complete_run("monday", traces(range(5)))
    worse = complete_run("tuesday", traces(range(25)))
    service.post("/alert-configs", RULE)
    service.post(f"/benchmark-runs/{worse['id']}/rescore")
    service.work()
    assert service.listed("/alerts") == []


def test_regressed_rule__takes_no_threshold_and_watches_a_mean(
    service: Service, complete_run: CompleteRun
) -> None:
    problem = service.refused(422, "POST", "/alert-configs", {**RULE, "threshold": 10})
    assert pointers(problem) == ["/threshold"]
    of_metric = {**RULE, "kpi": None, "metric": "ACCURACY.p95"}
    problem = service.refused(422, "POST", "/alert-configs", of_metric)
    assert pointers(problem) == ["/metric"]
