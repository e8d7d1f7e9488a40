"""Alerts of completed, invalid and failed runs."""

from typing import Any

import pytest

from tests.integration.alerts.conftest import RuleMaker, RunMaker
from tests.support.run_histories import RunHistoryMaker
from tests.support.service import Service, pair
from tests.support.stored import DatabaseReader
from tests.support.texts import assert_names


def notified_alerts(service: Service) -> list[tuple[str, str]]:
    """State and name of all alerts, oldest first."""
    return [(alert["state"], alert["name"]) for alert in reversed(service.list_items("/alerts"))]


def state(service: Service, rule_id: str = "rule-1") -> str:
    [state_row] = service.get(f"/alert-configs/{rule_id}")["states"]
    return str(state_row["state"])


def inbox(service: Service) -> list[Any]:
    return service.list_items("/notifications")


def test_alert__fires_for_a_second_run_that_is_worse(
    benchmark_service: Service, create_rule: RuleMaker, run_with: RunMaker
) -> None:
    create_rule()
    run_with(10)
    assert state(benchmark_service) == "WARMUP"
    worse = run_with(6)
    assert state(benchmark_service) == "FIRING"
    [alert] = benchmark_service.list_items("/alerts")
    assert (alert["state"], alert["runId"], alert["alertConfigId"]) == (
        "FIRING", worse["id"], "rule-1",
    )  # fmt: skip
    assert (alert["value"], alert["baseline"]) == (0.6, 1.0)
    assert_names(alert["explanation"], "40 %", "0.600", "1.000", "10 %")
    assert alert["runUrl"] == f"/api/v1/benchmark-runs/{worse['id']}"
    traces = alert["contributingTraces"]
    assert [(trace["itemId"], trace["value"], trace["before"]) for trace in traces] == [
        ("i-6", 0.0, 1.0), ("i-7", 0.0, 1.0), ("i-8", 0.0, 1.0), ("i-9", 0.0, 1.0),
    ]  # fmt: skip
    [message] = inbox(benchmark_service)
    assert message["id"] == alert["notificationId"]
    assert message["title"] == "Pelican: quality 1.000 → 0.600, limit 10 % (bench-001)"


