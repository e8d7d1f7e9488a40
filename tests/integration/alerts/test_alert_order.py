"""Alert states move forward in run order only, also with concurrent writers."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mosaico.alerts import queries
from mosaico.alerts.evaluation.judging import Assessed
from mosaico.alerts.evaluation.rule_memory import Memory
from mosaico.alerts.evaluation.run_evaluation import AlertDecision
from mosaico.alerts.rules import AlertOutcome, Assessment, ValueSpec
from mosaico.alerts.service import StaleDecision, record_decisions
from mosaico.core.clock import utc_now
from mosaico.runs.source_runs import lock_runs_of_agent
from tests.integration.alerts.conftest import RULE
from tests.support.past_runs import past_run
from tests.support.results import run_result
from tests.support.service import Service
from tests.support.stored import DatabaseReader
from tests.support.waiting import LIVENESS_S


def decision(
    seq: int, outcome: AlertOutcome, *, seen_seq: int | None = None, is_late: bool = False
) -> AlertDecision:
    assessment = Assessment(outcome=outcome, value=0.5, explanation="It fell.")
    return AlertDecision(
        rule_id="rule-1",
        revision=1,
        run=past_run(seq)._replace(is_late=is_late),
        memory=Memory(),
        assessed=Assessed(value_spec=ValueSpec(name="quality"), assessment=assessment),
        seen_seq=seen_seq,
    )


@pytest.fixture
# A single healthy run resolves: each pair of runs is an incident.
def service_with_rule(benchmark_service: Service) -> Service:
    benchmark_service.post("/alert-configs", {**RULE, "keepFiringForRuns": 0})
    return benchmark_service


def record(service: Service, seq: int, outcome: AlertOutcome) -> None:
    """Records a decision as the end of a run does: its place is known under the lock of the runs of its agent."""
    with service.resources.db.begin() as session:
        lock_runs_of_agent(session, "bench-001", "agent-001")
        state = queries.get_state(session, "rule-1", "agent-001")
        is_late = state is not None and state.run_seq > seq
        decided = decision(seq, outcome, is_late=is_late)
        record_decisions(session, run_result(seq), [decided], utc_now())


@pytest.fixture(autouse=True)
def _runs(service_with_rule: Service, rows: DatabaseReader) -> None:
    rows.execute(
        "INSERT INTO benchmark_runs (id, benchmark_id, agent_id, status, triggered_by, retry_count, fencing_token,"
        " shards_done, traces_collected, traces_processed, metrics_computed)"
        " SELECT concat('run-', number), 'bench-001', 'agent-001', 'COMPLETED', 'MANUAL', 0, 0, 0, 0, 0, 0"
        " FROM generate_series(1, 2000) AS number"
    )


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


def test_record_decisions__a_late_breach_is_told_and_opens_no_incident(
    service_with_rule: Service,
) -> None:
    record(service_with_rule, 2, AlertOutcome.HEALTHY)
    record(service_with_rule, 1, AlertOutcome.BREACH)
    assert states(service_with_rule) == ["LATE"]
    assert service_with_rule.list_items("/incidents") == []
    [state] = service_with_rule.get("/alert-configs/rule-1")["states"]
    assert (state["state"], state["runId"]) == ("OK", "run-2")


@pytest.mark.parametrize("seen_seq", [None, 3])
def test_record_decisions__a_decision_about_what_has_changed_is_repeated(
    service_with_rule: Service, seen_seq: int | None
) -> None:
    """The rule was edited, or another run has ended."""
    if seen_seq is None:
        service_with_rule.patch("/alert-configs/rule-1", {"threshold": 20})
    stale = decision(1, AlertOutcome.BREACH, seen_seq=seen_seq)
    with service_with_rule.resources.db.begin() as session, pytest.raises(StaleDecision):
        record_decisions(session, run_result(1), [stale], utc_now())
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
    # Workers overtake each other, so that some runs are late; the others must alternate.
    alert_states = [state for state in states(service_with_rule) if state != "LATE"]
    assert alert_states == (["FIRING", "RESOLVED"] * len(alert_states))[: len(alert_states)]
    repeated = "SELECT count(*) FROM (SELECT 1 FROM alert_events GROUP BY incident_id, state HAVING count(*) > 1) AS x"
    assert rows.value(repeated) == 0
