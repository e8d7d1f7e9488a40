"""Writes to the states of alert rules: what a run, an edit or a person changes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from mosaico.alerts import event_queries, incident_queries, incidents, queries
from mosaico.alerts.evaluation.incident_rules import SeriesStep
from mosaico.alerts.evaluation.run_evaluation import AlertDecision
from mosaico.alerts.models import AlertEvent, AlertRule, AlertState
from mosaico.alerts.publishing import (
    EventNotice,
    publish_after_silence,
    publish_notice,
    store_and_publish,
)
from mosaico.alerts.rules import (
    AlertEventState,
    AlertOutcome,
    AlertStatus,
    IncidentResolution,
)
from mosaico.alerts.state_changes import advance_state
from mosaico.alerts.stored_series import leading_decisions
from mosaico.core.batch_delete import delete_all
from mosaico.core.batches import batched
from mosaico.core.errors import Conflict, Unavailable
from mosaico.run_store.run_result import RunResult

_CREATE_STATES: Final = text(
    """
    INSERT INTO alert_states
        (rule_id, agent_id, run_seq, run_id, state, breaches, clears, explanation, evaluated_at)
    SELECT rule_id, :agent_id, 0, '', :ok, 0, 0, '', :now
    FROM unnest(CAST(:rule_ids AS text[])) AS rule_id
    ON CONFLICT DO NOTHING
    """
)


class NotAcknowledgeable(Conflict):
    """Only a FIRING alert can be acknowledged; acknowledge the first alert of the incident."""


class StaleDecision(Unavailable):
    """Another run of the agent ended after the run was evaluated; the step is repeated."""


def record_decisions(
    session: Session, result: RunResult, decisions: Sequence[AlertDecision], now: datetime
) -> Mapping[str, SeriesStep]:
    """Advance the state of each rule by one run and publish what changed, as one message for each
    group of recipients with the same alerts. Returns, by series, the step of the rule whose verdict is
    stored with the run.

    A decision is dropped when its rule was edited or disabled after it was evaluated, or when the
    rule has already seen a later run.
    Locks: the rules (against edits), then their states.
    Raises: `StaleDecision` when an earlier run ended after the evaluation.
    """
    if not result.is_valid:
        publish_notice(session, _invalid_run_notice(result), now)
        return {}
    rule_ids = [decision.rule_id for decision in decisions]
    if not rule_ids:
        return {}
    # Rules before states, both in the order of their IDs: every writer takes the locks in this order.
    rules = queries.lock_enabled_rules(session, rule_ids)
    states = _lock_states(session, sorted(rules), result.agent_id, now)
    events, firing_incidents, applied_ids = [], [], set[str]()
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
        applied_ids.add(decision.rule_id)
        events += advance_state(session, rule, state, result, decision, now)
    # Before the new events: a recipient learns of an incident before it learns that it has ended.
    publish_after_silence(session, firing_incidents, rules, now, after_run=result.run_id)
    store_and_publish(session, events, rules, now, after_run=result.run_id)
    return {
        series: decision.step
        for series, decision in leading_decisions(rules, decisions).items()
        if decision.rule_id in applied_ids and decision.step is not None
    }


def acknowledge(
    session: Session,
    event_id: str,
    verdict: str,
    by: str | None,
    now: datetime,
    note: str | None = None,
) -> AlertEvent:
    """Store whether an alert was true or noise; a later acknowledgement replaces it. Noise closes
    the incident, and its runs are history again.

    Raises: `AlertNotFound`; `NotAcknowledgeable` for an alert that is not FIRING.
    """
    event = event_queries.get_event(session, event_id)
    if event.state != AlertEventState.FIRING:
        raise NotAcknowledgeable(_not_acknowledgeable_detail(event))
    incidents.acknowledge(session, event.id, verdict, by, now)
    session.refresh(event)
    event.note = note
    session.flush()
    return event


def reset_states(session: Session, rule: AlertRule, reason: str, now: datetime) -> None:
    """Resolve the open incidents of a rule, and delete its states so that it starts anew."""
    states = select(AlertState).where(AlertState.rule_id == rule.id)
    # Locked in one order, like everywhere: a run that ends now waits and then finds no state.
    for state in session.scalars(states.order_by(AlertState.agent_id).with_for_update()):
        if state.incident_id is not None:
            incident = incident_queries.get_incident(session, state.incident_id, for_update=True)
            closing = incidents.Closing(IncidentResolution.RULE_CHANGED, reason)
            incidents.close(session, incident, state, rule, closing, now)
    delete_all(session, AlertState, AlertState.rule_id == rule.id)


def _not_acknowledgeable_detail(event: AlertEvent) -> str:
    remedy = (
        f"acknowledge {event.incident_id}, the first alert of the incident"
        if event.incident_id
        else "GET /api/v1/alerts?state=FIRING lists the firing alerts"
    )
    return f"this alert is {event.state}, and only a FIRING alert can be acknowledged; {remedy}"


def _lock_states(
    session: Session, rule_ids: Sequence[str], agent_id: str, now: datetime
) -> dict[str, AlertState]:
    """The states of sorted rules for an agent, by rule, locked; created for rules without one.

    The row is inserted before it is locked: a first run has none, and two runs that end at the same
    time must not both start from an empty state.
    """
    initial = {"agent_id": agent_id, "ok": AlertStatus.OK, "now": now}
    states: dict[str, AlertState] = {}
    for batch in batched(rule_ids):
        session.execute(_CREATE_STATES, {"rule_ids": list(batch), **initial})
        states |= queries.lock_states(session, batch, agent_id)
    return states


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
