"""Tables of benchmarks and their KPI definitions."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ForeignKey, Index, Text, func, literal_column, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column, relationship

from mosaico.benchmarks.config_types import (
    BaselineConfig,
    EventTriggers,
    JudgeCalibration,
    MetricSelection,
    WriteBackConfig,
)
from mosaico.core.db import Base, ModelJson
from mosaico.core.revisions import RevisionColumns
from mosaico.harness.harness_config import HarnessConfig
from mosaico.metrics.formula_direction import direction_warnings
from mosaico.metrics.types import Direction, MetricRef
from mosaico.traces.production import ProductionTraces
from mosaico.traces.redaction import RedactionRules

# Without parameters, so that the planner finds the index of this condition.
HAS_LANGFUSE_RULES = "NOT archived AND triggers -> 'langfuse' -> 0 IS NOT NULL"
# In the spelling of PostgreSQL. A name in the metadata may be longer than an entry of an index.
_NAME_KEY = (
    '"left"(lower(COALESCE(NULLIF(TRIM(BOTH FROM jsonb_extract_path_text('
    "metadata, VARIADIC ARRAY['name'::text])), ''::text), id)), 200)"
)


class Benchmark(Base):
    """A benchmark: dataset, trace source, metrics, and rules of validity and comparison.

    `source` None: the agent decides, see `mosaico.benchmarks.service.source_of`.
    """

    __tablename__ = "benchmarks"
    __table_args__ = (
        Index("ix_benchmarks_archived_created_at_id", "archived", "created_at", "id"),
        # The search by name, and the order of runs by the names of their benchmarks.
        Index("ix_benchmarks_name_id", text(_NAME_KEY), "id"),
        # Asked for each event of Langfuse, and for each upload.
        Index("ix_benchmarks_langfuse_rules", "id", postgresql_where=text(HAS_LANGFUSE_RULES)),
        Index("ix_benchmarks_dataset_ref", "dataset_ref"),
        # Asked for each export of spans, and for each upload.
        Index(
            "ix_benchmarks_redact",
            "id",
            postgresql_where=text("redact IS NOT NULL AND NOT archived"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    metadata_: Mapped[dict[str, Any]] = mapped_column("metadata", default=dict)
    dataset_ref: Mapped[str | None]
    run_name: Mapped[str | None]
    task_def: Mapped[str | None]
    features: Mapped[Any] = mapped_column(JSONB(none_as_null=True), nullable=True)
    source: Mapped[str | None]
    metrics: Mapped[list[MetricSelection]] = mapped_column(ModelJson(list[MetricSelection]))
    min_coverage: Mapped[float]
    max_error_share: Mapped[float]
    min_agreement: Mapped[float | None]
    keep_days: Mapped[int | None]
    keep_text_days: Mapped[int | None]
    redact: Mapped[RedactionRules | None] = mapped_column(ModelJson(RedactionRules))
    triggers: Mapped[EventTriggers] = mapped_column(
        ModelJson(EventTriggers), default=EventTriggers, server_default="{}"
    )
    late_scores: Mapped[bool] = mapped_column(default=False)
    expect_items: Mapped[Any] = mapped_column(JSONB(none_as_null=True), nullable=True)
    settle_for: Mapped[str | None]
    input_path: Mapped[str | None]
    output_path: Mapped[str | None]
    expected_path: Mapped[str | None]
    write_back: Mapped[WriteBackConfig] = mapped_column(ModelJson(WriteBackConfig))
    harness: Mapped[HarnessConfig | None] = mapped_column(ModelJson(HarnessConfig))
    production: Mapped[ProductionTraces | None] = mapped_column(ModelJson(ProductionTraces))
    cluster_field: Mapped[str | None]
    infra_errors: Mapped[list[str]] = mapped_column(ARRAY(Text), default=list, server_default="{}")
    baseline: Mapped[BaselineConfig] = mapped_column(
        ModelJson(BaselineConfig), default=BaselineConfig, server_default="{}"
    )
    judge_calibration: Mapped[JudgeCalibration | None] = mapped_column(ModelJson(JudgeCalibration))
    archived: Mapped[bool] = mapped_column(default=False)
    revision: Mapped[int] = mapped_column(default=1)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())

    @property
    def display_name(self) -> str:
        """The name that people gave to the benchmark, otherwise its ID."""
        return name_of_benchmark(self.id, self.metadata_)


class BenchmarkAgent(Base):
    """An agent that a benchmark evaluates; a benchmark without rows evaluates any agent."""

    __tablename__ = "benchmark_agents"

    benchmark_id: Mapped[str] = mapped_column(
        ForeignKey("benchmarks.id", ondelete="CASCADE"), primary_key=True
    )
    agent_id: Mapped[str] = mapped_column(
        ForeignKey("agents.id", ondelete="RESTRICT"), primary_key=True, index=True
    )


class BenchmarkRevision(RevisionColumns, Base):
    """An edit of a benchmark or of one of its KPIs: what changed, and why. The first revision has no row."""

    __tablename__ = "benchmark_revisions"

    benchmark_id: Mapped[str] = mapped_column(
        ForeignKey("benchmarks.id", ondelete="CASCADE"), primary_key=True
    )
    revision_note: Mapped[str | None]


class KpiDefinition(Base):
    """One immutable revision of a KPI; the current revision has no `retired_at`.

    The ID of a KPI is unique inside its benchmark: another benchmark may have one with the same ID.
    """

    __tablename__ = "kpi_definitions"
    __table_args__ = (
        Index(
            "uq_kpi_definitions_current_name",
            "benchmark_id",
            text("lower(name)"),
            unique=True,
            postgresql_where=text("retired_at IS NULL"),
        ),
        Index("ix_kpi_definitions_benchmark_id", "benchmark_id"),
        Index(
            "ix_kpi_definitions_current_benchmark_id_name_id",
            "benchmark_id",
            "name",
            "id",
            postgresql_where=text("retired_at IS NULL"),
        ),
        Index(
            "ix_kpi_definitions_current_name_id_benchmark_id",
            text("lower(name)"),
            "id",
            "benchmark_id",
            postgresql_where=text("retired_at IS NULL"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    benchmark_id: Mapped[str] = mapped_column(
        ForeignKey("benchmarks.id", ondelete="CASCADE"), primary_key=True
    )
    revision: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str]
    description: Mapped[str | None]
    formula: Mapped[str]
    direction: Mapped[str]
    unit: Mapped[str | None]
    threshold_min: Mapped[float | None]
    threshold_max: Mapped[float | None]
    gate: Mapped[bool] = mapped_column(default=False, server_default="false")
    min_effect: Mapped[float | None]
    corrected: Mapped[bool] = mapped_column(default=False, server_default="false")
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    retired_at: Mapped[datetime | None]

    # The benchmark is almost always loaded already; the doctor loads it with its KPIs.
    benchmark: Mapped[Benchmark] = relationship(viewonly=True)

    @property
    def metrics(self) -> list[MetricRef]:
        """The metrics of its benchmark, whose options may give the formula a direction."""
        return [metric.ref for metric in self.benchmark.metrics]

    @property
    def warnings(self) -> list[str]:
        """Reasons to check the definition."""
        return direction_warnings(self.formula, Direction(self.direction), self.metrics)


# Without parameters: an index serves the same expression only.
BENCHMARK_NAME: Final = func.coalesce(
    func.nullif(
        func.trim(func.jsonb_extract_path_text(Benchmark.metadata_, literal_column("'name'"))),
        literal_column("''"),
    ),
    Benchmark.id,
)
# What sorts the names of benchmarks, with an index.
BENCHMARK_NAME_KEY: Final = func.left(func.lower(BENCHMARK_NAME), literal_column("200"), type_=Text)


def name_of_benchmark(benchmark_id: str, metadata: Mapping[str, Any]) -> str:
    """The display name of a benchmark: that in its metadata, otherwise its ID."""
    name = metadata.get("name")
    return name if isinstance(name, str) and name.strip() else benchmark_id
