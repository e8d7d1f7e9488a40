"""Reads of alerts."""

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from pydantic import Field
from sqlalchemy import ColumnElement, Row, select, text
from sqlalchemy.orm import Session

from mosaico.alerts.models import OPEN, AlertEvent, Incident
from mosaico.alerts.rules import AlertEventState
from mosaico.benchmarks.queries import OwnerFilter
from mosaico.core.errors import NotFound
from mosaico.core.keyset import PageQuery, PageRows, read_entities, sort_rows
from mosaico.core.list_filters import Period, ValueFilter, match_any, match_text, one_value
from mosaico.core.schemas import FilterValues, PeriodFilter, ShortText
from mosaico.notifications.types import MessageSeverity

# Of the open alerts of a run.
MAX_OPEN: Final = 20
# Alerts that wait for one message.
MAX_GATHERED: Final = 1_000
_OPEN_EVENTS: Final = text(
    f"""
    SELECT event.* FROM unnest(CAST(:run_ids AS text[])) AS run (id) CROSS JOIN LATERAL (
        SELECT id, run_id, notification_id FROM alert_events
        WHERE (run_id, id) > (run.id, '') AND {OPEN} ORDER BY run_id, id LIMIT :limit
    ) AS event WHERE event.run_id = run.id ORDER BY event.id
    """  # noqa: S608 - a constant
)

SORT_KEYS: Final = {
    "created": (AlertEvent.created_at, AlertEvent.id),
    "benchmark": (AlertEvent.benchmark_id, AlertEvent.created_at, AlertEvent.id),
    "agent": (AlertEvent.agent_id, AlertEvent.created_at, AlertEvent.id),
    "name": (AlertEvent.name, AlertEvent.created_at, AlertEvent.id),
    "state": (AlertEvent.state, AlertEvent.created_at, AlertEvent.id),
}


AlertOrder: TypeAlias = Literal[
    "created", "benchmark", "agent", "name", "state",
    "-created", "-benchmark", "-agent", "-name", "-state",
]  # fmt: skip
"""A name of `SORT_KEYS`; with "-" for the descending order."""


DEFAULT_SORT: Final = "-created"


class AlertNotFound(NotFound):
    """No alert has this ID; GET /api/v1/alerts lists all alerts."""


class SeriesFilter(OwnerFilter, PeriodFilter):
    """Filter of alerts or incidents; `since` and `until` limit the time of the alert, or at which the
    incident was opened.
    """

    rule_ids: FilterValues = Field(default=[], validation_alias="alertConfigId")
    severities: list[MessageSeverity] = Field(
        default=[], validation_alias="severity", description="Filter by severity."
    )
    text: ShortText | None = Field(
        default=None, description="Filter by a part of the ID, the name or the explanation."
    )

    @property
    def period(self) -> Period:
        """The period of `since` and `until`."""
        return Period(self.since, self.until)

    def values(self, table: type[AlertEvent] | type[Incident]) -> list[ValueFilter]:
        """The filters of columns that have an index each."""
        return [
            (table.rule_id, self.rule_ids),
            (table.agent_id, self.agent_ids),
            (table.benchmark_id, self.benchmark_ids),
        ]

    def conditions(self, table: type[AlertEvent] | type[Incident]) -> list[ColumnElement[bool]]:
        """The conditions that no index serves."""
        return [
            *match_any((table.severity, self.severities)),
            *match_text(self.text, table.id, table.name, table.explanation),
        ]


class AlertFilter(SeriesFilter):
    """Filter of alerts."""

    run_ids: FilterValues = Field(default=[], validation_alias="runId")
    silence_ids: FilterValues = Field(
        default=[],
        validation_alias="silenceId",
        description="Filter by the silence that held back the alert.",
    )
    states: list[AlertEventState] = Field(
        default=[], validation_alias="state", description="Filter by state."
    )
    is_acknowledged: bool | None = Field(
        default=None,
        validation_alias="acknowledged",
        description="Filter by acknowledgement: true lists acknowledged alerts only.",
    )


def get_event(session: Session, event_id: str, *, for_update: bool = False) -> AlertEvent:
    return AlertNotFound.unless(
        session.get(AlertEvent, event_id, with_for_update=for_update or None)
    )


def list_events(
    session: Session,
    query: PageQuery,
    alert_filter: AlertFilter,
    sort: AlertOrder = DEFAULT_SORT,
    *,
    incident_id: str | None = None,
) -> PageRows[AlertEvent]:
    """Return one page of alerts."""
    conditions = alert_filter.conditions(AlertEvent)
    if alert_filter.is_acknowledged is not None:
        is_open = AlertEvent.verdict.is_(None)
        conditions.append(~is_open if alert_filter.is_acknowledged else is_open)
    rows = sort_rows(
        select(AlertEvent),
        SORT_KEYS,
        sort,
        [
            (AlertEvent.run_id, alert_filter.run_ids),
            (AlertEvent.incident_id, one_value(incident_id)),
            *alert_filter.values(AlertEvent),
            (AlertEvent.silence_id, alert_filter.silence_ids),
            (AlertEvent.state, alert_filter.states),
        ],
        period=alert_filter.period,
        conditions=conditions,
    )
    return read_entities(session, rows, query)


def list_open_events(session: Session, run_ids: Sequence[str]) -> Sequence[Row[Any]]:
    """The ID, run and message of firing, unacknowledged alerts of some runs, `MAX_OPEN` of each, oldest first."""
    return session.execute(_OPEN_EVENTS, {"run_ids": list(run_ids), "limit": MAX_OPEN}).all()


def find_gathering_agent(session: Session, after: str) -> str | None:
    """The first agent, by ID and after another one, whose alerts wait for its other runs; None after the last."""
    statement = select(AlertEvent.agent_id).where(
        AlertEvent.publish_by.is_not(None), AlertEvent.agent_id > after
    )
    return session.scalar(statement.order_by(AlertEvent.agent_id).limit(1))


def lock_gathered_events(session: Session, agent_id: str) -> list[AlertEvent]:
    """The `MAX_GATHERED` oldest alerts that wait for other runs of their agent, without those that another
    process publishes at present; locked until the transaction ends.
    """
    statement = select(AlertEvent).where(
        AlertEvent.publish_by.is_not(None), AlertEvent.agent_id == agent_id
    )
    oldest = statement.order_by(AlertEvent.id).limit(MAX_GATHERED)
    return list(session.scalars(oldest.with_for_update(skip_locked=True)))


def list_silenced_events(session: Session, event_ids: Sequence[str]) -> list[AlertEvent]:
    """The given alerts that a silence suppressed, oldest first."""
    if not event_ids:
        return []
    statement = select(AlertEvent).where(
        AlertEvent.id.in_(event_ids), AlertEvent.silence_id.is_not(None)
    )
    return list(session.scalars(statement.order_by(AlertEvent.id)))
