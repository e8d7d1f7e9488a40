"""What a rule would say: its test and its backtest; and what readers say about its alerts."""

import pytest

from tests.integration.alerts.conftest import RULE, RuleMaker, RunMaker
from tests.support.run_histories import RunHistoryMaker
from tests.support.service import Service


def test_rule_test__excludes_runs_of_confirmed_incidents(
    benchmark_service: Service, create_rule: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_rule(keepFiringForRuns=0, baselineRuns=1)
    complete(1.0, 0.5)
    [alert] = benchmark_service.list_items("/alerts")
    benchmark_service.post(f"/alerts/{alert['id']}/ack", {"verdict": "true"})
    complete(0.5)
    # With its incident among the earlier runs, the second run would be the baseline: 0.5.
    [assessment] = benchmark_service.post("/alert-configs/rule-1/test")["assessments"]
    assert (assessment["outcome"], assessment["value"], assessment["baseline"]) == (
        "BREACH",
        0.5,
        1.0,
    )
    body = {"alertConfigId": "rule-1", "agentId": "agent-001"}
    last = benchmark_service.post("/alert-configs/backtest", body)["runs"][-1]
    assert (last["outcome"], last["baseline"]) == ("BREACH", 1.0)


def test_rule_test__assesses_the_newest_run_and_notifies_the_recipients(
    benchmark_service: Service, create_rule: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_rule(condition="LESS_THAN", threshold=0.8, channels=["WEBHOOK"],
         recipients=["https://hooks.example.com/alerts"])  # fmt: skip
    assert benchmark_service.post("/alert-configs/rule-1/test")["assessments"] == []
    complete(0.7)
    rule_test = benchmark_service.post("/alert-configs/rule-1/test")
    [assessment] = rule_test["assessments"]
    assert (assessment["runId"], assessment["outcome"], assessment["value"]) == (
        "run-1",
        "BREACH",
        0.7,
    )
    message = benchmark_service.get(f"/notifications/{rule_test['notificationId']}")
    assert message["title"] == "Test of the alert rule quality falls (bench-001)"
    assert len(benchmark_service.list_items("/alerts")) == 1  # the real one: a trial is no alert


def test_acknowledge__counts_towards_the_precision_of_the_rule(
    benchmark_service: Service, create_rule: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_rule(condition="LESS_THAN", threshold=0.8)
    complete(0.5)
    [alert] = benchmark_service.list_items("/alerts", state="FIRING")
    path = f"/alerts/{alert['id']}/ack"
    assert benchmark_service.post(path, {"verdict": "noise"})["acknowledgedBy"]
    assert benchmark_service.get("/alert-configs/rule-1")["precision"] == {
        "true": 0, "noise": 1, "precision": 0.0, "review": False,
    }  # fmt: skip
    benchmark_service.post(path, {"verdict": "true"})
    assert benchmark_service.get("/alert-configs/rule-1")["precision"]["precision"] == 1.0
    benchmark_service.expect_problem(422, "POST", path, {"verdict": "maybe"})


def test_acknowledge__refuses_other_states_and_names_the_firing_alert(
    benchmark_service: Service, create_rule: RuleMaker, run_with: RunMaker
) -> None:
    create_rule(condition="LESS_THAN", threshold=0.8, keepFiringForRuns=0)
    run_with(5)
    run_with(9)
    run_with(0, silent=5)
    alerts = {alert["state"]: alert for alert in benchmark_service.list_items("/alerts")}
    expected_hints = {"RESOLVED": alerts["FIRING"]["id"], "RUN_INVALID": "state=FIRING"}
    for state, named in expected_hints.items():
        path = f"/alerts/{alerts[state]['id']}/ack"
        problem = benchmark_service.expect_problem(409, "POST", path, {"verdict": "true"})
        assert problem["type"] == "/problems/not-acknowledgeable"
        assert named in problem["detail"]


def test_backtest__returns_coverage_and_each_replayed_run(
    benchmark_service: Service, create_rule: RuleMaker, run_with: RunMaker
) -> None:
    for right, silent in ((10, 0), (9, 0), (0, 5), (6, 0), (6, 0), (10, 0)):
        run_with(right, silent=silent)
    draft = {key: value for key, value in RULE.items() if key != "id"}
    backtest = benchmark_service.post(
        "/alert-configs/backtest", {"rule": {**draft, "keepFiringForRuns": 0, "baselineRuns": 2}}
    )
    assert backtest["coverage"] == {
        "runs": 6, "valid": 5, "invalid": 1, "failed": 0, "withValue": 4, "noData": 0, "warmup": 1,
    }  # fmt: skip
    # The baseline is 1 until the incident, and its runs never join: falls by 10 %, 40 % and 40 %.
    assert [replayed_run["outcome"] for replayed_run in backtest["runs"]] == [
        "WARMUP", "BREACH", None, "BREACH", "BREACH", "HEALTHY",
    ]  # fmt: skip
    assert [replayed_run["notified"] for replayed_run in backtest["runs"]] == [
        None, "FIRING", None, None, None, "RESOLVED",
    ]  # fmt: skip
    assert (backtest["fired"], backtest["resolved"], backtest["noData"]) == (1, 1, 0)
    assert backtest["falseAlarmsPerMonth"] is None  # less than a week
    assert backtest["minDetectableEffect"] == pytest.approx(0.1)  # a tenth of 1
    assert (
        benchmark_service.list_items("/alerts")[0]["state"] == "RUN_INVALID"
    )  # nothing was told by the replay


def test_backtest__equals_what_the_runs_did(
    benchmark_service: Service, create_rule: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_rule(forRuns=2, baselineRuns=3)
    # From 0.9 to 0.7 is a fall of 22 %: the second one fires, and the second good run resolves.
    complete(0.9, 0.9, 0.7, 0.7, 0.7, 0.9, 0.9)
    backtest = benchmark_service.post("/alert-configs/backtest", {"alertConfigId": "rule-1"})
    notifications = [
        (replayed_run["runId"], replayed_run["notified"])
        for replayed_run in backtest["runs"]
        if replayed_run["notified"]
    ]
    events = reversed(benchmark_service.list_items("/alerts"))
    assert notifications == [(event["runId"], event["state"]) for event in events]
    assert notifications != []
