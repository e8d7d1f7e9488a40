"""Postgres NOTIFY: wakes the event streams of a key; `mosaico.core.web.sse` listens."""

from typing import Any, Final

from sqlalchemy import ColumnElement, func, literal_column, text
from sqlalchemy.orm import Session

CHANNEL = "mosaico_events"
# `waking_streams` of the row that an INSERT returns.
WAKING_STREAMS_OF_ROW: Final[ColumnElement[Any]] = literal_column(f"pg_notify('{CHANNEL}', id)")


def notify_streams(session: Session, key: str) -> None:
    """Wake the event streams of a key when this transaction commits."""
    session.execute(text("SELECT pg_notify(:channel, :key)"), {"channel": CHANNEL, "key": key})


def waking_streams(key: str) -> ColumnElement[None]:
    """`notify_streams` as a column of RETURNING, which saves a statement."""
    return func.pg_notify(CHANNEL, key)
