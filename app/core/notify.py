"""Telling every open stream that something changed; who listens is `sse`."""

from sqlalchemy import text
from sqlalchemy.orm import Session

CHANNEL = "mosaico_events"


def notify_streams(session: Session, key: str, *, channel: str = CHANNEL) -> None:
    """Wake the streams of a key when this transaction commits; nothing happens if it does not."""
    session.execute(text("SELECT pg_notify(:channel, :key)"), {"channel": channel, "key": key})
