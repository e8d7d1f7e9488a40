from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, Integer, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from app.core.db import Base


class AlertConfig(Base):
    """A rule about a KPI (by id) or a statistic of a metric, of one agent or of each one.

    `endpoints` are the ids of those that it tells, in the order of its recipients.
    """

    __tablename__ = "alert_configs"
    __table_args__ = (
        Index("ix_alert_configs_created_at_id", "created_at", "id"),
        Index("ix_alert_configs_benchmark_id_id", "benchmark_id", "id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    benchmark_id: Mapped[str] = mapped_column(ForeignKey("benchmarks.id", ondelete="CASCADE"))
    agent_id: Mapped[str | None] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), index=True
    )
    metric: Mapped[str | None]
    kpi: Mapped[str | None]
    condition: Mapped[str]
    threshold: Mapped[float | None]
    severity: Mapped[str]
    channels: Mapped[list[Any]]
    endpoints: Mapped[list[Any]]
    enabled: Mapped[bool]
    cooldown_minutes: Mapped[int] = mapped_column(Integer)
    for_runs: Mapped[int] = mapped_column(Integer)
    keep_firing_for_runs: Mapped[int] = mapped_column(Integer)
    no_data: Mapped[str]
    baseline_runs: Mapped[int] = mapped_column(Integer)
    minimum_effect: Mapped[float | None]
    revision: Mapped[int] = mapped_column(default=1)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())


class AlertStanding(Base):
    """Where a rule stands for an agent after the run `run_seq`; earlier runs change it no more.

    `episode` is the event with which it fired, until that is resolved.
    """

    __tablename__ = "alert_states"

    config_id: Mapped[str] = mapped_column(
        ForeignKey("alert_configs.id", ondelete="CASCADE"), primary_key=True
    )
    agent_id: Mapped[str] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    run_seq: Mapped[int]
    run_id: Mapped[str]
    state: Mapped[str]
    breaches: Mapped[int] = mapped_column(Integer)
    clears: Mapped[int] = mapped_column(Integer)
    fired_at: Mapped[datetime | None]
    episode: Mapped[str | None]
    value: Mapped[float | None]
    baseline: Mapped[float | None]
    explanation: Mapped[str]
    evaluated_at: Mapped[datetime]


class AlertEvent(Base):
    """Something that was told, or would have been but for a silence.

    An event of a rule is one of a run; one of a run or a schedule itself has no rule. It keeps what
    it says when the rule, the run or the schedule is gone. `once_key` makes it one.
    """

    __tablename__ = "alert_events"
    __table_args__ = (
        UniqueConstraint("once_key"),
        Index("ix_alert_events_created_at_id", "created_at", "id"),
        Index("ix_alert_events_config_id_created_at", "config_id", "created_at"),
        Index("ix_alert_events_run_id", "run_id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    once_key: Mapped[str]
    state: Mapped[str]
    config_id: Mapped[str | None] = mapped_column(
        ForeignKey("alert_configs.id", ondelete="SET NULL")
    )
    name: Mapped[str]
    severity: Mapped[str]
    benchmark_id: Mapped[str]
    agent_id: Mapped[str]
    run_id: Mapped[str | None]
    run_seq: Mapped[int | None]
    episode: Mapped[str | None] = mapped_column(index=True)
    value: Mapped[float | None]
    baseline: Mapped[float | None]
    explanation: Mapped[str]
    details: Mapped[dict[str, Any]]
    traces: Mapped[list[Any]]
    silence_id: Mapped[str | None]
    notification_id: Mapped[str | None]
    verdict: Mapped[str | None]
    acknowledged_at: Mapped[datetime | None]
    acknowledged_by: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class AlertSilence(Base):
    """Keeps alerts that match all given fields from being told, until it ends."""

    __tablename__ = "alert_silences"
    __table_args__ = (
        Index("ix_alert_silences_created_at_id", "created_at", "id"),
        Index("ix_alert_silences_ends_at", "ends_at"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    matchers: Mapped[dict[str, Any]]
    comment: Mapped[str | None]
    starts_at: Mapped[datetime]
    ends_at: Mapped[datetime]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
