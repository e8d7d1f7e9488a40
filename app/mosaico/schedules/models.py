"""Tables of schedules and their fires."""

from datetime import datetime

from sqlalchemy import ForeignKey, Identity, Index, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from mosaico.core.db import Base, ModelJson
from mosaico.schedules.rules import MISSED_REASONS, SHOWN_REASONS, FirePlan


class ScheduleConfig(Base):
    """A schedule: runs a benchmark at the instants of a cron expression.

    `next_run_at` is null while the schedule is disabled. Every instant rewrites the row and all
    its index entries, so the table has only the indexes that a tick or a list needs.
    """

    __tablename__ = "schedule_configs"
    __table_args__ = (
        Index(
            "ix_schedule_configs_next_run_at",
            "next_run_at",
            postgresql_where=text("next_run_at IS NOT NULL"),
        ),
        # The zones of enabled schedules, and the times in each.
        Index(
            "ix_schedule_configs_timezone_cron_expression",
            "timezone",
            "cron_expression",
            postgresql_where=text("next_run_at IS NOT NULL"),
        ),
        Index("ix_schedule_configs_created_at_id", "created_at", "id"),
        Index("ix_schedule_configs_name_id", text("lower(name)"), "id"),
        Index("ix_schedule_configs_benchmark_id_created_at_id", "benchmark_id", "created_at", "id"),
        Index("ix_schedule_configs_agent_id_created_at_id", "agent_id", "created_at", "id"),
        Index(
            "ix_schedule_configs_disabled",
            "created_at",
            "id",
            postgresql_where=text("enabled IS false"),
        ),
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


# Without parameters, so that the planner finds the indexes of these conditions.
MISSED = f"reason IN ({', '.join(repr(str(reason)) for reason in MISSED_REASONS)})"
SHOWN_MISS = f"reason IN ({', '.join(repr(str(reason)) for reason in SHOWN_REASONS)})"
UNSETTLED = "settled_at IS NULL AND run_id IS NOT NULL"
UNREPORTED_MISS = f"reported_at IS NULL AND (status = 'FAILED' OR {MISSED})"


class ScheduleFire(Base):
    """One due instant of a schedule; the unique row guarantees that it fires once. `range_end` is
    set if the row covers all instants from `due_at` up to it. `plan` holds the schedule's target at
    the time of the claim: later edits affect later instants only. `settled_at` is when the end of
    the run was counted, `reported_at` when the alert on an instant without a run was published.
    `schedule_id` is not a foreign key: the check would cost time for each row, and every writer
    holds the lock of the schedule anyway. The job `schedules.drop_fires` deletes the rows of a
    deleted schedule.
    """

    __tablename__ = "schedule_fires"
    __table_args__ = (
        UniqueConstraint("schedule_id", "due_at"),
        # The daily summary counts by these columns without reading the wide rows.
        Index(
            "ix_schedule_fires_status_due_at",
            "status",
            "due_at",
            postgresql_include=["schedule_id", "reason"],
        ),
        Index(
            "ix_schedule_fires_missed", "due_at", "schedule_id", postgresql_where=text(SHOWN_MISS)
        ),
        Index("ix_schedule_fires_run_id", "run_id", postgresql_where=text("run_id IS NOT NULL")),
        # Of the fires of a schedule few have a run whose end is not counted yet.
        Index("ix_schedule_fires_unsettled", "schedule_id", postgresql_where=text(UNSETTLED)),
        # Read each minute: few fires are misses that no alert has reported.
        Index("ix_schedule_fires_unreported", "fired_at", postgresql_where=text(UNREPORTED_MISS)),
    )

    seq: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    schedule_id: Mapped[str]
    due_at: Mapped[datetime]
    range_end: Mapped[datetime | None]
    fired_at: Mapped[datetime]
    triggered_by: Mapped[str]
    status: Mapped[str]
    reason: Mapped[str | None]
    detail: Mapped[str | None]
    plan: Mapped[FirePlan | None] = mapped_column(ModelJson(FirePlan))
    run_id: Mapped[str | None] = mapped_column(ForeignKey("benchmark_runs.id", ondelete="SET NULL"))
    settled_at: Mapped[datetime | None]
    reported_at: Mapped[datetime | None]
