"""The next state of an alert rule after a run, with the alert and the incident that follow."""

from datetime import datetime

from sqlalchemy.orm import Session

from mosaico.alerts import incidents
from mosaico.alerts.details import AlertDetails
from mosaico.alerts.evaluation.judging import remember
from mosaico.alerts.evaluation.rule_memory import Memory
from mosaico.alerts.evaluation.run_evaluation import AlertDecision, RunFields
from mosaico.alerts.evaluation.state_memory import memory_of, store_memory
from mosaico.alerts.models import AlertEvent, AlertRule, AlertState
from mosaico.alerts.rules import AlertEventState, AlertOutcome, Assessment, StateChange
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
    """Advance one rule by one run with new data; returns the event to publish, if any."""
    assert decision.assessed is not None, "the condition was evaluated"
    assessment = decision.assessed.assessment
    memory, change = remember(rule_spec(rule), memory_of(row), decision.run, decision.assessed, now)
    store_memory(row, memory)
    row.value, row.baseline = assessment.value, assessment.baseline
    row.explanation, row.evaluated_at = assessment.explanation, now
    notification = _notification_of(row, assessment, change)
    event = None
    if notification is not None:
        event = new_event(rule, row, run, assessment, notification, now)
    if event is not None and notification is AlertEventState.FIRING:
        _open(session, rule, row, run, event)
    elif row.incident_id is not None:
        incidents.advance_incident(session, row, run, decision, event)
    if not memory.state.open:
        row.incident_id = None
    return [] if event is None else [event]


def _notification_of(
    row: AlertState, assessment: Assessment, change: StateChange
) -> AlertEventState | None:
    """The event of a change, for recipients who know of the open incident or do not."""
    if row.incident_id is not None or change.notification is AlertEventState.NO_DATA:
        return change.notification
    # An incident of stored runs, from before the rule was made, is told with the next breach.
    is_untold = row.is_open and assessment.outcome is AlertOutcome.BREACH
    return AlertEventState.FIRING if is_untold else None


def tell_incident(
    session: Session,
    rule: AlertRule,
    row: AlertState,
    run: RunFields,
    decision: AlertDecision,
    now: datetime,
) -> list[AlertEvent]:
    """The event of an incident of stored runs that nobody was told of, for a run with the data of the last one."""
    last = decision.alone or decision.last
    details = last.details if last is not None else AlertDetails()
    details = details.model_copy(update={"value_name": details.value_name or rule.name})
    assessment = Assessment(
        outcome=AlertOutcome.BREACH,
        value=row.value,
        baseline=row.baseline,
        explanation=row.explanation,
        details=details,
    )
    event = new_event(rule, row, run, assessment, AlertEventState.FIRING, now)
    _open(session, rule, row, run, event)
    return [event]


def store_new_memory(
    row: AlertState, memory: Memory, last: Assessment | None, now: datetime
) -> None:
    """The state of a rule that begins with the stored runs. No message is sent about them."""
    store_memory(row, memory)
    row.evaluated_at = now
    if last is not None:
        row.value, row.baseline, row.explanation = last.value, last.baseline, last.explanation


def _open(
    session: Session,
    rule: AlertRule,
    row: AlertState,
    run: RunFields,
    event: AlertEvent,
) -> None:
    # The FIRING event gives its ID to the incident; all later events of it carry the same one.
    row.incident_id = event.incident_id = event.id
    incidents.open_incident(session, rule, row, run, event)


def new_event(
    rule: AlertRule,
    row: AlertState | None,
    run: RunFields,
    assessment: Assessment,
    state: AlertEventState,
    now: datetime,
) -> AlertEvent:
    """The event of a rule; `row` is its state with the open incident, None for an event without one."""
    incident_id = row.incident_id if row is not None else None
    return AlertEvent(
        id=new_id(),
        dedup_key=_dedup_key(state, rule.id, run.run_id, incident_id),
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
        incident_id=incident_id,
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
