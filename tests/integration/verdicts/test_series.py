"""The verdict over several runs, as it is stored with a run."""

import pytest
from sqlalchemy import text

from tests.integration.verdicts.conftest import CompleteRun, traces
from tests.support.lost_series import levels_unless_metric
from tests.support.service import JSON, Service

GOOD = range(5)
BAD = range(25)


def over_runs(service: Service, run: JSON) -> JSON:
    [kpi] = service.get(f"/benchmark-runs/{run['id']}/kpis")["items"]
    [metric] = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    # The KPI is nothing but the metric.
    assert kpi["overRuns"] == metric["overRuns"]
    evidence: JSON = kpi["overRuns"]
    return evidence


def test_over_runs__an_incident_is_open_until_there_is_evidence_of_recovery(
    service: Service, complete_run: CompleteRun
) -> None:
    first = complete_run("first", traces(GOOD))
    assert over_runs(service, first)["status"] == "WARMUP"
    for name in ("second", "third", "fourth"):
        ordinary = complete_run(name, traces(GOOD))
    assert over_runs(service, ordinary)["status"] == "OK"
    collapse = complete_run("collapse", traces(BAD))
    evidence = over_runs(service, collapse)
    assert (evidence["status"], evidence["event"]) == ("FIRING", "OPENED")
    assert (evidence["width"], evidence["reference"]) == (1, 4)
    # 15 of 40 after 35 of 40.
    assert evidence["level"] == pytest.approx(0.375)
    assert evidence["effect"] == pytest.approx(-0.5)
    # Beside the verdict of the run alone.
    report = service.client.get(f"/api/v1/benchmark-runs/{collapse['id']}/report").text
    assert "over runs: incident opened" in report
    again = over_runs(service, complete_run("again", traces(BAD)))
    assert (again["status"], again["event"]) == ("FIRING", None)
    assert again["since"] == evidence["since"]
    for number in range(5):
        back = over_runs(service, complete_run(f"back {number}", traces(GOOD)))
    assert (back["status"], back["event"]) == ("OK", "RESOLVED")
    second = over_runs(service, complete_run("second collapse", traces(BAD)))
    assert second["event"] == "OPENED"
    assert second["since"] > evidence["since"]


