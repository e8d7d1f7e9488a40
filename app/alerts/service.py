"""Writes to the states of alert rules: what a run, an edit or a person changes."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from app.alerts import incidents, queries
from app.alerts.evaluation import AlertDecision
from app.alerts.models import AlertEvent, AlertRule, AlertState
from app.alerts.publishing import (
    EventNotice,
    publish_after_silence,
    publish_notice,
    store_and_publish,
)
from app.alerts.rules import (
    AlertEventState,
    AlertOutcome,
    AlertStatus,
    IncidentResolution,
    RuleState,
    StateChange,
    advance,
    advance_by_evidence,
)
from app.alerts.schemas import rule_spec
from app.core.errors import Conflict, Unavailable
from app.core.ids import new_id
from app.notifications.types import MessageSeverity
from app.results.run_result import RunResult


class NotAcknowledgeable(Conflict):
    """Only a FIRING alert can be acknowledged; acknowledge the first alert of the incident."""

    code = "not-acknowledgeable"


class StaleDecision(Unavailable):
    """Another run of the agent ended after the run was evaluated; the step is repeated."""

    code = "stale-decision"


def record_decisions(
    session: Session, result: RunResult, decisions: Sequence[AlertDecision], now: datetime
) -> None:
    """Advance the state of each rule by one run and publish what changed, as one message for each
    group of recipients with the same alerts.

    A decision is dropped when its rule was edited or disabled after it was evaluated, or when the
    rule has already seen a later run.
    Locks: the rules (against edits), then their states.
    Raises: `StaleDecision` when an earlier run ended after the evaluation.
    """
    if not result.is_valid:
        publish_notice(session, _invalid_run_notice(result), now)
        return
    rule_ids = [decision.rule_id for decision in decisions]
    if not rule_ids:
        return
    # Rules before states, both in the order of their IDs: every writer takes the locks in this order.
    rules = queries.lock_enabled_rules(session, rule_ids)
    states = _lock_states(session, sorted(rules), result.agent_id, now)
    events, firing_incidents = [], []
    for decision in decisions:
        rule, state = rules.get(decision.rule_id), states.get(decision.rule_id)
        # Deleted, disabled or edited since it was judged: the decision is about another rule.
        if rule is None or state is None or rule.revision != decision.revision:
            continue
        # States move forward in the order of runs only: a slow run that ends after its successor
        # was judged would otherwise fire or resolve on old news.
        if state.run_seq >= result.run_seq:
            continue
        if decision.seen_seq is not None and decision.seen_seq != state.run_seq:
            raise StaleDecision("another run ended in the meantime; evaluate the run again")
        if state.incident_id and decision.assessment.outcome is AlertOutcome.BREACH:
            firing_incidents.append(state.incident_id)
        events += _advance_state(session, rule, state, result, decision, now)
    # Before the new events: a recipient learns of an incident before it learns that it has ended.
    publish_after_silence(session, firing_incidents, rules, now)
    store_and_publish(session, events, rules, now)


def acknowledge(
    session: Session, event_id: str, verdict: str, by: str | None, now: datetime
) -> AlertEvent:
    """Store whether an alert was true or noise; a later acknowledgement replaces it. Noise closes
    the incident, and its runs are history again.

    Raises: `AlertNotFound`; `NotAcknowledgeable` for an alert that is not FIRING.
    """
    event = queries.get_event(session, event_id)
    if event.state != AlertEventState.FIRING:
        raise NotAcknowledgeable(_not_acknowledgeable_detail(event))
    incidents.acknowledge(session, event.id, verdict, by, now)
    session.refresh(event)
    return event


def reset_states(session: Session, rule: AlertRule, reason: str, now: datetime) -> None:
    """Resolve the open incidents of a rule, and delete its states so that it starts anew."""
    states = select(AlertState).where(AlertState.rule_id == rule.id)
    # Locked in one order, like everywhere: a run that ends now waits and then finds no state.
    for state in session.scalars(states.order_by(AlertState.agent_id).with_for_update()):
        if state.incident_id is not None:
            incident = queries.get_incident(session, state.incident_id, for_update=True)
            closing = incidents.Closing(IncidentResolution.RULE_CHANGED, reason)
            incidents.close(session, incident, state, rule, closing, now)
    session.execute(delete(AlertState).where(AlertState.rule_id == rule.id))


def _not_acknowledgeable_detail(event: AlertEvent) -> str:
    remedy = (
        f"acknowledge {event.incident_id}, the first alert of the incident"
        if event.incident_id
        else "choose one of GET /api/v1/alerts?state=FIRING"
    )
    return f"this alert is {event.state}, and only a FIRING alert can be acknowledged; {remedy}"


def _lock_states(
    session: Session, rule_ids: Sequence[str], agent_id: str, now: datetime
) -> dict[str, AlertState]:
    """The states of rules for an agent, by rule, locked; created for rules without one.

    The row is inserted before it is locked: a first run has none, and two runs that end at the same
    time must not both start from an empty state.
    """
    if not rule_ids:
        return {}
    initial = {
        "agent_id": agent_id,
        "run_seq": 0,
        "run_id": "",
        "state": AlertStatus.OK,
        "breaches": 0,
        "clears": 0,
        "explanation": "",
        "evaluated_at": now,
    }
    rows = [{"rule_id": rule_id, **initial} for rule_id in rule_ids]
    session.execute(insert(AlertState).values(rows).on_conflict_do_nothing())
    return queries.lock_states(session, rule_ids, agent_id)


def _advance_state(
    session: Session,
    rule: AlertRule,
    row: AlertState,
    result: RunResult,
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
    _write_state(row, change.state, result, decision, now)
    event = _new_event(rule, row, result, decision, change, now) if change.notification else None
    if event is not None and change.notification is AlertEventState.FIRING:
        # The FIRING event gives its ID to the incident; all later events of it carry the same one.
        row.incident_id = event.incident_id = event.id
        incidents.open_incident(session, rule, row, result, decision, event)
    elif row.incident_id is not None:
        incidents.advance_incident(session, row, result, decision, event)
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
    row: AlertState, state: RuleState, result: RunResult, decision: AlertDecision, now: datetime
) -> None:
    assessment = decision.assessment
    if state.clears and not row.clears:
        row.clear_seq = result.run_seq
    row.breach_seq = (row.breach_seq or result.run_seq) if state.breaches else None
    row.state, row.breaches, row.clears = state.status, state.breaches, state.clears
    row.fired_at = state.fired_at
    if decision.step is not None:
        row.series = decision.step.state
    row.value, row.baseline = assessment.value, assessment.baseline
    row.explanation, row.evaluated_at = assessment.explanation, now
    row.run_seq, row.run_id = result.run_seq, result.run_id


def _new_event(
    rule: AlertRule,
    row: AlertState,
    result: RunResult,
    decision: AlertDecision,
    change: StateChange,
    now: datetime,
) -> AlertEvent:
    assessment, state = decision.assessment, change.notification
    assert state is not None, "an event is created for a notification"
    return AlertEvent(
        id=new_id(),
        dedup_key=_dedup_key(state, rule.id, result.run_id, row.incident_id),
        state=state,
        rule_id=rule.id,
        name=rule.name,
        # A partial recovery is good news about an incident that is known.
        severity=MessageSeverity.INFO
        if state is AlertEventState.PARTLY_BACK
        else MessageSeverity(rule.severity),
        benchmark_id=result.benchmark_id,
        agent_id=result.agent_id,
        run_id=result.run_id,
        run_seq=result.run_seq,
        incident_id=row.incident_id,
        value=assessment.value,
        baseline=assessment.baseline,
        explanation=assessment.explanation,
        details=assessment.details,
        created_at=now,
    )


def _dedup_key(state: AlertEventState, rule_id: str, run_id: str, incident_id: str | None) -> str:
    """An incident is resolved once; anything else happens once for each rule and run."""
    if state is AlertEventState.RESOLVED:
        return f"resolved/{incident_id}"
    return f"{state.lower()}/{rule_id}/{run_id}"


def _invalid_run_notice(result: RunResult) -> EventNotice:
    reasons = "; ".join(result.validity.reasons) or "too few traces were measured"
    return EventNotice(
        state=AlertEventState.RUN_INVALID,
        dedup_key=f"run-invalid/{result.run_id}",
        name="run invalid",
        benchmark_id=result.benchmark_id,
        agent_id=result.agent_id,
        run_id=result.run_id,
        run_seq=result.run_seq,
        explanation=f"The numbers of this run cannot be trusted: {reasons}."
        " The states of the alert rules do not change.",
    )
