from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, ForeignKeyConstraint, Index, Integer, text
from sqlalchemy.orm import Mapped, mapped_column

from app.core.db import Base
from app.core.encryption import ENCRYPTED


class WebhookSecret(Base):
    """What callers sign with: those of a benchmark, or, without one, of a Langfuse project.

    `secret` is encrypted; see `app.core.encryption`.
    """

    __tablename__ = "webhook_secrets"

    id: Mapped[str] = mapped_column(primary_key=True)
    benchmark_id: Mapped[str | None] = mapped_column(
        ForeignKey("benchmarks.id", ondelete="CASCADE"), index=True
    )
    name: Mapped[str | None]
    secret: Mapped[str] = mapped_column(info=ENCRYPTED)
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]


class TriggerEvent(Base):
    """Something that happened and may start runs, and what came of it.

    `once_key` stands for the thing that happened: while an event has it, the same thing is not
    recorded again. `fingerprint` is the digest of the body that it came with. An event that waits
    is looked at from `due_at` on.
    """

    __tablename__ = "trigger_events"
    __table_args__ = (
        Index("ix_trigger_events_received_at_id", "received_at", "id"),
        Index("ix_trigger_events_due_at", "due_at", postgresql_where=text("due_at IS NOT NULL")),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    type: Mapped[str]
    subject: Mapped[str | None]
    once_key: Mapped[str | None] = mapped_column(unique=True)
    fingerprint: Mapped[str | None]
    secret_id: Mapped[str | None]
    details: Mapped[dict[str, Any]]
    times: Mapped[int] = mapped_column(Integer, default=1)
    status: Mapped[str]
    reason: Mapped[str | None]
    benchmark_ids: Mapped[list[Any]]
    run_ids: Mapped[list[Any]]
    received_at: Mapped[datetime]
    due_at: Mapped[datetime | None]
    settled_at: Mapped[datetime | None]


class RunWatch(Base):
    """Looks for new runs of an agent for a benchmark.

    `subject` is the digest of where is looked; elsewhere a new baseline is taken.
    """

    __tablename__ = "run_watches"

    benchmark_id: Mapped[str] = mapped_column(
        ForeignKey("benchmarks.id", ondelete="CASCADE"), primary_key=True
    )
    agent_id: Mapped[str] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
    )
    subject: Mapped[str | None]
    polled_at: Mapped[datetime | None]


class SeenRun(Base):
    """A complete run that a watch has seen: it was judged, or it is older than the watch."""

    __tablename__ = "seen_runs"
    __table_args__ = (
        ForeignKeyConstraint(
            ["benchmark_id", "agent_id"],
            ["run_watches.benchmark_id", "run_watches.agent_id"],
            ondelete="CASCADE",
        ),
    )

    benchmark_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str] = mapped_column(primary_key=True)
    run_id: Mapped[str] = mapped_column(primary_key=True)
