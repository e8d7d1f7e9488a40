"""Incidents are assigned to a person, who looks after them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from mosaico.access.models import Person
from mosaico.alerts.incident_queries import get_incident
from mosaico.alerts.models import Incident
from mosaico.core.errors import Invalid

# Suggestions of a form; others are typed by their address.
MAX_SUGGESTED: Final = 200


class CannotBeAssigned(Invalid):
    """The person cannot look after the incident: never logged in, blocked, or limited to other benchmarks."""


def assign(session: Session, incident_id: str, who: str, by: str, now: datetime) -> Incident:
    """Assign an incident to a person, by ID or address. Raises: `IncidentNotFound`, `CannotBeAssigned`."""
    incident = get_incident(session, incident_id, for_update=True)
    person = _find_person(session, who)
    if person.blocked_at is not None:
        raise CannotBeAssigned(
            f"an administrator has blocked {person.name}; choose somebody who can log in"
        )
    if person.only is not None and incident.benchmark_id not in person.only:
        raise CannotBeAssigned(
            f"{person.name} may not see the benchmark {incident.benchmark_id}; choose somebody who sees it, or let an"
            " administrator add it to the limit of the person"
        )
    incident.assignee_id, incident.assigned_by, incident.assigned_at = person.id, by, now
    session.flush()
    return incident


def unassign(session: Session, incident_id: str, by: str, now: datetime) -> Incident:
    """Assign an incident to nobody; who did so and when stays. Raises: `IncidentNotFound`."""
    incident = get_incident(session, incident_id, for_update=True)
    if incident.assignee_id is not None:
        incident.assignee_id, incident.assigned_by, incident.assigned_at = None, by, now
        session.flush()
    return incident


def list_assignable(session: Session, benchmark_id: str) -> Sequence[tuple[str, str]]:
    """The address, or the ID without one, and the name of people who see a benchmark, by name."""
    seen = or_(Person.only.is_(None), Person.only.contains([benchmark_id]))
    people = select(Person).where(Person.blocked_at.is_(None), seen)
    rows = session.scalars(people.order_by(Person.name, Person.id).limit(MAX_SUGGESTED))
    return [(person.email or person.id, person.name) for person in rows]


def _find_person(session: Session, who: str) -> Person:
    """The person with an ID or an address; of several with one address, who logged in last."""
    is_meant: ColumnElement[bool] = or_(Person.id == who, func.lower(Person.email) == who.lower())
    people = select(Person).where(is_meant).order_by(Person.last_login_at.desc()).limit(1)
    person = session.scalar(people)
    if person is None:
        raise CannotBeAssigned(
            f"nobody with the ID or the address {who} has logged in; an incident is assigned to a person who has"
        )
    return person
