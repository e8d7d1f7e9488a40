"""Reads of silences."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from pydantic import Field
from sqlalchemy import ColumnElement, func, or_, select, text
from sqlalchemy.orm import Session

from mosaico.alerts.models import AlertSilence
from mosaico.core.errors import NotFound
from mosaico.core.keyset import PageQuery, PageRows, select_page
from mosaico.core.schemas import ListFilter

MAX_SILENCED: Final = 1_000
_SILENCED_EVENTS: Final = text(
    """
    SELECT silence.id, (
        SELECT count(*) FROM (SELECT FROM alert_events WHERE silence_id = silence.id LIMIT :limit) AS event
    ) AS events FROM unnest(CAST(:silence_ids AS text[])) AS silence (id)
    """
)


class SilenceNotFound(NotFound):
    """No silence has this ID; GET /api/v1/silences lists all silences."""


class SilenceFilter(ListFilter):
    """Filter of silences."""

    active: bool | None = Field(
        default=None, description="Filter by whether the silence is in effect now."
    )
    ended: bool | None = Field(
        default=None,
        description="Filter by the end: true lists the silences that have ended, false the others.",
    )


def get_silence(session: Session, silence_id: str, *, for_update: bool = False) -> AlertSilence:
    return SilenceNotFound.unless(session.get(AlertSilence, silence_id, with_for_update=for_update))


def list_silences(
    session: Session, query: PageQuery, silence_filter: SilenceFilter, now: datetime
) -> PageRows[AlertSilence]:
    """Silences, newest first."""
    conditions = list[ColumnElement[bool]]()
    if silence_filter.active:
        conditions += _is_active(now)
    if silence_filter.active is False:
        conditions.append(or_(AlertSilence.starts_at > now, AlertSilence.ends_at <= now))
    if silence_filter.ended is not None:
        has_ended = AlertSilence.ends_at <= now
        conditions.append(has_ended if silence_filter.ended else AlertSilence.ends_at > now)
    keys = [AlertSilence.created_at, AlertSilence.id]
    return select_page(session, select(AlertSilence), keys=keys, query=query, conditions=conditions)


def list_active_silences(session: Session, now: datetime) -> list[AlertSilence]:
    """The silences that hold back alerts now; `silences.MAX_SILENCES` limits their number."""
    statement = select(AlertSilence).where(*_is_active(now))
    return list(session.scalars(statement.order_by(AlertSilence.id)))


def count_lasting_silences(session: Session, now: datetime) -> int:
    """The number of silences that have not ended."""
    lasting = select(func.count()).where(AlertSilence.ends_at > now)
    return session.scalar(lasting) or 0


def count_silenced_events(session: Session, silence_ids: Sequence[str]) -> dict[str, int]:
    """The number of alerts that each silence held back, `MAX_SILENCED` at most."""
    parameters = {"silence_ids": list(silence_ids), "limit": MAX_SILENCED}
    return {row.id: row.events for row in session.execute(_SILENCED_EVENTS, parameters)}


def _is_active(now: datetime) -> list[ColumnElement[bool]]:
    return [AlertSilence.starts_at <= now, AlertSilence.ends_at > now]
