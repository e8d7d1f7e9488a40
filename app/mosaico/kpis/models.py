"""Table of KPI values."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, ForeignKeyConstraint, Identity, Index, func
from sqlalchemy.orm import Mapped, mapped_column, query_expression

from mosaico.core.db import Base, ModelJson
from mosaico.kpis.judge_types import KpiCorrection
from mosaico.kpis.series_types import RunsEvidence
from mosaico.kpis.verdict_types import ValueVerdict


class KpiHistory(Base):
    """The value of one KPI in one run, with the revision of its formula.

    `value` is NULL when the KPI is undefined, for `undefined_reason`. `coverage` is that of its least
    covered metric; `missing` counts the traces without a value, by metric. It is INVALID with an invalid run, and where one
    of its metrics has values of too few traces.
    """

    __tablename__ = "kpi_history"
    __table_args__ = (
        ForeignKeyConstraint(
            ["kpi_id", "benchmark_id", "kpi_revision"],
            ["kpi_definitions.id", "kpi_definitions.benchmark_id", "kpi_definitions.revision"],
        ),
        Index("uq_kpi_history_run_seq_kpi_id", "run_seq", "kpi_id", unique=True),
        # In the order of lists and trends, so that the planner needs no statistics to choose it.
        Index("ix_kpi_history_trend", "benchmark_id", "agent_id", "kpi_id", "recorded_at", "id"),
        Index(
            "ix_kpi_history_benchmark_id_agent_id_recorded_at_id",
            "benchmark_id",
            "agent_id",
            "recorded_at",
            "id",
        ),
        Index("ix_kpi_history_benchmark_id_recorded_at_id", "benchmark_id", "recorded_at", "id"),
        Index("ix_kpi_history_agent_id_recorded_at_id", "agent_id", "recorded_at", "id"),
        Index("ix_kpi_history_name_recorded_at_id", "name", "recorded_at", "id"),
        Index("ix_kpi_history_recorded_at_id", "recorded_at", "id"),
        Index(
            "ix_kpi_history_benchmark_id_kpi_id_recorded_at_id",
            "benchmark_id",
            "kpi_id",
            "recorded_at",
            "id",
        ),
        Index("ix_kpi_history_kpi_id_recorded_at_id", "kpi_id", "recorded_at", "id"),
    )

    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    run_seq: Mapped[int] = mapped_column(ForeignKey("benchmark_runs.seq", ondelete="CASCADE"))
    run_id: Mapped[str]
    kpi_id: Mapped[str]
    kpi_revision: Mapped[int]
    benchmark_id: Mapped[str] = mapped_column(ForeignKey("benchmarks.id", ondelete="RESTRICT"))
    agent_id: Mapped[str] = mapped_column(ForeignKey("agents.id", ondelete="RESTRICT"))
    name: Mapped[str]
    formula: Mapped[str]
    value: Mapped[float | None]
    undefined_reason: Mapped[str | None]
    unit: Mapped[str | None]
    direction: Mapped[str]
    within_thresholds: Mapped[bool | None]
    validity: Mapped[str]
    gate: Mapped[bool] = mapped_column(default=False, server_default="false")
    coverage: Mapped[float | None]
    missing: Mapped[dict[str, Any]] = mapped_column(default=dict, server_default="{}")
    interval_low: Mapped[float | None]
    interval_high: Mapped[float | None]
    verdict: Mapped[ValueVerdict | None] = mapped_column(ModelJson(ValueVerdict))
    over_runs: Mapped[RunsEvidence | None] = mapped_column(ModelJson(RunsEvidence))
    correction: Mapped[KpiCorrection | None] = mapped_column(ModelJson(KpiCorrection))
    recorded_at: Mapped[datetime] = mapped_column(server_default=func.now())
    # The word of `verdict`, for a list that does not need the document; None unless a statement selects it.
    verdict_word: Mapped[str | None] = query_expression()
