"""Tables of triggers: webhook secrets, trigger events and subscriptions to the runs of a source."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, ForeignKeyConstraint, Index, Integer, text
from sqlalchemy.orm import Mapped, mapped_column

from mosaico.core.db import Base, ModelJson
from mosaico.core.encryption import ENCRYPTED


class WebhookSecret(Base):
    """A secret that callers sign with: of one benchmark, or of Langfuse when there is no benchmark.

    `secret` is encrypted; see `mosaico.core.encryption`.
    """

    __tablename__ = "webhook_secrets"
    __table_args__ = (
        Index("ix_webhook_secrets_benchmark_id_created_at_id", "benchmark_id", "created_at", "id"),
        # The valid ones, read for each call: expired ones stay in the list.
        Index("ix_webhook_secrets_benchmark_id_expires_at", "benchmark_id", "expires_at"),
        Index(
            "ix_webhook_secrets_langfuse",
            "created_at",
            "id",
            postgresql_where=text("benchmark_id IS NULL"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    benchmark_id: Mapped[str | None] = mapped_column(
        ForeignKey("benchmarks.id", ondelete="CASCADE")
    )
    name: Mapped[str | None]
    secret: Mapped[str] = mapped_column(info=ENCRYPTED)
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]


class TriggerEvent(Base):
    """An event that may start runs, and its outcome.

    `dedup_key` identifies the occurrence: while an event holds the key, the same occurrence is not
    inserted again. `fingerprint` is the digest of the request body. An event with `due_at` waits
    until that time before its runs start.
    """

    __tablename__ = "trigger_events"
    __table_args__ = (
        Index("ix_trigger_events_received_at_id", "received_at", "id"),
        Index("ix_trigger_events_status_received_at_id", "status", "received_at", "id"),
        Index("ix_trigger_events_type_received_at_id", "type", "received_at", "id"),
        Index("ix_trigger_events_due_at", "due_at", postgresql_where=text("due_at IS NOT NULL")),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    type: Mapped[str]
    subject: Mapped[str | None]
    dedup_key: Mapped[str | None] = mapped_column(unique=True)
    fingerprint: Mapped[str | None]
    secret_id: Mapped[str | None]
    details: Mapped[dict[str, Any]]
    occurrences: Mapped[int] = mapped_column(Integer, default=1)
    status: Mapped[str]
    reason: Mapped[str | None]
    benchmark_ids: Mapped[list[Any]]
    run_ids: Mapped[list[Any]]
    received_at: Mapped[datetime]
    due_at: Mapped[datetime | None]
    settled_at: Mapped[datetime | None]


class AwaitedRun(Base):
    """A run of the source that an agent makes for an event, to be evaluated when it is complete.

    `known_runs` are the runs that existed before the agent was asked, each with the time of its last
    activity or null; `forwarded_at` is when it accepted the request; both are NULL until then.
    `polled_at` is when the runs were last listed. After `ends_at` it is not waited for any more.
    """

    __tablename__ = "awaited_runs"

    event_id: Mapped[str] = mapped_column(
        ForeignKey("trigger_events.id", ondelete="CASCADE"), primary_key=True
    )
    benchmark_id: Mapped[str] = mapped_column(
        ForeignKey("benchmarks.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    agent_id: Mapped[str] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    known_runs: Mapped[dict[str, datetime | None] | None] = mapped_column(
        ModelJson(dict[str, datetime | None])
    )
    forwarded_at: Mapped[datetime | None]
    polled_at: Mapped[datetime | None]
    ends_at: Mapped[datetime]


class SourceSubscription(Base):
    """A benchmark's subscription to the new runs of one agent in its trace source.

    `source_digest` identifies the polled place. When it changes, the runs found at the first poll
    of the new place are the new starting point and are not evaluated.
    """

    __tablename__ = "source_subscriptions"

    benchmark_id: Mapped[str] = mapped_column(
        ForeignKey("benchmarks.id", ondelete="CASCADE"), primary_key=True
    )
    agent_id: Mapped[str] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
    )
    source_digest: Mapped[str | None]
    polled_at: Mapped[datetime | None]


class ProcessedSourceRun(Base):
    """A complete run of the source that needs no evaluation any more.

    It was evaluated, or it existed before the subscription. Activity after `ended_at` can be a new run
    with the same ID.
    """

    __tablename__ = "processed_source_runs"
    __table_args__ = (
        ForeignKeyConstraint(
            ["benchmark_id", "agent_id"],
            ["source_subscriptions.benchmark_id", "source_subscriptions.agent_id"],
            ondelete="CASCADE",
        ),
    )

    benchmark_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str] = mapped_column(primary_key=True)
    source_run_id: Mapped[str] = mapped_column(primary_key=True)
    ended_at: Mapped[datetime | None]
