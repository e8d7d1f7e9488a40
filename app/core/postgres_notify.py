"""Postgres NOTIFY: wakes the event streams of a key; `app.core.web.sse` listens."""

from sqlalchemy import ColumnElement, func, text
from sqlalchemy.orm import Session

CHANNEL = "mosaico_events"


def notify_streams(session: Session, key: str) -> None:
    """Wake the event streams of a key when this transaction commits."""
    session.execute(text("SELECT pg_notify(:channel, :key)"), {"channel": CHANNEL, "key": key})


def waking_streams(key: str) -> ColumnElement[None]:
    """`notify_streams` as a column of RETURNING, which saves a statement."""
    return func.pg_notify(CHANNEL, key)
