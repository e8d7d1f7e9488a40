"""Reads of incidents."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Final, Literal, TypeAlias

from pydantic import Field
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from mosaico.access.models import Person
from mosaico.alerts.event_queries import SeriesFilter
from mosaico.alerts.models import UNRESOLVED, Incident
from mosaico.alerts.rules import IncidentState
from mosaico.core.errors import NotFound
from mosaico.core.keyset import PageQuery, PageRows, read_entities, sort_rows
from mosaico.core.list_filters import match_any
from mosaico.core.row_counts import count_rows
from mosaico.core.schemas import FilterValues

MAX_NEWEST: Final = 500
# Of those that a run is a part of: a rule has one at a time.
MAX_OF_RUN: Final = 10

SORT_KEYS: Final = {
    "opened": (Incident.opened_at, Incident.id),
    "benchmark": (Incident.benchmark_id, Incident.opened_at, Incident.id),
    "agent": (Incident.agent_id, Incident.opened_at, Incident.id),
    "name": (Incident.name, Incident.opened_at, Incident.id),
    "state": (Incident.state, Incident.opened_at, Incident.id),
}
IncidentOrder: TypeAlias = Literal[
    "opened", "benchmark", "agent", "name", "state",
    "-opened", "-benchmark", "-agent", "-name", "-state",
]  # fmt: skip
"""A name of `SORT_KEYS`; with "-" for the descending order."""
DEFAULT_SORT: Final = "-opened"


class IncidentNotFound(NotFound):
    """No incident has this ID; GET /api/v1/incidents lists all incidents."""


class IncidentFilter(SeriesFilter):
    """Filter of incidents."""

    kpi_ids: FilterValues = Field(
        default=[], validation_alias="kpi", description="Filter by the ID of the KPI."
    )
    states: list[IncidentState] = Field(
        default=[], validation_alias="state", description="Filter by state."
    )


def list_incidents_of_kpi(
    session: Session,
    benchmark_id: str,
    agent_id: str,
    kpi_id: str,
    period: tuple[datetime, datetime | None],
    limit: int,
) -> list[Incident]:
    """The incidents of a KPI of an agent that overlap a period, newest first, without false alarms: of the
    `MAX_NEWEST` last ones that started before its end.
    """
    since, until = period
    series = (Incident.benchmark_id == benchmark_id, Incident.agent_id == agent_id)
    newest = select(Incident.id).where(*series, Incident.kpi == kpi_id)
    if until is not None:
        newest = newest.where(Incident.started_at < until)
    # A rule has one incident of an agent at a time, so that few began long before the period and overlap it.
    newest = newest.order_by(Incident.started_at.desc()).limit(MAX_NEWEST)
    statement = select(Incident).where(
        Incident.id.in_(newest),
        Incident.verdict.is_distinct_from("noise"),
        Incident.resolved_at.is_(None) | (Incident.resolved_at >= since),
    )
    return list(session.scalars(statement.order_by(Incident.started_at.desc()).limit(limit)))


def count_incidents_of_kpi(session: Session, benchmark_id: str, agent_id: str, kpi_id: str) -> str:
    """How many incidents a KPI of an agent ever had, as a text."""
    series = (Incident.benchmark_id == benchmark_id, Incident.agent_id == agent_id)
    return count_rows(session, select(Incident.id).where(*series, Incident.kpi == kpi_id))


def get_incident(session: Session, incident_id: str, *, for_update: bool = False) -> Incident:
    return IncidentNotFound.unless(
        session.get(
            Incident, incident_id, with_for_update=for_update or None, populate_existing=True
        )
    )


def list_incidents(
    session: Session,
    query: PageQuery,
    incident_filter: IncidentFilter,
    sort: IncidentOrder = DEFAULT_SORT,
) -> PageRows[Incident]:
    """Return one page of incidents."""
    rows = sort_rows(
        select(Incident),
        SORT_KEYS,
        sort,
        [*incident_filter.values(Incident), (Incident.state, incident_filter.states)],
        period=incident_filter.period,
        conditions=[
            *incident_filter.conditions(Incident),
            *match_any((Incident.kpi, incident_filter.kpi_ids)),
        ],
    )
    return read_entities(session, rows, query)


def list_incidents_of_run(
    session: Session, benchmark_id: str, agent_id: str, run_seq: int
) -> Sequence[Incident]:
    """The incidents that a run is a part of, those that began first; false alarms, too, which say so."""
    statement = select(Incident).where(
        Incident.benchmark_id == benchmark_id,
        Incident.agent_id == agent_id,
        Incident.started_seq <= run_seq,
        Incident.end_seq.is_(None) | (Incident.end_seq > run_seq),
    )
    newest = statement.order_by(Incident.opened_at.desc(), Incident.id).limit(MAX_OF_RUN)
    return session.scalars(newest).all()[::-1]


def list_assignees(session: Session, incident_ids: AbstractSet[str | None]) -> dict[str, str]:
    """The names of the people to whom incidents are assigned, by incident."""
    if not incident_ids - {None}:
        return {}
    assigned = select(Incident.id, Person.name).join(Person, Person.id == Incident.assignee_id)
    rows = session.execute(assigned.where(Incident.id.in_(incident_ids)))
    return {row.id: row.name for row in rows}


def list_open_incidents_of_run(
    session: Session, benchmark_id: str, agent_id: str, run_seq: int
) -> list[Incident]:
    """The open incidents that a run belongs to, by ID."""
    statement = select(Incident).where(
        Incident.benchmark_id == benchmark_id,
        Incident.agent_id == agent_id,
        text(UNRESOLVED),
        Incident.started_seq <= run_seq,
    )
    return list(session.scalars(statement.order_by(Incident.id)))