def test_over_runs__is_of_valid_runs_with_new_data_and_of_each_series_alone(
    service: Service, complete_run: CompleteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second", "third"):
        run = complete_run(name, traces(GOOD))
    rescored = service.post(f"/benchmark-runs/{run['id']}/rescore")
    service.work()
    [kpi] = service.get(f"/benchmark-runs/{rescored['id']}/kpis")["items"]
    assert kpi["overRuns"] is None
    outage = [trace | {"outcome": "infra_error"} for trace in traces(GOOD)]
    invalid = complete_run("outage", outage)
    assert invalid["validity"] == "INVALID"
    assert over_runs(service, invalid) is None
    after = over_runs(service, complete_run("after", traces(GOOD)))
    assert (after["status"], after["reference"]) == ("OK", 3)

    # A series that kills its process costs no other one its evidence.
    monkeypatch.setattr("mosaico.runs.series.levels_in_child", levels_unless_metric)
    run = complete_run("collapse", traces(BAD))
    assert run["status"] == "COMPLETED"
    [kpi] = service.get(f"/benchmark-runs/{run['id']}/kpis")["items"]
    assert (kpi["overRuns"]["status"], kpi["overRuns"]["event"]) == ("FIRING", "OPENED")
    [metric] = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    assert metric["overRuns"] is None


def test_over_runs__items_are_deleted_with_the_run(
    service: Service, complete_run: CompleteRun
) -> None:
    run = complete_run("first", traces(GOOD))
    with service.resources.db.read() as session:
        assert session.scalar(text("SELECT count(*) FROM run_series")) == 3
        # 40 items of 8 bytes, and 4 bytes for each value.
        assert session.scalar(text("SELECT length(keys) FROM run_items")) == 320
        assert session.scalar(text("SELECT max(length(item_values)) FROM run_series")) == 160
    service.delete(f"/benchmark-runs/{run['id']}")
    service.work()
    with service.resources.db.read() as session:
        assert session.scalar(text("SELECT count(*) FROM run_series")) == 0
        assert session.scalar(text("SELECT count(*) FROM run_items")) == 0


def test_over_runs__an_accepted_level_is_the_new_reference(
    service: Service, complete_run: CompleteRun
) -> None:
    for name in ("first", "second", "third"):
        complete_run(name, traces(GOOD))
    bad = complete_run("bad", traces(BAD))
    assert over_runs(service, bad)["status"] == "FIRING"
    service.post(f"/benchmark-runs/{bad['id']}/accept")
    for name in ("fifth", "sixth"):
        evidence = over_runs(service, complete_run(name, traces(BAD)))
        assert (evidence["status"], evidence["event"]) in (("WARMUP", None), ("OK", None))
    worse = over_runs(service, complete_run("worse", traces(range(40))))
    assert worse["event"] == "OPENED"
    assert worse["referenceLevel"] == pytest.approx(0.375)


RULE = {
    "name": "quality falls",
    "benchmarkId": "bench-001",
    "metric": "ACCURACY",
    "condition": "REGRESSED",
}


def stored_status(service: Service, run: JSON) -> str:
    [metric] = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    return str(metric["overRuns"]["status"])


def rule_status(service: Service, rule: JSON) -> str:
    [state] = service.get(f"/alert-configs/{rule['id']}")["states"]
    return str(state["state"])


def test_over_runs__has_the_promise_of_the_rule_about_the_series(
    service: Service, complete_run: CompleteRun
) -> None:
    strict = service.post("/alert-configs", {**RULE, "falsePagesPerMonth": 0.001})
    for name, failed in (("first", 5), ("second", 6), ("third", 5), ("fourth", 6)):
        complete_run(name, traces(range(failed)))
    # Four or five items fewer of 40 are beyond the limit of 0.25 false alarms, and not of 0.001.
    run = complete_run("fall", traces(range(10)))
    [kpi] = service.get(f"/benchmark-runs/{run['id']}/kpis")["items"]
    assert (stored_status(service, run), rule_status(service, strict)) == ("OK", "OK")
    assert kpi["overRuns"]["status"] == "FIRING"
    # Of two rules, that which pages first.
    service.post("/alert-configs", {**RULE, "falsePagesPerMonth": 0.33})
    run = complete_run("again", traces(range(9)))
    assert rule_status(service, strict) == "OK"
    assert stored_status(service, run) == "FIRING"


def test_over_runs__agrees_with_its_rule_whatever_is_answered(
    service: Service, complete_run: CompleteRun
) -> None:
    rule = service.post("/alert-configs", {**RULE, "keepFiringForRuns": 1})
    statuses = {"WARMUP": "WARMUP", "OK": "OK", "FIRING": "FIRING", "RESOLVED": "OK"}
    all_failed = range(40)
    history = [GOOD] * 4 + [BAD] * 4 + [all_failed] * 2 + [BAD, all_failed]
    # Each on the second run of a fall: its level is accepted, or it was noise.
    answers = {5: "accept", 9: "noise"}
    for number, failed in enumerate(history):
        run = complete_run(str(number), traces(failed))
        assert stored_status(service, run) == statuses[rule_status(service, rule)]
        if number in answers:
            [incident] = service.list_items("/incidents", state="OPEN")
            service.post(f"/incidents/{incident['id']}/{answers[number]}", {})


def test_fall__is_no_variation_of_unchanged_runs(
    service: Service, complete_run: CompleteRun
) -> None:
    """The level stays bad, and so does the verdict, although no rule has paged."""
    complete_run("monday", traces(range(1)))
    bad = [complete_run(name, traces(range(14))) for name in ("tuesday", "wednesday", "thursday")]
    for run in bad:
        assert run["verdict"]["verdict"] == "REGRESSED"
        [metric] = [
            row
            for row in service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
            if row["verdict"]["effect"]
        ]
        assert metric["verdict"]["wholeRuns"]["sd"] == pytest.approx(0.015)
        assert metric["verdict"]["wholeRuns"]["basis"] == "ASSUMED"
