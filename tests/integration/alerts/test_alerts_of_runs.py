"""Runs end, and rules say what it means: once, in order, and never of numbers that are not there."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.service import JSON, Service
from tests.support.stored import DatabaseReader

Night = Callable[..., JSON]
RuleMaker = Callable[..., JSON]


def told(service: Service) -> list[tuple[str, str]]:
    """What was told, oldest first, as state and name."""
    return [(each["state"], each["name"]) for each in reversed(service.listed("/alerts"))]


def state(service: Service, rule_id: str = "rule-1") -> str:
    [standing] = service.get(f"/alert-configs/{rule_id}")["states"]
    return str(standing["state"])


def inbox(service: Service) -> list[Any]:
    return service.listed("/notifications")


def test_the_second_run_is_worse_and_its_alert_fires(
    ready: Service, rule: RuleMaker, night: Night
) -> None:
    rule()
    night(10)
    assert state(ready) == "WARMUP"
    worse = night(6)
    assert state(ready) == "FIRING"
    [alert] = ready.listed("/alerts")
    assert (alert["state"], alert["runId"], alert["alertConfigId"]) == (
        "FIRING", worse["id"], "rule-1",
    )  # fmt: skip
    assert (alert["value"], alert["baseline"]) == (0.6, 1.0)
    assert alert["explanation"] == (
        "quality fell by 40 % to 0.6, from 1 (mean of the last valid run); the limit is 10 %."
    )
    assert alert["runUrl"] == f"/api/v1/benchmark-runs/{worse['id']}"
    traces = alert["contributingTraces"]
    assert [(each["itemId"], each["value"], each["before"]) for each in traces] == [
        ("i-6", 0.0, 1.0), ("i-7", 0.0, 1.0), ("i-8", 0.0, 1.0), ("i-9", 0.0, 1.0),
    ]  # fmt: skip
    [message] = inbox(ready)
    assert message["id"] == alert["notificationId"]
    assert message["title"] == "Firing: quality falls (bench-001, agent-001)"


def test_an_episode_is_told_twice_when_it_begins_and_when_it_is_over(
    ready: Service, rule: RuleMaker, night: Night
) -> None:
    rule(condition="LESS_THAN", threshold=0.8, forRuns=2, keepFiringForRuns=1)
    states = []
    for right in (9, 7, 7, 7, 9, 9, 9):
        night(right)
        states.append(state(ready))
    assert states == ["OK", "PENDING", "FIRING", "FIRING", "FIRING", "RESOLVED", "OK"]
    fired, resolved = reversed(ready.listed("/alerts"))
    assert (fired["state"], resolved["state"]) == ("FIRING", "RESOLVED")
    assert fired["incidentId"] == resolved["incidentId"] == fired["id"]
    assert len(inbox(ready)) == 2


def test_an_invalid_run_raises_its_own_notice_and_holds_the_others(
    ready: Service, rule: RuleMaker, night: Night
) -> None:
    rule(condition="LESS_THAN", threshold=0.8)
    night(9)
    invalid = night(0, silent=5)
    assert invalid["validity"] == "INVALID"
    assert told(ready) == [("RUN_INVALID", "run invalid")]
    assert inbox(ready)[0]["title"] == "Run invalid (bench-001, agent-001)"
    assert state(ready) == "OK"
    [alert] = ready.listed("/alerts")
    assert "coverage is 50.0%" in alert["explanation"]


def test_a_failed_run_is_told_and_is_no_drop_to_zero(
    ready: Service, rule: RuleMaker, night: Night
) -> None:
    rule(condition="LESS_THAN", threshold=0.8)
    night(9)
    failed = ready.completed(runName="nowhere")
    assert failed["status"] == "FAILED"
    assert told(ready) == [("RUN_FAILED", "run failed")]
    assert state(ready) == "OK"
    assert "RUN_NOT_FOUND" in ready.listed("/alerts")[0]["explanation"]


def test_an_invalid_run_is_no_baseline(ready: Service, rule: RuleMaker, night: Night) -> None:
    rule()
    for right, silent in ((10, 0), (0, 5), (10, 0)):
        night(right, silent=silent)
    assert state(ready) == "OK"
    [standing] = ready.get("/alert-configs/rule-1")["states"]
    assert standing["baseline"] == 1.0


def test_five_hundred_alerts_of_one_run_are_one_message(
    ready: Service, night: Night, rows: DatabaseReader
) -> None:
    url = "https://hooks.example.com/alerts"
    endpoint = ready.post("/endpoints", {"channel": "WEBHOOK", "recipient": url})
    rows.execute(
        """INSERT INTO alert_rules (id, name, benchmark_id, metric, condition, threshold, severity,
               channels, endpoints, enabled, cooldown_minutes, for_runs, keep_firing_for_runs,
               no_data, baseline_runs, revision)
           SELECT 'r-' || n, 'rule ' || n, 'bench-001', 'EXACT_MATCH', 'LESS_THAN', 0.5, 'WARNING',
                  '["IN_APP", "WEBHOOK"]', jsonb_build_array(%s::text), true, 0, 1, 1,
                  'NO_DATA', 5, 1
           FROM generate_series(1, 500) AS n""",
        endpoint["id"],
    )
    night(1)
    assert rows.value("SELECT count(*) FROM alert_events WHERE state = 'FIRING'") == 500
    assert rows.value("SELECT count(DISTINCT notification_id) FROM alert_events") == 1
    [message] = inbox(ready)
    assert message["title"].startswith("500 alerts: 500 firing")
    assert rows.value("SELECT count(*) FROM deliveries") == 1


def test_each_recipient_gets_one_message_of_what_it_is_to_know(
    ready: Service, rule: RuleMaker, night: Night, rows: DatabaseReader
) -> None:
    one, other = "https://one.example.com/", "https://other.example.com/"
    for name, recipients in (("a", [one]), ("b", [one, other]), ("c", [other]), ("d", [])):
        rule(id=f"rule-{name}", name=name, condition="LESS_THAN", threshold=0.8,
             channels=["WEBHOOK"] if recipients else [], recipients=recipients)  # fmt: skip
    night(5)
    [message] = inbox(ready)
    assert [item["title"] for item in message["items"]] == [f"Firing: {name}" for name in "abcd"]
    assert {each["notificationId"] for each in ready.listed("/alerts")} == {message["id"]}
    sent = {
        each["recipient"]: ready.get(f"/notifications/{each['notificationId']}")
        for each in ready.listed("/deliveries")
    }
    assert {to: [item["title"][-1] for item in told["items"]] for to, told in sent.items()} == {
        one: ["a", "b"],
        other: ["b", "c"],
    }
    assert rows.value("SELECT count(*) FROM deliveries") == 2


def test_a_silence_keeps_an_alert_from_being_told_but_not_from_being_judged(
    ready: Service, rule: RuleMaker, night: Night
) -> None:
    rule(condition="LESS_THAN", threshold=0.8)
    ready.post(
        "/silences",
        {"id": "quiet", "matchers": {"name": "quality*"}, "endsAt": "2099-01-01T00:00:00Z"},
    )
    night(5)
    assert state(ready) == "FIRING"
    [alert] = ready.listed("/alerts")
    assert (alert["silenceId"], alert["notificationId"]) == ("quiet", None)
    assert inbox(ready) == []


def test_what_still_fires_when_its_silence_is_over_is_told_with_the_next_run(
    ready: Service, rule: RuleMaker, night: Night
) -> None:
    rule(condition="LESS_THAN", threshold=0.8)
    silence = {"id": "quiet", "matchers": {"name": "*"}, "endsAt": "2099-01-01T00:00:00Z"}
    ready.post("/silences", silence)
    night(5)
    night(5)
    assert inbox(ready) == []
    ready.delete("/silences/quiet")
    night(5)
    night(5)
    [message] = inbox(ready)
    assert message["title"].startswith("Firing: quality falls")
    [alert] = ready.listed("/alerts")
    assert (alert["silenceId"], alert["notificationId"]) == (None, message["id"])


@pytest.mark.parametrize("ends_by", ["a run", "an edit"])
def test_the_end_of_what_nobody_was_told_is_not_told_either(
    ready: Service, rule: RuleMaker, night: Night, ends_by: str
) -> None:
    rule(condition="LESS_THAN", threshold=0.8, keepFiringForRuns=0)
    silence = {"id": "quiet", "matchers": {"name": "*"}, "endsAt": "2099-01-01T00:00:00Z"}
    ready.post("/silences", silence)
    night(5)
    ready.delete("/silences/quiet")
    if ends_by == "a run":
        night(9)
    else:
        ready.patch("/alert-configs/rule-1", {"enabled": False})
    [end, beginning] = ready.listed("/alerts")
    assert (end["state"], beginning["state"]) == ("RESOLVED", "FIRING")
    assert (end["silenceId"], end["notificationId"]) == ("quiet", None)
    assert inbox(ready) == []


def test_what_a_true_alert_told_is_not_taken_for_normal(
    ready: Service, rule: RuleMaker, night: Night
) -> None:
    rule(keepFiringForRuns=0, baselineRuns=1)
    night(10)
    night(5)
    [alert] = ready.listed("/alerts")
    assert ready.post(f"/alerts/{alert['id']}/ack", {"verdict": "true"})["verdict"] == "true"
    night(5)
    [standing] = ready.get("/alert-configs/rule-1")["states"]
    assert (standing["state"], standing["baseline"]) == ("FIRING", 1.0)


def test_a_rule_that_is_changed_while_it_fires_is_resolved_and_starts_anew(
    ready: Service, rule: RuleMaker, night: Night
) -> None:
    rule(condition="LESS_THAN", threshold=0.8)
    night(5)
    ready.patch("/alert-configs/rule-1", {"threshold": 0.2})
    assert told(ready) == [("FIRING", "quality falls"), ("RESOLVED", "quality falls")]
    assert ready.get("/alert-configs/rule-1")["states"] == []
    ready.patch("/alert-configs/rule-1", {"name": "another name"})
    night(1)
    ready.delete("/alert-configs/rule-1")
    assert [each[0] for each in told(ready)] == ["FIRING", "RESOLVED", "FIRING", "RESOLVED"]
    assert ready.listed("/alerts")[0]["explanation"] == "The alert rule was deleted."


def test_a_disabled_rule_judges_nothing(ready: Service, rule: RuleMaker, night: Night) -> None:
    rule(condition="LESS_THAN", threshold=0.8, enabled=False)
    night(5)
    assert (told(ready), ready.get("/alert-configs/rule-1")["states"]) == ([], [])


def test_a_metric_without_a_value_is_told_as_no_data(
    ready: Service, rule: RuleMaker, night: Night
) -> None:
    ready.post("/benchmarks/bench-001/kpis", {"name": "odd", "formula": "EXACT_MATCH / 0"})
    rule(kpi="odd", condition="LESS_THAN", threshold=0.8)
    night(9)
    night(9)
    assert told(ready) == [("NO_DATA", "quality falls")]
    assert "has no value" in ready.listed("/alerts")[0]["explanation"]


def test_an_anomaly_is_seen_after_five_nights_and_judged_by_the_tasks(
    ready: Service, rule: RuleMaker, night: Night
) -> None:
    rule(condition="ANOMALY_DETECTED", threshold=None)
    for right in (9, 8, 9, 10, 9):
        night(right)
        assert state(ready) == "WARMUP"
    night(9)
    assert state(ready) == "OK"
    night(3)
    [alert] = ready.listed("/alerts")
    assert (alert["state"], alert["details"]["method"]) == ("FIRING", "components")
