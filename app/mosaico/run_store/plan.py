"""The plan of a run, frozen when it starts: later edits of a benchmark change later runs only."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from mosaico.benchmarks.config_types import BaselineConfig, GoldAnswer, WriteBackConfig
from mosaico.formula import compile_formula, format_formula
from mosaico.harness.harness_config import HarnessConfig
from mosaico.kpis.evaluate import PlannedKpi
from mosaico.metrics.registry import column_of
from mosaico.metrics.types import MetricRef
from mosaico.traces.production import ProductionTraces
from mosaico.traces.types import ExpectedItems


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class PlannedMetric(_Frozen):
    """One column of the run. `column` is the name that formulas use."""

    key: str
    options: dict[str, bool | int | float | str]
    column: str
    version: str

    @property
    def ref(self) -> MetricRef:
        return MetricRef.of(self.key, self.options)


# Harness options that do not change what a value means: the model itself is what the benchmark
# measures, and its price and speed are results. A budget that runs out leaves traces missing, which
# the validity of the run reports.
_NOT_CONDITIONS = {
    "provider", "model", "base_url", "concurrency", "price", "judge_price", "prices", "run_tokens",
    "run_usd", "trials",
}  # fmt: skip


class SourceSelection(NamedTuple):
    """The selection that a run reads: the source, its dataset, and the agent whose credentials are used."""

    source: str
    dataset_ref: str | None
    agent_id: str
    agent_revision: int
    late_scores: bool
    harness: HarnessConfig | None
    production: ProductionTraces | None
    field_paths: tuple[str | None, ...]


class PlannedJudgeCalibration(_Frozen):
    """The judge to calibrate, and the answers with gold scores that it is given."""

    metric: PlannedMetric
    answers: tuple[GoldAnswer, ...]
    max_error: float


class PlanDifferences(NamedTuple):
    """The differences of a plan from earlier plans: the metrics (by column) and KPIs (by ID) whose
    values are not comparable, and descriptions of all differences; `conditions` are the
    descriptions of those that affect every value.
    """

    metrics: frozenset[str]
    kpis: frozenset[str]
    descriptions: tuple[str, ...]
    conditions: tuple[str, ...] = ()


class RunPlan(_Frozen):
    """Everything a run will do. It holds no secrets: those are read from the agent when needed."""

    version: Literal[1] = 1
    benchmark_id: str
    benchmark_revision: int
    agent_id: str
    agent_revision: int
    source: str
    dataset_ref: str | None
    run_name: str | None
    metrics: tuple[PlannedMetric, ...]
    kpis: tuple[PlannedKpi, ...]
    min_coverage: float
    max_error_share: float
    late_scores: bool = False
    expect_items: ExpectedItems = None
    settle_for: str | None = None
    input_path: str | None = None
    output_path: str | None = None
    expected_path: str | None = None
    harness: HarnessConfig | None = None
    production: ProductionTraces | None = None
    write_back: WriteBackConfig = WriteBackConfig()
    cluster_field: str | None = None
    baseline: BaselineConfig = BaselineConfig()
    judge_calibration: PlannedJudgeCalibration | None = None

    @property
    def columns(self) -> list[str]:
        return [metric.column for metric in self.metrics]

    @property
    def refs(self) -> tuple[MetricRef, ...]:
        return tuple(metric.ref for metric in self.metrics)

    @property
    def source_selection(self) -> "SourceSelection":
        """The source selection of a run, without the name of the run of the source."""
        return SourceSelection(
            self.source,
            self.dataset_ref,
            self.agent_id,
            self.agent_revision,
            self.late_scores,
            self.harness,
            self.production,
            self.field_paths,
        )

    @property
    def field_paths(self) -> tuple[str | None, ...]:
        """The paths of input, output and expected output."""
        return (self.input_path, self.output_path, self.expected_path)

    @property
    def reads_scores(self) -> bool:
        """Return whether a metric reads the scores of traces."""
        return any(map(is_score_column, self.columns))

    @property
    def is_sample(self) -> bool:
        """Return whether the items of the run are a sample that no other run shares."""
        return self.production is not None and not self.production.is_paired

    def fingerprint(self) -> str:
        """Digest of everything that gives the values their meaning: source and dataset, metric versions
        (which include the models and prompts of judges), formulas, and the conditions of a harness.
        """
        document = {
            "source": self.source,
            "dataset": self.dataset_ref,
            "metrics": sorted((metric.column, metric.version) for metric in self.metrics),
            "kpis": sorted((kpi.name, format_formula(kpi.formula)) for kpi in self.kpis),
            **({"lateScores": True} if self.late_scores and self.reads_scores else {}),
            **({"harness": _conditions(self.harness)} if self.harness is not None else {}),
            **({"production": _population(self.production)} if self.production is not None else {}),
            **({"fieldPaths": self.field_paths} if any(self.field_paths) else {}),
        }
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def is_score_column(column: str) -> bool:
    """Return whether a metric, by its name or column, is a score that the source delivers:
    `SCORE["Tone"]`.
    """
    return re.match(r"SCORE\b", column) is not None


def compare_plans(earlier: Iterable[RunPlan], plan: RunPlan) -> PlanDifferences:
    """The differences between a plan and any of the earlier plans."""
    differences = [_compare(earlier_plan, plan) for earlier_plan in earlier]
    return PlanDifferences(
        frozenset(column for difference in differences for column in difference.metrics),
        frozenset(kpi_id for difference in differences for kpi_id in difference.kpis),
        _unique(text for difference in differences for text in difference.descriptions),
        _unique(text for difference in differences for text in difference.conditions),
    )


def describe_changes(earlier: RunPlan, plan: RunPlan) -> tuple[str, ...]:
    """Describe the changes between two runs: the agent, the model, the benchmark and
    everything that `compare_plans` finds.
    """
    old, new = earlier.harness, plan.harness
    numbers = [
        ("agent revision", earlier.agent_revision, plan.agent_revision),
        ("benchmark revision", earlier.benchmark_revision, plan.benchmark_revision),
        ("provider", getattr(old, "provider", None), getattr(new, "provider", None)),
        ("model", getattr(old, "model", None), getattr(new, "model", None)),
        ("command", getattr(old, "command", None), getattr(new, "command", None)),
    ]
    return (
        *(f"{name} {before} → {after}" for name, before, after in numbers if before != after),
        *compare_plans([earlier], plan).descriptions,
    )


def _compare(earlier: RunPlan, plan: RunPlan) -> PlanDifferences:
    versions = {metric.column: metric.version for metric in earlier.metrics}
    metrics = frozenset(
        metric.column for metric in plan.metrics if versions.get(metric.column) != metric.version
    )
    formulas = {kpi.id: format_formula(kpi.formula) for kpi in earlier.kpis}
    rewritten = {kpi.id for kpi in plan.kpis if formulas.get(kpi.id) != format_formula(kpi.formula)}
    affected = {
        kpi.id
        for kpi in plan.kpis
        if any(column_of(ref.key) in metrics for ref in compile_formula(kpi.formula).references)
    }
    conditions = tuple(_condition_differences(earlier, plan))
    descriptions = [
        *(f"{column} has another version" for column in sorted(metrics & {*versions})),
        *(f"{column} is new" for column in sorted(metrics - {*versions})),
        *(
            f"the KPI {kpi.name} " + ("has another formula" if kpi.id in formulas else "is new")
            for kpi in plan.kpis
            if kpi.id in rewritten
        ),
        *conditions,
    ]
    return PlanDifferences(
        metrics, frozenset(rewritten | affected), tuple(descriptions), conditions
    )


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _condition_differences(earlier: RunPlan, plan: RunPlan) -> Iterator[str]:
    if earlier.source != plan.source:
        yield f"its traces come from {plan.source} instead of {earlier.source}"
    if earlier.dataset_ref != plan.dataset_ref:
        yield f"its dataset is {plan.dataset_ref} instead of {earlier.dataset_ref}"
    if earlier.late_scores != plan.late_scores and plan.reads_scores:
        yield "late scores are counted in only one of the two runs"
    old, new = earlier.harness, plan.harness
    if (old and _conditions(old)) != (new and _conditions(new)):
        yield "the conditions of the model differ (prompt, limits or judge)"
    earlier_traces, traces = earlier.production, plan.production
    if (earlier_traces and _population(earlier_traces)) != (traces and _population(traces)):
        yield "its production traces are selected by other filters or have another itemKey"
    if earlier.field_paths != plan.field_paths:
        yield "its texts are read by other paths (inputPath, outputPath, expectedPath)"


def _population(production: ProductionTraces) -> dict[str, Any]:
    """Return the settings that select the traces of a window, without its time and sample size."""
    return production.model_dump(mode="json", include={"filters", "item_key"})


def _conditions(harness: HarnessConfig) -> dict[str, Any]:
    """The options under which a model is measured: prompt, limits and judge."""
    return harness.model_dump(mode="json", exclude=_NOT_CONDITIONS)
