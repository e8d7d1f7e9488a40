"""A rule that wakes somebody when a run has regressed, and only then."""

from app.alerts.rules import AlertStatus
from tests.integration.verdicts.conftest import Night, traces
from tests.support.service import Service, pointers

RULE = {
    "id": "worse",
    "name": "worse",
    "benchmarkId": "bench-001",
    "kpi": "quality",
    "condition": "REGRESSED",
}


def test_a_regression_fires_and_chance_does_not(service: Service, night: Night) -> None:
    service.post("/alert-configs", RULE)
    states = []
    for name, failed in (("monday", 5), ("tuesday", 6), ("wednesday", 25)):
        night(name, traces(range(failed)))
        [standing] = service.get("/alert-configs/worse")["states"]
        states.append(standing["state"])
    # Without a baseline and without certainty nothing is said; then 19 of 40 items fall.
    assert states == [AlertStatus.WARMUP, AlertStatus.WARMUP, AlertStatus.FIRING]
    [told] = service.listed("/alerts")
    assert "more than chance" in told["explanation"]
    assert told["details"]["verdict"] == "REGRESSED"


def test_a_rescored_run_wakes_nobody(service: Service, night: Night) -> None:
    night("monday", traces(range(5)))
    worse = night("tuesday", traces(range(25)))
    service.post("/alert-configs", RULE)
    service.post(f"/benchmark-runs/{worse['id']}/rescore")
    service.work()
    assert service.listed("/alerts") == []


def test_such_a_rule_has_no_threshold_and_looks_at_a_mean(service: Service, night: Night) -> None:
    problem = service.refused(422, "POST", "/alert-configs", {**RULE, "threshold": 10})
    assert pointers(problem) == ["/threshold"]
    of_metric = {**RULE, "kpi": None, "metric": "ACCURACY.p95"}
    problem = service.refused(422, "POST", "/alert-configs", of_metric)
    assert pointers(problem) == ["/metric"]
