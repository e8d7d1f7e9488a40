"""Several rules that see one collapse: each recipient is told once when it begins, and once when it is over.

Rules fire and recover at different runs. Incidents of one value belong together when each began, at its first bad run,
no later than the other one fired. An older incident that is still open is another one: it hides nothing.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.alerts.models import AlertEvent, AlertRule, Incident
from mosaico.alerts.rules import AlertEventState, IncidentState
from mosaico.notifications.types import MessageSeverity

_SEVERITIES: Final = list(MessageSeverity)


class _ToldIncident(NamedTuple):
    """An open incident that recipients know of, and the endpoints of its rule."""

    incident: Incident
    endpoints: frozenset[str]


def leave_out_told(session: Session, events: Sequence[AlertEvent]) -> None:
    """Take the endpoints out of events that tell them nothing new: an incident whose collapse another rule has told,
    with this severity or a higher one, and the end of one while the collapse goes on for another rule.
    """
    changes = [event for event in events if event.incident_id and event.endpoint_ids]
    changes = [
        event
        for event in changes
        if event.state in {AlertEventState.FIRING, AlertEventState.RESOLVED}
    ]
    if not changes:
        return
    own = {event.incident_id for event in changes}
    incidents = session.scalars(select(Incident).where(Incident.id.in_(own))).all()
    incident_of = {incident.id: incident for incident in incidents}
    told = _list_told(session, incidents, own)
    for event in changes:
        incident = incident_of.get(event.incident_id or "")
        if incident is not None:
            known = _known_to(event, incident, told)
            event.endpoint_ids = [id_ for id_ in event.endpoint_ids or () if id_ not in known]


def _known_to(
    event: AlertEvent, incident: Incident, told: Iterable[_ToldIncident]
) -> frozenset[str]:
    """The endpoints that know of the collapse from other rules."""
    is_end = event.state == AlertEventState.RESOLVED
    return frozenset().union(
        *(
            other.endpoints
            for other in told
            if _is_same_collapse(incident, other.incident)
            and (is_end or _rank(other.incident.severity) >= _rank(incident.severity))
        )
    )


def _rank(severity: str) -> int:
    return _SEVERITIES.index(MessageSeverity(severity))


def _is_same_collapse(first: Incident, second: Incident) -> bool:
    return (
        (first.benchmark_id, first.agent_id, first.kpi, first.metric)
        == (second.benchmark_id, second.agent_id, second.kpi, second.metric)
        and first.started_seq <= second.opened_seq
        and second.started_seq <= first.opened_seq
    )


def _list_told(
    session: Session, incidents: Sequence[Incident], own: set[str | None]
) -> list[_ToldIncident]:
    """The other open incidents of these agents whose beginning was published. The rule must still judge runs: of a
    disabled one, no end would be told.
    """
    statement = (
        select(Incident, AlertRule.endpoints)
        .join(AlertRule, AlertRule.id == Incident.rule_id)
        .join(AlertEvent, AlertEvent.id == Incident.id)
        .where(
            Incident.benchmark_id.in_({incident.benchmark_id for incident in incidents}),
            Incident.agent_id.in_({incident.agent_id for incident in incidents}),
            Incident.state == IncidentState.OPEN,
            Incident.id.not_in(own),
            AlertRule.enabled,
            AlertEvent.notification_id.is_not(None),
            AlertEvent.silence_id.is_(None),
        )
        .limit(1000)
    )
    return [
        _ToldIncident(incident, frozenset(endpoints))
        for incident, endpoints in session.execute(statement)
    ]
