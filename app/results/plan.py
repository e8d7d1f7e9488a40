"""What a run will do, frozen when it starts: later edits change later runs only."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from app.formula import compile_formula, format_formula
from app.harness.harness_config import HarnessConfig
from app.kpis.evaluate import PlannedKpi
from app.metrics.registry import column_of
from app.metrics.types import MetricRef


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PlannedMetric(_Frozen):
    """One column of the run. `column` is the name that formulas use."""

    key: str
    options: dict[str, bool | int | float | str]
    column: str
    version: str

    @property
    def ref(self) -> MetricRef:
        return MetricRef.of(self.key, self.options)


# Which model answers, what it costs and how fast is what is measured, not how; what a run may not
# begin any more is missing, and the run says so.
_MEASURED = {
    "provider", "model", "base_url", "concurrency", "price", "judge_price", "prices", "run_tokens",
    "run_usd",
}  # fmt: skip


class SourceSelection(NamedTuple):
    """Which source a run reads, which dataset of it, and with whose credentials."""

    source: str
    dataset_ref: str | None
    agent_id: str
    agent_revision: int
    late_scores: bool
    harness: HarnessConfig | None


class PlannedWriteBack(_Frozen):
    """Which scores are written where the traces came from."""

    kpis: bool = False
    metrics: bool = False


class PlannedBaseline(_Frozen):
    """What the run is compared with unless another one is pinned; see `BaselineMode`."""

    mode: str = "PREVIOUS_VALID"
    runs: int = 1


class PlannedJudgeCalibration(_Frozen):
    """The judge that is watched, and the answers with gold scores that it is given."""

    metric: PlannedMetric
    answers: tuple[dict[str, Any], ...]
    max_error: float


class PlanDifferences(NamedTuple):
    """In what earlier plans differ: metrics (by column) and KPIs (by id) whose values mean
    something else now, and all of it in words; `conditions` are those that touch every value.
    """

    metrics: frozenset[str]
    kpis: frozenset[str]
    descriptions: tuple[str, ...]
    conditions: tuple[str, ...] = ()


class RunPlan(_Frozen):
    """`query` is what the source is asked for; secrets are read from the agent when needed."""

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
    harness: HarnessConfig | None = None
    write_back: PlannedWriteBack = PlannedWriteBack()
    cluster_field: str | None = None
    baseline: PlannedBaseline = PlannedBaseline()
    judge_calibration: PlannedJudgeCalibration | None = None

    @property
    def columns(self) -> list[str]:
        return [metric.column for metric in self.metrics]

    @property
    def refs(self) -> tuple[MetricRef, ...]:
        return tuple(metric.ref for metric in self.metrics)

    @property
    def source_selection(self) -> "SourceSelection":
        """What is asked for, the name of the run apart."""
        return SourceSelection(
            self.source,
            self.dataset_ref,
            self.agent_id,
            self.agent_revision,
            self.late_scores,
            self.harness,
        )

    def document(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    def fingerprint(self) -> str:
        """Equal for two runs that do the same: metrics in their versions (with the models and prompts
        of judges), formulas, where traces come from, and the conditions of a harness.
        """
        meaning = {
            "source": self.source,
            "dataset": self.dataset_ref,
            "metrics": sorted((metric.column, metric.version) for metric in self.metrics),
            "kpis": sorted((kpi.name, format_formula(kpi.formula)) for kpi in self.kpis),
            **({"lateScores": True} if self.late_scores else {}),
            **({"harness": _conditions(self.harness)} if self.harness is not None else {}),
        }
        return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()


def compare_plans(earlier: Iterable[RunPlan], now: RunPlan) -> PlanDifferences:
    """What of a plan cannot be compared with earlier ones, and what a reader should know of the
    rest.
    """
    found = [_differences(before, now) for before in earlier]
    return PlanDifferences(
        frozenset[str]().union(*(each.metrics for each in found)),
        frozenset[str]().union(*(each.kpis for each in found)),
        tuple(dict.fromkeys(said for each in found for said in each.descriptions)),
        tuple(dict.fromkeys(said for each in found for said in each.conditions)),
    )


def _differences(before: RunPlan, now: RunPlan) -> PlanDifferences:
    versions = {metric.column: metric.version for metric in before.metrics}
    metrics = frozenset(
        metric.column for metric in now.metrics if versions.get(metric.column) != metric.version
    )
    formulas = {kpi.id: format_formula(kpi.formula) for kpi in before.kpis}
    rewritten = {kpi.id for kpi in now.kpis if formulas.get(kpi.id) != format_formula(kpi.formula)}
    touched = {
        kpi.id
        for kpi in now.kpis
        if any(column_of(ref.key) in metrics for ref in compile_formula(kpi.formula).references)
    }
    conditions = tuple(_other_conditions(before, now))
    told = [
        *(f"{column} is measured by another version" for column in sorted(metrics & {*versions})),
        *(f"{column} is new" for column in sorted(metrics - {*versions})),
        *(
            f"the KPI {kpi.name} " + ("has another formula" if kpi.id in formulas else "is new")
            for kpi in now.kpis
            if kpi.id in rewritten
        ),
        *conditions,
    ]
    return PlanDifferences(metrics, frozenset(rewritten | touched), tuple(told), conditions)


def _other_conditions(before: RunPlan, now: RunPlan) -> Iterator[str]:
    if before.source != now.source:
        yield f"its traces come from {now.source} instead of {before.source}"
    if before.dataset_ref != now.dataset_ref:
        yield f"its dataset is {now.dataset_ref} instead of {before.dataset_ref}"
    if before.late_scores != now.late_scores:
        yield "late scores are counted in one of the two only"
    old, new = before.harness, now.harness
    if (old and _conditions(old)) != (new and _conditions(new)):
        yield "the model works under other conditions (prompt, limits or judge)"


def _conditions(harness: HarnessConfig) -> dict[str, Any]:
    """Under which limits, and with which judge, a model works."""
    return harness.model_dump(mode="json", exclude=_MEASURED)