def test_incident__is_notified_at_its_beginning_and_its_end(
    benchmark_service: Service, create_rule: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_rule(condition="LESS_THAN", threshold=0.8, forRuns=2, keepFiringForRuns=1)
    states = []
    for value in (0.9, 0.7, 0.7, 0.7, 0.9, 0.9, 0.9):
        complete(value)
        states.append(state(benchmark_service))
    # The second bad run fires (forRuns), the second good one resolves (keepFiringForRuns).
    assert states == ["OK", "PENDING", "FIRING", "FIRING", "FIRING", "RESOLVED", "OK"]
    fired, resolved = reversed(benchmark_service.list_items("/alerts"))
    assert (fired["state"], resolved["state"]) == ("FIRING", "RESOLVED")
    assert fired["incidentId"] == resolved["incidentId"] == fired["id"]
    assert len(inbox(benchmark_service)) == 2


@pytest.mark.parametrize("answer", ["noise", "accept"])
def test_incident__closed_by_a_person_shows_the_value_as_a_share(
    benchmark_service: Service, create_rule: RuleMaker, run_with: RunMaker, answer: str
) -> None:
    create_rule()
    run_with(10)
    run_with(5)
    [incident] = benchmark_service.list_items("/incidents")
    benchmark_service.post(f"/incidents/{incident['id']}/{answer}", {})
    titles = [message["title"] for message in reversed(inbox(benchmark_service))]
    assert titles == [
        "Pelican: quality 1.000 → 0.500, limit 10 % (bench-001)",
        "Resolved after less than a minute: Pelican: quality is 0.500 (bench-001)",
    ]


def test_invalid_run__causes_a_notice_and_keeps_the_states(
    benchmark_service: Service, create_rule: RuleMaker, run_with: RunMaker
) -> None:
    create_rule(condition="LESS_THAN", threshold=0.8)
    run_with(9)
    invalid = run_with(0, silent=5)
    assert invalid["validity"] == "INVALID"
    assert notified_alerts(benchmark_service) == [("RUN_INVALID", "run invalid")]
    title = inbox(benchmark_service)[0]["title"]
    assert title.startswith("Pelican: run invalid: coverage is 50.0 %")
    assert state(benchmark_service) == "OK"
    [alert] = benchmark_service.list_items("/alerts")
    assert "coverage is 50.0 %" in alert["explanation"]


def test_failed_run__causes_a_notice_and_no_drop_to_zero(
    benchmark_service: Service, create_rule: RuleMaker, run_with: RunMaker
) -> None:
    create_rule(condition="LESS_THAN", threshold=0.8)
    run_with(9)
    failed = benchmark_service.complete_run(runName="nowhere")
    assert failed["status"] == "FAILED"
    assert notified_alerts(benchmark_service) == [("RUN_FAILED", "run failed")]
    assert state(benchmark_service) == "OK"
    assert "RUN_NOT_FOUND" in benchmark_service.list_items("/alerts")[0]["explanation"]


def test_publish__many_alerts_of_a_run_are_one_message(
    benchmark_service: Service, run_with: RunMaker, rows: DatabaseReader
) -> None:
    url = "https://hooks.example.com/alerts"
    endpoint = benchmark_service.post("/endpoints", {"channel": "WEBHOOK", "recipient": url})
    rows.execute(
        """INSERT INTO alert_rules (id, name, benchmark_id, metric, condition, threshold, severity,
               channels, endpoints, enabled, cooldown_minutes, for_runs, keep_firing_for_runs,
               no_data, baseline_runs, revision)
           SELECT 'r-' || n, 'rule ' || n, 'bench-001', 'EXACT_MATCH', 'LESS_THAN', 0.5, 'WARNING',
                  '["IN_APP", "WEBHOOK"]', jsonb_build_array(%s::text), true, 0, 1, 1,
                  'NO_DATA', 5, 1
           FROM generate_series(1, 120) AS n""",
        endpoint["id"],
    )
    run_with(1)
    assert rows.value("SELECT count(*) FROM alert_events WHERE state = 'FIRING'") == 120
    assert rows.value("SELECT count(DISTINCT notification_id) FROM alert_events") == 1
    [message] = inbox(benchmark_service)
    assert message["title"] == "Pelican: EXACT_MATCH 0.10, below 0.50 (bench-001)"
    # One cause is told once, with the names of its rules.
    [item] = message["items"]
    assert item["sentences"][-1].startswith("Alert rules: rule 1, rule 10, rule 100,")
    assert rows.value("SELECT count(*) FROM deliveries") == 1


def test_publish__each_recipient_gets_one_message_with_its_alerts(
    benchmark_service: Service,
    create_rule: RuleMaker,
    complete: RunHistoryMaker,
    rows: DatabaseReader,
) -> None:
    url, other_url = "https://one.example.com/", "https://other.example.com/"
    for name, recipients in (("a", [url]), ("b", [url, other_url]), ("c", [other_url]), ("d", [])):
        create_rule(id=f"rule-{name}", name=name, condition="LESS_THAN", threshold=0.8,
             channels=["WEBHOOK"] if recipients else [], recipients=recipients)  # fmt: skip
    complete(0.5)
    [message] = inbox(benchmark_service)
    assert [item["sentences"][-1] for item in message["items"]] == ["Alert rules: a, b, c, d."]
    assert {alert["notificationId"] for alert in benchmark_service.list_items("/alerts")} == {
        message["id"]
    }
    messages = {
        delivery["recipient"]: benchmark_service.get(f"/notifications/{delivery['notificationId']}")
        for delivery in benchmark_service.list_items("/deliveries")
    }
    assert {
        to: [item["sentences"][-1] for item in message["items"]] for to, message in messages.items()
    } == {
        url: ["Alert rules: a, b."],
        other_url: ["Alert rules: b, c."],
    }
    assert rows.value("SELECT count(*) FROM deliveries") == 2


# The runs of a history are earlier than today.
SILENCE = {
    "id": "quiet",
    "matchers": {"name": "quality*"},
    "startsAt": "2026-01-01T00:00:00Z",
    "endsAt": "2099-01-01T00:00:00Z",
}


def test_silence__alert_is_recorded_but_not_sent(
    benchmark_service: Service, create_rule: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_rule(condition="LESS_THAN", threshold=0.8)
    benchmark_service.post("/silences", SILENCE)
    complete(0.5)
    assert state(benchmark_service) == "FIRING"
    [alert] = benchmark_service.list_items("/alerts")
    assert (alert["silenceId"], alert["notificationId"]) == ("quiet", None)
    assert inbox(benchmark_service) == []


def test_silence__an_incident_that_outlasts_it_is_sent_with_the_next_run(
    benchmark_service: Service, create_rule: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_rule(condition="LESS_THAN", threshold=0.8)
    benchmark_service.post("/silences", SILENCE)
    complete(0.5, 0.5)
    assert inbox(benchmark_service) == []
    benchmark_service.delete("/silences/quiet")
    # The first run sends what the silence held back, and the second one has no news.
    complete(0.5, 0.5)
    [message] = inbox(benchmark_service)
    assert message["title"] == "Pelican: quality 0.500, below 0.800 (bench-001)"
    [alert] = benchmark_service.list_items("/alerts")
    assert (alert["silenceId"], alert["notificationId"]) == (None, message["id"])


@pytest.mark.parametrize("ends_by", ["a run", "an edit"])
def test_silence__the_end_of_a_silenced_incident_is_not_sent(
    benchmark_service: Service, create_rule: RuleMaker, complete: RunHistoryMaker, ends_by: str
) -> None:
    create_rule(condition="LESS_THAN", threshold=0.8, keepFiringForRuns=0)
    benchmark_service.post("/silences", SILENCE)
    complete(0.5)
    benchmark_service.delete("/silences/quiet")
    if ends_by == "a run":
        complete(0.9)
    else:
        benchmark_service.patch("/alert-configs/rule-1", {"enabled": False})
    [end, beginning] = benchmark_service.list_items("/alerts")
    assert (end["state"], beginning["state"]) == ("RESOLVED", "FIRING")
    assert (end["silenceId"], end["notificationId"]) == ("quiet", None)
    assert inbox(benchmark_service) == []


def test_update_rule__resolves_open_incidents_and_starts_anew(
    benchmark_service: Service, create_rule: RuleMaker, run_with: RunMaker
) -> None:
    create_rule(condition="LESS_THAN", threshold=0.8)
    run_with(5)
    benchmark_service.patch("/alert-configs/rule-1", {"threshold": 0.2})
    assert notified_alerts(benchmark_service) == [
        ("FIRING", "quality falls"),
        ("RESOLVED", "quality falls"),
    ]
    assert benchmark_service.get("/alert-configs/rule-1")["states"] == []
    benchmark_service.patch("/alert-configs/rule-1", {"name": "another name"})
    run_with(1)
    benchmark_service.delete("/alert-configs/rule-1")
    assert [alert[0] for alert in notified_alerts(benchmark_service)] == [
        "FIRING",
        "RESOLVED",
        "FIRING",
        "RESOLVED",
    ]
    assert (
        benchmark_service.list_items("/alerts")[0]["explanation"] == "The alert rule was deleted."
    )


def test_disabled_rule__judges_no_run(
    benchmark_service: Service, create_rule: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_rule(condition="LESS_THAN", threshold=0.8, enabled=False)
    complete(0.5)
    assert (
        notified_alerts(benchmark_service),
        benchmark_service.get("/alert-configs/rule-1")["states"],
    ) == ([], [])


def test_alert__a_metric_without_a_value_is_no_data(
    benchmark_service: Service, create_rule: RuleMaker, run_with: RunMaker
) -> None:
    benchmark_service.post(
        "/benchmarks/bench-001/kpis", {"name": "odd", "formula": "EXACT_MATCH / 0"}
    )
    create_rule(kpi="odd", condition="LESS_THAN", threshold=0.8)
    run_with(9)
    run_with(9)
    assert notified_alerts(benchmark_service) == [("NO_DATA", "quality falls")]
    assert "has no value" in benchmark_service.list_items("/alerts")[0]["explanation"]


def test_regressed__a_cost_of_zero_is_stored_and_ends_the_incident(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["COST_USD"])
    service.post(
        "/alert-configs",
        {
            "id": "cost", "name": "cost rises", "benchmarkId": "bench-001", "metric": "COST_USD",
            "condition": "REGRESSED",
        },
    )  # fmt: skip
    for run, cost in enumerate((0.0, 0.0, 0.0, 0.0, 0.02, *[0.0] * 5)):
        traces = [pair(number, costUsd=cost) for number in range(10)]
        for trace in traces:
            trace["traceId"] += f"-{run}"
        service.upload(traces, run_name=f"run-{run}")
        service.complete_run(runName=f"run-{run}")
    [incident] = service.list_items("/incidents")
    assert (incident["baseline"], incident["openedValue"]) == (0, 0.02)
    assert (incident["resolution"], incident["value"]) == ("RECOVERED", 0)
