"""The plan of a run, frozen when it starts: later edits of a benchmark change later runs only."""

import hashlib
import json
import re
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from mosaico.benchmarks.config_types import BaselineConfig, GoldAnswer, WriteBackConfig
from mosaico.formula import format_formula
from mosaico.harness.harness_config import HarnessConfig
from mosaico.kpis.evaluate import PlannedKpi
from mosaico.metrics.types import Direction, MetricRef
from mosaico.traces.production import ProductionTraces
from mosaico.traces.reader_versions import ReaderVersion, TraceReaderVersion
from mosaico.traces.redaction import RedactionRules
from mosaico.traces.types import ExpectedItems

# Metrics that read scores of the traces.
_DELIVERED = frozenset({"SCORE", "TASK_SCORE", "TASK_PASSED", "NATURAL_STOP"})


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class PlannedMetric(_Frozen):
    """One column of the run. `column` is the name that formulas use.

    `package` is the distribution of a plugin with its version, None for a built-in metric. `is_added`: the service measures
    it in every run. Plans before these fields
    have neither a `direction` nor a `package`: those were not recorded.
    """

    key: str
    options: dict[str, bool | int | float | str]
    column: str
    version: str
    direction: Direction | None = None
    package: str | None = None
    is_added: bool = False

    @property
    def full_version(self) -> str:
        """What decides the values: the version of the metric, and that of its package."""
        return f"{self.version} ({self.package})" if self.package else self.version

    @property
    def is_delivered(self) -> bool:
        """Whether the values are scores as the source delivers them; labels become numbers here."""
        return self.key in _DELIVERED and not self.options.get("labels")

    @property
    def ref(self) -> MetricRef:
        return MetricRef.of(self.key, self.options)


# Harness options that do not change what a value means: the model itself is what the benchmark
# measures, and its price and speed are results. A budget that runs out leaves traces missing, which
# the validity of the run reports.
_NOT_CONDITIONS = {
    "provider", "model", "base_url", "concurrency", "price", "judge_price", "prices", "run_tokens",
    "run_usd", "trials", "prompt_cache",
}  # fmt: skip


class SourceSelection(NamedTuple):
    """The selection that a run reads: the source, its dataset, and the agent whose credentials are used."""

    source: str
    dataset_ref: str | None
    dataset_version: int | None
    agent_id: str
    agent_revision: int
    late_scores: bool
    harness: HarnessConfig | None
    production: ProductionTraces | None
    field_paths: tuple[str | None, ...]
    redact: RedactionRules | None


class PlannedJudgeCalibration(_Frozen):
    """The judge to calibrate, and the answers with gold scores that it is given."""

    metric: PlannedMetric
    answers: tuple[GoldAnswer, ...]
    max_error: float


