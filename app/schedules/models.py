from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Identity, Index, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from app.core.db import Base


class ScheduleConfig(Base):
    """A benchmark that is run by the clock. `next_run_at` is null while it is disabled.

    Each instant writes a row anew, and each index with it: there are only those that a tick or a
    list needs.
    """

    __tablename__ = "schedule_configs"
    __table_args__ = (
        Index(
            "ix_schedule_configs_next_run_at",
            "next_run_at",
            postgresql_where=text("next_run_at IS NOT NULL"),
        ),
        Index("ix_schedule_configs_created_at_id", "created_at", "id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    description: Mapped[str | None]
    benchmark_id: Mapped[str] = mapped_column(ForeignKey("benchmarks.id", ondelete="RESTRICT"))
    agent_id: Mapped[str] = mapped_column(ForeignKey("agents.id", ondelete="RESTRICT"))
    cron_expression: Mapped[str]
    timezone: Mapped[str]
    dst_policy: Mapped[str]
    enabled: Mapped[bool]
    run_name_pattern: Mapped[str | None]
    misfire_policy: Mapped[str]
    catchup_window_seconds: Mapped[int]
    concurrency_policy: Mapped[str]
    auto_disable_on_failure: Mapped[bool]
    max_consecutive_failures: Mapped[int]
    consecutive_failures: Mapped[int] = mapped_column(default=0)
    last_run_at: Mapped[datetime | None]
    next_run_at: Mapped[datetime | None]
    disabled_at: Mapped[datetime | None]
    disabled_reason: Mapped[str | None]
    revision: Mapped[int] = mapped_column(default=1)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())


class ScheduleFire(Base):
    """What became of one due instant: the unique row that makes it fire once.

    `until` is set where one row stands for all instants from `due_at` on. `plan` is what the
    schedule asked for when the instant was claimed: later edits change later instants only.
    `schedule_id` is no foreign key: it would be checked for each row, though whoever writes one
    holds the lock of its schedule. `delete_schedule` deletes these rows.
    """

    __tablename__ = "schedule_fires"
    __table_args__ = (
        UniqueConstraint("schedule_id", "due_at"),
        Index("ix_schedule_fires_due_at", "due_at"),
        Index("ix_schedule_fires_run_id", "run_id", postgresql_where=text("run_id IS NOT NULL")),
    )

    seq: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    schedule_id: Mapped[str]
    due_at: Mapped[datetime]
    until: Mapped[datetime | None]
    fired_at: Mapped[datetime]
    triggered_by: Mapped[str]
    status: Mapped[str]
    reason: Mapped[str | None]
    detail: Mapped[str | None]
    plan: Mapped[dict[str, Any] | None]
    run_id: Mapped[str | None] = mapped_column(ForeignKey("benchmark_runs.id", ondelete="SET NULL"))
    settled_at: Mapped[datetime | None]
