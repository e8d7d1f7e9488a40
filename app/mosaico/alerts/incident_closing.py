"""Closing of incidents without evidence of recovery: what is stored, and what their recipients are told."""

from datetime import datetime
from typing import Final, NamedTuple

from sqlalchemy.orm import Session

from mosaico.access.queries import list_caller_names
from mosaico.alerts.details import AlertDetails
from mosaico.alerts.evaluation.rule_memory import accept as accept_memory
from mosaico.alerts.evaluation.rule_memory import end_as_noise
from mosaico.alerts.evaluation.state_memory import memory_of, store_memory
from mosaico.alerts.models import AlertEvent, AlertRule, AlertState, Incident
from mosaico.alerts.publishing import store_and_publish
from mosaico.alerts.rules import AlertEventState, IncidentResolution, IncidentState
from mosaico.core.ids import new_id
from mosaico.notifications.inbox import set_read_at

# What a person decides, and its effect.
_DECISIONS: Final = {
    IncidentResolution.NOISE: ("false alarm", "the runs count as ordinary runs"),
    IncidentResolution.ACCEPTED: ("new level accepted", "later runs are compared with it"),
}
BY_PEOPLE: Final = tuple(_DECISIONS)


class LockedIncident(NamedTuple):
    """An incident with its state and its rule, if they exist, locked until the transaction ends."""

    incident: Incident
    row: AlertState | None
    rule: AlertRule | None


class Closing(NamedTuple):
    """The closing of an incident without evidence of recovery; `by` is the ID of an API key."""

    resolution: IncidentResolution
    explanation: str
    by: str | None = None
    note: str | None = None


def close_by_person(
    session: Session,
    locked: LockedIncident,
    resolution: IncidentResolution,
    by: str | None,
    note: str | None,
    now: datetime,
) -> None:
    """Close an open incident as a false alarm, or because its level is accepted."""
    decision, effect = _DECISIONS[resolution]
    text = f"{tell_decision(session, by, decision, note)}; {effect}."
    close(session, locked, Closing(resolution, text, by, note), now)


def dismiss(
    session: Session, locked: LockedIncident, by: str | None, note: str | None, now: datetime
) -> None:
    """Tell the recipients of an open incident that it was a false alarm: a fixed threshold stays exceeded."""
    incident, row, rule = locked
    text = (
        f"{tell_decision(session, by, 'false alarm', note)}; the incident ends when the value is within the threshold"
        " again."
    )
    event = _event_of(session, incident, AlertEventState.DISMISSED, text, now)
    event.dedup_key = f"dismissed/{incident.id}/{event.id}"
    event.run_id = row.run_id if row is not None else incident.opened_run_id
    _tell_decision(session, event, rule, now)


def tell_decision(session: Session, by: str | None, decision: str, note: str | None) -> str:
    """Who decided what, and why: "Ana: false alarm, new prompt was planned"."""
    name = list_caller_names(session, {by}).get(by or "", "Somebody")
    reason = " ".join((note or "").split()).rstrip(".")
    return f"{name}: {decision}{', ' if reason else ''}{reason}"


def close(session: Session, locked: LockedIncident, closing: Closing, now: datetime) -> None:
    """Close an open incident without evidence of recovery, and notify its recipients."""
    incident, row, rule = locked
    incident.resolved_by, incident.note = closing.by, closing.note
    last_seq = row.run_seq if row is not None else incident.run_seqs[-1]
    run_id = row.run_id if row is not None else incident.opened_run_id
    incident.explanation = closing.explanation
    end_incident(incident, closing.resolution, last_seq + 1, run_id, now)
    if row is not None:
        _reset(row, closing.resolution)
    event = _event_of(session, incident, AlertEventState.RESOLVED, closing.explanation, now)
    if closing.resolution in BY_PEOPLE:
        _tell_decision(session, event, rule, now)
    else:
        _publish(session, event, rule, now)


def _tell_decision(
    session: Session, event: AlertEvent, rule: AlertRule | None, now: datetime
) -> None:
    _publish(session, event, rule, now)
    if event.notification_id is not None:
        # The inbox keeps the message, and asks nobody to look at what a person has just decided.
        set_read_at(session, event.notification_id, now)


def _publish(session: Session, event: AlertEvent, rule: AlertRule | None, now: datetime) -> None:
    rules = {rule.id: rule} if rule is not None else {}
    store_and_publish(session, [event], rules, now, after_run=event.run_id)


def end_incident(
    incident: Incident,
    resolution: IncidentResolution,
    end_seq: int,
    run_id: str,
    now: datetime,
) -> None:
    incident.state, incident.resolution = IncidentState.RESOLVED, resolution
    incident.end_seq, incident.resolved_run_id, incident.resolved_at = end_seq, run_id, now


def _reset(row: AlertState, resolution: IncidentResolution) -> None:
    """The state after an incident that a person has closed."""
    memory = memory_of(row)
    if resolution is IncidentResolution.ACCEPTED:
        memory = accept_memory(memory)
    elif resolution is IncidentResolution.NOISE:
        memory = end_as_noise(memory)
    store_memory(row, memory)
    row.incident_id = None


def _event_of(
    session: Session, incident: Incident, state: AlertEventState, explanation: str, now: datetime
) -> AlertEvent:
    """The alert that reports a decision about an incident, or its end, with its run."""
    first_event = session.get(AlertEvent, incident.id)
    return AlertEvent(
        id=new_id(),
        dedup_key=f"resolved/{incident.id}",
        state=state,
        rule_id=incident.rule_id,
        name=incident.name,
        severity=incident.severity,
        benchmark_id=incident.benchmark_id,
        agent_id=incident.agent_id,
        run_id=incident.resolved_run_id,
        run_seq=incident.run_seqs[-1],
        incident_id=incident.id,
        value=incident.value,
        baseline=incident.baseline,
        explanation=explanation,
        details=AlertDetails(
            value_name=incident.value_name,
            unit=incident.unit,
            is_share=first_event is not None and first_event.details.is_share,
            since=incident.started_at,
            since_run_id=incident.started_run_id,
        ),
        created_at=now,
    )