class RunPlan(_Frozen):
    """Everything a run will do. It holds no secrets: those are read from the agent when needed.

    `reader` is what read the traces; it is known when they are collected. `dataset_version` is the version of the items of
    the dataset, where they live here.
    """

    version: Literal[1] = 1
    benchmark_id: str
    benchmark_revision: int
    agent_id: str
    agent_revision: int
    source: str
    dataset_ref: str | None
    dataset_version: int | None = None
    run_name: str | None
    metrics: tuple[PlannedMetric, ...]
    kpis: tuple[PlannedKpi, ...]
    min_coverage: float
    max_error_share: float
    min_agreement: float | None = None
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
    infra_errors: tuple[str, ...] = ()
    redact: RedactionRules | None = None
    baseline: BaselineConfig = BaselineConfig()
    judge_calibration: PlannedJudgeCalibration | None = None
    reader: TraceReaderVersion | None = None

    @property
    def columns(self) -> list[str]:
        return [metric.column for metric in self.metrics]

    @property
    def added_columns(self) -> frozenset[str]:
        """The metrics that the service measures in every run."""
        return frozenset(metric.column for metric in self.metrics if metric.is_added)

    @property
    def refs(self) -> tuple[MetricRef, ...]:
        return tuple(metric.ref for metric in self.metrics)

    @property
    def source_selection(self) -> "SourceSelection":
        """The source selection of a run, without the name of the run of the source."""
        return SourceSelection(
            self.source,
            self.dataset_ref,
            self.dataset_version,
            self.agent_id,
            self.agent_revision,
            self.late_scores,
            self.harness,
            self.production,
            self.field_paths,
            self.redact,
        )

    @property
    def field_paths(self) -> tuple[str | None, ...]:
        """The paths of input, output and expected output."""
        return (self.input_path, self.output_path, self.expected_path)

    @property
    def redaction_rules(self) -> tuple[list[str], list[str]]:
        """The patterns and paths that are removed from texts; their order says nothing."""
        rules = self.redact or RedactionRules()
        return sorted(rules.patterns), sorted(rules.paths)

    @property
    def reads_scores(self) -> bool:
        """Return whether a metric reads the scores of traces."""
        return any(map(is_score_column, self.columns))

    @property
    def score_names(self) -> tuple[str, ...]:
        """The names of the scores that metrics read, each once."""
        names = (metric.options.get("name") for metric in self.metrics)
        scores = zip(names, self.columns, strict=True)
        return tuple(dict.fromkeys(str(name) for name, column in scores if is_score_column(column)))

    @property
    def is_sample(self) -> bool:
        """Return whether the items of the run are a sample that no other run shares."""
        return self.production is not None and not self.production.is_paired

    @property
    def reader_version(self) -> ReaderVersion:
        """The versions of the reader; 1 where it was not recorded."""
        if self.reader is None:
            return ReaderVersion()
        return ReaderVersion(self.reader.answers, self.reader.usage)

    def completed_by(self, later: "RunPlan") -> "RunPlan":
        """The plan with what was not recorded of its metrics, taken from a later plan: an upgrade of this service is
        no change of the ruler.
        """
        known = {(metric.column, metric.version): metric for metric in later.metrics}
        return self.model_copy(
            update={
                "metrics": tuple(
                    metric
                    if metric.direction or (metric.column, metric.version) not in known
                    else known[metric.column, metric.version]
                    for metric in self.metrics
                )
            }
        )

    def fingerprint(self) -> str:
        """Digest of everything that gives the values their meaning: source and dataset, the ruler, formulas, and the
        conditions of a harness. The ruler: versions of metrics (which include their options, the models and prompts of
        judges) and of plugins, directions, the errors that are not the agent's, what is removed from texts, and the
        versions of the reader.
        """
        document: dict[str, Any] = {
            "source": self.source,
            "dataset": self.dataset_ref,
            "metrics": sorted(
                (metric.column, metric.full_version, metric.direction or "")
                for metric in self.metrics
                if not metric.is_added
            ),
            "kpis": sorted(
                (kpi.name, format_formula(kpi.formula), kpi.direction) for kpi in self.kpis
            ),
            **({"lateScores": True} if self.late_scores and self.reads_scores else {}),
            **({"harness": conditions_of(self.harness)} if self.harness is not None else {}),
            **(
                {"production": population_of(self.production)}
                if self.production is not None
                else {}
            ),
            **({"fieldPaths": self.field_paths} if any(self.field_paths) else {}),
            **({"infraErrors": sorted(self.infra_errors)} if self.infra_errors else {}),
            **({"redact": self.redaction_rules} if self.redact is not None else {}),
            **({"reader": self.reader_version} if self.reader_version != ReaderVersion() else {}),
        }
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def is_score_column(column: str) -> bool:
    """Return whether a metric, by its name or column, is a score that the source delivers:
    `SCORE["Tone"]`.
    """
    return re.match(r"SCORE\b", column) is not None


def population_of(production: ProductionTraces) -> dict[str, Any]:
    """Return the settings that select the traces of a window, without its time and sample size."""
    return production.model_dump(mode="json", include={"filters", "item_key"})


def conditions_of(harness: HarnessConfig) -> dict[str, Any]:
    """The options under which a model is measured: prompt, limits and judge."""
    conditions = harness.model_dump(mode="json", exclude=_NOT_CONDITIONS)
    # Left out unless it is set, so that runs from before this option stay comparable.
    if conditions.get("thinking") is None:
        conditions.pop("thinking", None)
    return conditions
