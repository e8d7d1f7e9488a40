"""What a run will do, frozen when it starts: later edits change later runs only."""

import hashlib
import json
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from app.formula import format_formula
from app.harness.bash.schemas import HarnessSettings
from app.kpis.evaluate import PlannedKpi
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


# Which model answers, what it costs and how fast is what is measured, not how.
_MEASURED = {"provider", "model", "base_url", "concurrency", "price"}


class Reads(NamedTuple):
    """Which source a run reads, which dataset of it, and with whose credentials."""

    source: str
    dataset_ref: str | None
    agent_id: str
    agent_revision: int
    late_scores: bool
    harness: HarnessSettings | None


class PlannedWriteBack(_Frozen):
    """Which scores are written where the traces came from."""

    kpis: bool = False
    metrics: bool = False


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
    harness: HarnessSettings | None = None
    write_back: PlannedWriteBack = PlannedWriteBack()

    @property
    def columns(self) -> list[str]:
        return [metric.column for metric in self.metrics]

    @property
    def refs(self) -> tuple[MetricRef, ...]:
        return tuple(metric.ref for metric in self.metrics)

    @property
    def reads(self) -> "Reads":
        """What is asked for, the name of the run apart."""
        return Reads(
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
        """Equal for two runs whose numbers mean the same: metrics, versions and formulas."""
        meaning = {
            "source": self.source,
            "dataset": self.dataset_ref,
            "metrics": sorted((metric.column, metric.version) for metric in self.metrics),
            "kpis": sorted((kpi.name, format_formula(kpi.formula)) for kpi in self.kpis),
            **({"lateScores": True} if self.late_scores else {}),
            **({"harness": _conditions(self.harness)} if self.harness else {}),
        }
        return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()


def _conditions(harness: HarnessSettings) -> dict[str, Any]:
    """Under which limits, and with which judge, a model works."""
    return harness.model_dump(mode="json", exclude=_MEASURED)
