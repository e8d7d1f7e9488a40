"""Alert states move forward in run order only, also with concurrent writers."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mosaico.alerts.evaluation.run_evaluation import AlertDecision
from mosaico.alerts.rules import AlertOutcome, Assessment
from mosaico.alerts.service import record_decisions
from mosaico.core.clock import utc_now
from tests.integration.alerts.conftest import RULE
from tests.support.results import run_result
from tests.support.service import Service
from tests.support.stored import DatabaseReader
from tests.support.waiting import LIVENESS_S


def decision(outcome: AlertOutcome) -> AlertDecision:
    assessment = Assessment(outcome=outcome, value=0.5, explanation="It fell.")
    return AlertDecision(rule_id="rule-1", revision=1, assessment=assessment)


@pytest.fixture
# A single healthy run resolves: each pair of runs is an incident.
def service_with_rule(benchmark_service: Service) -> Service:
    benchmark_service.post("/alert-configs", {**RULE, "keepFiringForRuns": 0})
    return benchmark_service


def record(service: Service, seq: int, outcome: AlertOutcome) -> None:
    with service.resources.db.begin() as session:
        record_decisions(session, run_result(seq), [decision(outcome)], utc_now())


def states(service: Service) -> list[str]:
    return [alert["state"] for alert in reversed(service.list_items("/alerts"))]


def test_record_decisions__an_older_run_that_ends_late_changes_nothing(
    service_with_rule: Service,
) -> None:
    record(service_with_rule, 2, AlertOutcome.BREACH)
    # Run 1 ends after its successor, and the job of run 2 is repeated.
    record(service_with_rule, 1, AlertOutcome.HEALTHY)
    record(service_with_rule, 2, AlertOutcome.HEALTHY)
    assert states(service_with_rule) == ["FIRING"]
    record(service_with_rule, 3, AlertOutcome.HEALTHY)
    assert states(service_with_rule) == ["FIRING", "RESOLVED"]


def test_record_decisions__a_decision_about_an_older_revision_is_dropped(
    service_with_rule: Service,
) -> None:
    service_with_rule.patch("/alert-configs/rule-1", {"threshold": 20})
    record(service_with_rule, 1, AlertOutcome.BREACH)
    assert states(service_with_rule) == []


def test_record_decisions__concurrent_writers_notify_each_incident_once(
    service_with_rule: Service, rows: DatabaseReader
) -> None:
    incident_count = 6
    # Both judge each run at the same moment, as two workers may after a rescue.
    together = threading.Barrier(2)

    def judge(_: int) -> None:
        for seq in range(1, 2 * incident_count + 1):
            together.wait(timeout=LIVENESS_S)
            record(service_with_rule, seq, AlertOutcome.BREACH if seq % 2 else AlertOutcome.HEALTHY)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(judge, range(2)))
    assert states(service_with_rule) == ["FIRING", "RESOLVED"] * incident_count
    assert rows.value("SELECT count(*) FROM notifications") == 2 * incident_count
    assert rows.value("SELECT count(DISTINCT incident_id) FROM alert_events") == incident_count


@pytest.mark.prove
def test_record_decisions__ten_thousand_concurrent_decisions_notify_each_incident_once(
    service_with_rule: Service, rows: DatabaseReader
) -> None:
    def judge(worker: int) -> None:
        for seq in range(1, 2001):
            record(service_with_rule, seq, AlertOutcome.BREACH if seq % 2 else AlertOutcome.HEALTHY)

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(judge, range(5)))
    # Workers overtake each other, so that some runs are passed over; the others must alternate.
    alert_states = states(service_with_rule)
    assert alert_states == (["FIRING", "RESOLVED"] * len(alert_states))[: len(alert_states)]
    repeated = "SELECT count(*) FROM (SELECT 1 FROM alert_events GROUP BY incident_id, state HAVING count(*) > 1) AS x"
    assert rows.value(repeated) == 0
