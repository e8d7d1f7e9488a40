"""Confirm before page: a suspicious run is repeated with more trials, and both decide together.

Meanwhile the state is PENDING. When the repetition fails, or has not ended after two hours, or the
next run ends before it, the run is evaluated alone, so a repetition never suppresses a page.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import literal_column, select
from sqlalchemy.orm import Session

from mosaico.alerts import queries
from mosaico.alerts.details import Confirmation
from mosaico.alerts.evaluation.incident_rules import SeriesStep
from mosaico.alerts.evaluation.run_evaluation import AlertDecision, RunFields
from mosaico.alerts.models import CONFIRMED_RUN, AlertEvent, AlertRule, AlertState
from mosaico.alerts.publishing import store_and_publish
from mosaico.alerts.rules import AlertOutcome, AlertStatus, Assessment
from mosaico.alerts.state_changes import advance_state
from mosaico.alerts.stored_series import store_step
from mosaico.core.batches import STATEMENT_ROWS
from mosaico.kpis.series_types import SeriesStatus

TICK_S = 60.0
CONFIRM_TIMEOUT = timedelta(hours=2)
AWAITED = "The run is suspicious. It is repeated with more trials before a notification is sent."


class ConfirmedRun(NamedTuple):
    """The run that was repeated."""

    run_id: str
    run_seq: int
    benchmark_id: str
    agent_id: str
    fingerprint: str | None


def await_confirmation(
    row: AlertState, run: RunFields, decision: AlertDecision, now: datetime, *, leads: bool
) -> None:
    """Keep a suspicious run until it is repeated; the state is PENDING."""
    assert decision.step is not None, "only the evidence over runs is confirmed"
    assessment = decision.assessment
    row.confirmation = Confirmation(
        leads=leads,
        run_id=run.run_id,
        run_seq=run.run_seq,
        fingerprint=run.fingerprint,
        state=decision.step.state,
        value=assessment.value,
        baseline=assessment.baseline,
        explanation=assessment.explanation,
        details=assessment.details,
    )
    row.confirm_until = now + CONFIRM_TIMEOUT
    row.series = decision.series_before
    row.state, row.run_seq, row.run_id = AlertStatus.PENDING, run.run_seq, run.run_id
    row.value, row.baseline = assessment.value, assessment.baseline
    row.explanation, row.evaluated_at = f"{assessment.explanation} {AWAITED}", now


def record_joint_decisions(
    session: Session, run_id: str, decisions: Sequence[AlertDecision], now: datetime
) -> None:
    """Apply what a suspicious run and its repetition say together; dropped for rules that were
    edited, and for states that no longer wait.
    """
    rules = queries.lock_enabled_rules(session, [decision.rule_id for decision in decisions])
    by_rule = {decision.rule_id: decision for decision in decisions}
    events: list[AlertEvent] = []
    for row in _lock_waiting(session, run_id):
        rule, decision = rules.get(row.rule_id), by_rule.get(row.rule_id)
        if rule is not None and decision is not None and rule.revision == decision.revision:
            events += _apply(session, rule, row, decision, now)
    store_and_publish(session, events, rules, now, after_run=run_id)


def settle_run(session: Session, run_id: str, now: datetime) -> None:
    """Decide the states that still wait for the repetition of a run by the run alone."""
    _settle_all(session, [row.rule_id for row in find_waiting(session, run_id)], run_id, now)


def settle_overdue(session: Session, now: datetime) -> None:
    """Decide the states whose repetition is late by the run alone, a batch in each call."""
    overdue = select(AlertState).where(AlertState.confirm_until < now)
    oldest = overdue.order_by(AlertState.confirm_until).limit(STATEMENT_ROWS)
    rows = session.scalars(oldest).all()
    for row in sorted(rows, key=lambda row: (row.rule_id, row.agent_id)):
        if row.confirmation is not None:
            _settle_all(session, [row.rule_id], row.confirmation.run_id, now)


def settle(session: Session, rule: AlertRule, row: AlertState, now: datetime) -> list[AlertEvent]:
    """The events of a waiting state, decided by the run alone."""
    confirmation = row.confirmation
    assert confirmation is not None, "the state waits"
    step = _step_alone(confirmation)
    is_open = step.evidence.status is SeriesStatus.FIRING
    decision = AlertDecision(
        rule_id=rule.id,
        revision=rule.revision,
        assessment=Assessment(
            outcome=AlertOutcome.BREACH if is_open else AlertOutcome.HEALTHY,
            value=confirmation.value,
            baseline=confirmation.baseline,
            explanation=confirmation.explanation,
            details=confirmation.details,
        ),
        step=step,
    )
    return _apply(session, rule, row, decision, now)


def store_evidence_alone(session: Session, rule: AlertRule, row: AlertState) -> None:
    """Store the evidence of a run alone with it, when the rule that leads stops waiting for the repetition."""
    if row.confirmation is not None and row.confirmation.leads:
        step = _step_alone(row.confirmation)
        store_step(session, rule, row.confirmation.run_seq, step)


def _step_alone(confirmation: Confirmation) -> SeriesStep:
    runs = confirmation.details.runs
    assert runs is not None, "only the evidence over runs is confirmed"
    return SeriesStep(confirmation.state, runs)


def _apply(
    session: Session, rule: AlertRule, row: AlertState, decision: AlertDecision, now: datetime
) -> list[AlertEvent]:
    confirmation = row.confirmation
    assert confirmation is not None, "the state waits"
    run = ConfirmedRun(
        confirmation.run_id,
        confirmation.run_seq,
        rule.benchmark_id,
        row.agent_id,
        confirmation.fingerprint,
    )
    row.confirmation = row.confirm_until = None
    if decision.step is not None and confirmation.leads:
        store_step(session, rule, run.run_seq, decision.step)
    return advance_state(session, rule, row, run, decision, now)


def _settle_all(session: Session, rule_ids: Sequence[str], run_id: str, now: datetime) -> None:
    if not rule_ids:
        return
    rules = queries.lock_enabled_rules(session, rule_ids)
    events: list[AlertEvent] = []
    for row in _lock_waiting(session, run_id):
        if (rule := rules.get(row.rule_id)) is not None:
            events += settle(session, rule, row, now)
    store_and_publish(session, events, rules, now, after_run=run_id)


def find_waiting(session: Session, run_id: str) -> list[AlertState]:
    statement = select(AlertState).where(
        AlertState.confirmation.is_not(None), literal_column(CONFIRMED_RUN) == run_id
    )
    return list(session.scalars(statement.order_by(AlertState.rule_id)))


def _lock_waiting(session: Session, run_id: str) -> list[AlertState]:
    """The states that wait for the repetition of a run, locked in the order of all writers."""
    waiting = find_waiting(session, run_id)
    locked = [
        queries.lock_states(session, [row.rule_id], row.agent_id).get(row.rule_id)
        for row in waiting
    ]
    return [
        row
        for row in locked
        if row is not None and row.confirmation is not None and row.confirmation.run_id == run_id
    ]
