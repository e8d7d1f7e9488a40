"""The next state of an alert rule after a run, with the alert and the incident that follow."""

from dataclasses import replace
from datetime import datetime

from sqlalchemy.orm import Session

from mosaico.alerts import incidents
from mosaico.alerts.evaluation.run_evaluation import AlertDecision, RunFields
from mosaico.alerts.models import AlertEvent, AlertRule, AlertState
from mosaico.alerts.rules import (
    AlertEventState,
    AlertOutcome,
    AlertStatus,
    RuleState,
    StateChange,
    advance,
    advance_by_evidence,
)
from mosaico.alerts.schemas import rule_spec
from mosaico.core.ids import new_id
from mosaico.notifications.types import MessageSeverity


def advance_state(
    session: Session,
    rule: AlertRule,
    row: AlertState,
    run: RunFields,
    decision: AlertDecision,
    now: datetime,
) -> list[AlertEvent]:
    """Advance one rule by one run; returns the event to publish, if any."""
    before = RuleState(
        status=AlertStatus(row.state),
        open=row.incident_id is not None,
        breaches=row.breaches,
        clears=row.clears,
        fired_at=row.fired_at,
    )
    change = _next_change(before, rule, decision, now)
    _write_state(row, change.state, run, decision, now)
    event = _new_event(rule, row, run, decision, change, now) if change.notification else None
    if event is not None and change.notification is AlertEventState.FIRING:
        # The FIRING event gives its ID to the incident; all later events of it carry the same one.
        row.incident_id = event.incident_id = event.id
        incidents.open_incident(session, rule, row, run, decision, event)
    elif row.incident_id is not None:
        incidents.advance_incident(session, row, run, decision, event)
    if not change.state.open:
        row.incident_id = row.clear_seq = None
    return [] if event is None else [event]


def _next_change(
    before: RuleState, rule: AlertRule, decision: AlertDecision, now: datetime
) -> StateChange:
    spec = rule_spec(rule)
    if decision.step is not None:
        return advance_by_evidence(before, decision.step.evidence, spec, now)
    if decision.is_reference_lost and before.open:
        return advance(before, AlertOutcome.HEALTHY, replace(spec, keep_firing_for_runs=0), now)
    return advance(before, decision.assessment.outcome, spec, now)


def _write_state(
    row: AlertState, state: RuleState, run: RunFields, decision: AlertDecision, now: datetime
) -> None:
    assessment = decision.assessment
    if state.clears and not row.clears:
        row.clear_seq = run.run_seq
    row.breach_seq = (row.breach_seq or run.run_seq) if state.breaches else None
    row.state, row.breaches, row.clears = state.status, state.breaches, state.clears
    row.fired_at = state.fired_at
    if decision.step is not None:
        row.series = decision.step.state
    row.value, row.baseline = assessment.value, assessment.baseline
    row.explanation, row.evaluated_at = assessment.explanation, now
    row.run_seq, row.run_id = run.run_seq, run.run_id


def _new_event(
    rule: AlertRule,
    row: AlertState,
    run: RunFields,
    decision: AlertDecision,
    change: StateChange,
    now: datetime,
) -> AlertEvent:
    assessment, state = decision.assessment, change.notification
    assert state is not None, "an event is created for a notification"
    return AlertEvent(
        id=new_id(),
        dedup_key=_dedup_key(state, rule.id, run.run_id, row.incident_id),
        state=state,
        rule_id=rule.id,
        name=rule.name,
        # A partial recovery is good news about an incident that is known.
        severity=MessageSeverity.INFO
        if state is AlertEventState.PARTLY_BACK
        else MessageSeverity(rule.severity),
        benchmark_id=run.benchmark_id,
        agent_id=run.agent_id,
        run_id=run.run_id,
        run_seq=run.run_seq,
        incident_id=row.incident_id,
        value=assessment.value,
        baseline=assessment.baseline,
        explanation=assessment.explanation,
        details=assessment.details.model_copy(update={"rule_revision": rule.revision}),
        created_at=now,
    )


def _dedup_key(state: AlertEventState, rule_id: str, run_id: str, incident_id: str | None) -> str:
    """An incident is resolved once; anything else happens once for each rule and run."""
    if state is AlertEventState.RESOLVED:
        return f"resolved/{incident_id}"
    return f"{state.lower()}/{rule_id}/{run_id}"
