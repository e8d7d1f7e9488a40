"""Reads of incidents, and of the runs that they keep out of a history."""

from datetime import datetime
from typing import Final, Literal, NamedTuple, TypeAlias

from pydantic import Field
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from mosaico.alerts.event_queries import SeriesFilter
from mosaico.alerts.models import (
    EXCLUDES_RUNS,
    UNRESOLVED,
    WATCHED_VALUE,
    AlertRule,
    AlertState,
    Incident,
)
from mosaico.alerts.rules import (
    AlertStatus,
    Condition,
    IncidentResolution,
    IncidentState,
    RunSpan,
    merge_spans,
)
from mosaico.core.errors import NotFound
from mosaico.core.keyset import PageQuery, PageRows, read_entities, sort_rows
from mosaico.core.list_filters import match_any
from mosaico.core.row_counts import count_rows
from mosaico.core.schemas import FilterValues

HISTORY_CONDITIONS = [condition for condition in Condition if condition.excludes_incidents]
# Far more than the runs that are compared, of which at least one is between two incidents of a rule.
MAX_SPANS: Final = 200
MAX_NEWEST: Final = 500

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


class ValueSeries(NamedTuple):
    """The watched value of one agent: a KPI by its ID, or a statistic of a metric."""

    benchmark_id: str
    agent_id: str
    kpi: str | None
    metric: str | None


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


def excluded_runs(session: Session, series: ValueSeries) -> list[RunSpan]:
    """The runs that are not part of the history of a value: those of its incidents, of breaches that have not
    fired yet, and those before the last accepted level.

    Incidents of every rule about the value count, but those that were noise. Fixed thresholds do not
    count: they say nothing about what is normal.
    """
    spans = _incident_spans(session, series)
    is_pending = AlertState.state == AlertStatus.PENDING
    pending = (
        select(AlertState.breach_seq)
        .join(AlertRule, AlertRule.id == AlertState.rule_id)
        .where(
            AlertState.agent_id == series.agent_id,
            AlertRule.benchmark_id == series.benchmark_id,
            AlertRule.kpi == series.kpi,
            AlertRule.metric == series.metric,
            AlertRule.condition.in_(HISTORY_CONDITIONS),
            is_pending,
            AlertState.breach_seq.is_not(None),
        )
    )
    spans += [RunSpan(first, None) for first in session.scalars(pending) if first is not None]
    return merge_spans(spans)


def _incident_spans(session: Session, series: ValueSeries) -> list[RunSpan]:
    """The spans of the last `MAX_SPANS` incidents; with more of them, the history begins after all others."""
    statement = (
        select(Incident.started_seq, Incident.end_seq, Incident.resolution)
        .where(
            Incident.benchmark_id == series.benchmark_id,
            Incident.agent_id == series.agent_id,
            text(f"{WATCHED_VALUE} = :watched"),
            Incident.kpi == series.kpi,
            Incident.metric == series.metric,
            text(EXCLUDES_RUNS),
        )
        # Open ones first. Those that are left out have all ended before these.
        .order_by(Incident.end_seq.desc())
        .limit(MAX_SPANS)
    )
    rows = session.execute(statement, {"watched": series.kpi or series.metric}).all()
    spans = [
        # An accepted level is the new normal: what was before it is not.
        RunSpan(0, row.started_seq)
        if row.resolution == IncidentResolution.ACCEPTED
        else RunSpan(row.started_seq, row.end_seq)
        for row in rows
    ]
    if len(rows) == MAX_SPANS:
        spans.append(RunSpan(0, rows[-1].end_seq))
    return spans


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
