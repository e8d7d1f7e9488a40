"""Postgres NOTIFY: wakes the event streams of a key; `mosaico.core.web.sse` listens."""

from sqlalchemy import text
from sqlalchemy.orm import Session

CHANNEL = "mosaico_events"


def notify_streams(session: Session, key: str) -> None:
    """Wake the event streams of a key when this transaction commits."""
    session.execute(text("SELECT pg_notify(:channel, :key)"), {"channel": CHANNEL, "key": key})
