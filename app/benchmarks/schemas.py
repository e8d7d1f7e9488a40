from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from app.benchmarks.event_triggers import EventTriggers
from app.core.errors import Invalid
from app.core.schemas import UNSET, Identifier, JsonObject, LongText, ShortText, WireModel
from app.core.strict_json import MalformedJson, parse_json
from app.harness.harness_config import HarnessConfig
from app.metrics.types import Direction

MAX_KPIS = 100
MAX_METRICS = 100
MAX_AGENTS = 1000
MAX_FEATURES = 200

SEED_METRICS = ("ROUGE", "BLEU", "ACCURACY", "PRECISION", "RECALL", "F1_SCORE")
"""What a benchmark measures when it does not say: the six metrics of the original system."""


def _object_of_text(value: object) -> object:
    """The handover sends `metadata` as a text that holds JSON; both forms become the object."""
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value)
    except MalformedJson as error:
        said = error.detail.removeprefix("The body is not JSON: ").partition(";")[0]
        raise _mistake(f"the text is no JSON: {said}; send an object, or its JSON text") from None
    except Invalid as error:
        said = " ".join(f"{item.pointer} {item.detail}" for item in error.errors)
        raise _mistake(said.strip() or error.detail) from None


def _mistake(detail: str) -> PydanticCustomError:
    return PydanticCustomError("unacceptable_value", "{detail}", {"detail": detail})


def _one_of(wanted: str) -> WrapValidator:
    """Says once what is wanted, instead of once for each member of a union."""

    def check(value: object, handler: ValidatorFunctionWrapHandler) -> object:
        try:
            return handler(value)
        except ValidationError:
            raise _mistake(f"should be {wanted}") from None

    return WrapValidator(check)


def _metric_of_name(value: object) -> object:
    return {"key": value} if isinstance(value, str) else value


Metadata = Annotated[JsonObject, BeforeValidator(_object_of_text)]


MAX_OPTION_CHARS = 8000
OptionText = Annotated[str, Field(min_length=1, max_length=MAX_OPTION_CHARS)]
OptionValue = Annotated[
    bool | int | float | OptionText,
    _one_of(f"a boolean, a number or a text of 1 to {MAX_OPTION_CHARS} characters"),
]


class MetricSelection(WireModel):
    """A metric and its options; the name alone stands for one without options."""

    key: ShortText
    options: dict[str, OptionValue] = Field(default_factory=dict, max_length=20)


Metric = Annotated[MetricSelection, BeforeValidator(_metric_of_name)]
Gate = Annotated[
    bool, Field(description="Its verdict decides alone: no other KPI makes it harder to reach.")
]
MinEffect = Annotated[
    float | None,
    Field(gt=0, description="Smallest change that counts, in its unit; none: 0.02 or 2 %."),
]
Direction_ = Annotated[Direction, Field(description="Which way the KPI should move.")]


class KpiBody(WireModel):
    """A KPI: a formula over the metrics of a run. Each edit makes a new revision."""

    name: ShortText
    formula: Annotated[str, Field(min_length=1, max_length=4096, examples=["AVERAGE(ROUGE, BLEU)"])]
    description: LongText | None = None
    direction: Direction_ = Direction.HIGHER_IS_BETTER
    unit: ShortText | None = None
    threshold_min: float | None = None
    threshold_max: float | None = None
    gate: Gate = False
    min_effect: MinEffect = None


class KpiCreate(KpiBody):
    id: Identifier | None = None


class KpiPatch(WireModel):
    """Only the fields that are sent change; null clears one."""

    name: ShortText = UNSET
    formula: Annotated[str, Field(min_length=1, max_length=4096)] = UNSET
    description: LongText | None = None
    direction: Direction_ = UNSET
    unit: ShortText | None = None
    threshold_min: float | None = None
    threshold_max: float | None = None
    gate: Gate = UNSET
    min_effect: MinEffect = None


class KpiView(KpiBody):
    id: str
    benchmark_id: str
    revision: int
    created_at: datetime


Measures = Annotated[list[KpiCreate], Field(max_length=MAX_KPIS)]
Evaluates = Annotated[
    list[Identifier],
    Field(max_length=MAX_AGENTS, description="Agents that are benchmarked; empty: any agent."),
]
Metrics = Annotated[list[Metric], Field(min_length=1, max_length=MAX_METRICS)]
Features = Annotated[
    LongText | Annotated[list[ShortText], Field(max_length=MAX_FEATURES)] | None,
    _one_of(f"a text, or a list of at most {MAX_FEATURES} short texts"),
    Field(description="Features to evaluate."),
]
Share = Annotated[float, Field(ge=0, le=1)]
KeepDays = Annotated[int, Field(ge=1, le=36500)]
LateScores = Annotated[
    bool, Field(description="Ask also for scores given long after a trace, or inside of it.")
]


class WriteBackConfig(WireModel):
    """What is written where the traces came from, once a run has completed."""

    kpis: bool = Field(default=False, description="KPI values, as scores of the whole run.")
    metrics: bool = Field(default=False, description="Metric values, as scores of each trace.")


class BaselineMode(StrEnum):
    """What a run is compared with where no run is pinned."""

    PREVIOUS_VALID = "PREVIOUS_VALID"
    MEAN_OF_LAST = "MEAN_OF_LAST"


class BaselineConfig(WireModel):
    """The valid run before, or each item's mean over the last so many valid runs."""

    mode: BaselineMode = BaselineMode.PREVIOUS_VALID
    runs: Annotated[int, Field(ge=2, le=30)] = Field(
        default=5, description="How many, for MEAN_OF_LAST."
    )


class GoldAnswer(WireModel):
    """An answer that never changes, and the score that people gave it."""

    input: LongText | None = None
    expected_output: LongText | None = None
    output: LongText
    gold: float


class JudgeCalibration(WireModel):
    """Whether a judge still scores as it did: answers with gold scores that each run has it judge.

    A run is INVALID when the mean distance from the gold scores is above `maxError`.
    """

    metric: Metric
    answers: Annotated[list[GoldAnswer], Field(min_length=3, max_length=100)]
    max_error: Annotated[float, Field(ge=0)] = 0.1


ClusterField = Annotated[
    str | None,
    Field(
        pattern=r"^[^:\s]{1,64}$",
        description="Items that share a tag `<clusterField>:…` belong together: they are not counted"
        " as independent.",
        examples=["category"],
    ),
]


def _seed_metrics() -> list[MetricSelection]:
    return [MetricSelection(key=key) for key in SEED_METRICS]


class BenchmarkBody(WireModel):
    """A benchmark as PUT writes it: a field that is left out takes its default."""

    metadata: Metadata = Field(default_factory=dict)
    dataset_ref: ShortText | None = Field(default=None, description="Name of the dataset.")
    run_name: ShortText | None = Field(
        default=None, description="Run of the dataset that is read; none: its newest."
    )
    task_def: LongText | None = None
    features: Features = None
    evaluates: Evaluates = Field(default_factory=list)
    source: ShortText = Field(default="local", description="Where traces come from.")
    metrics: Metrics = Field(default_factory=_seed_metrics)
    measures: Measures = Field(default_factory=list)
    min_coverage: Share = Field(default=0.9, description="A run with less is INVALID.")
    max_error_share: Share = Field(default=0.05, description="A run with more is INVALID.")
    keep_days: KeepDays | None = Field(default=None, description="Age at which runs are purged.")
    triggers: EventTriggers = Field(default_factory=EventTriggers)
    late_scores: LateScores = False
    write_back: WriteBackConfig = Field(default_factory=WriteBackConfig)
    harness: HarnessConfig | None = Field(
        default=None,
        description="Which model works on the dataset, or what of a YAML of ot-bench is run; for"
        " the source `harness`.",
    )
    cluster_field: ClusterField = None
    baseline: BaselineConfig = Field(
        default_factory=BaselineConfig,
        description="What runs are compared with; a pinned run (PUT /baseline) goes before it.",
    )
    judge_drift: JudgeCalibration | None = None
    archived: bool = False


class BenchmarkCreate(BenchmarkBody):
    id: Identifier | None = None


class BenchmarkPatch(WireModel):
    """Only the fields that are sent change; `measures` replaces the whole list."""

    metadata: Metadata = UNSET
    dataset_ref: ShortText | None = None
    run_name: ShortText | None = None
    task_def: LongText | None = None
    features: Features = None
    evaluates: Evaluates = UNSET
    source: ShortText = UNSET
    metrics: Metrics = UNSET
    measures: Measures = UNSET
    min_coverage: Share = UNSET
    max_error_share: Share = UNSET
    keep_days: KeepDays | None = None
    triggers: EventTriggers = UNSET
    late_scores: LateScores = UNSET
    write_back: WriteBackConfig = UNSET
    harness: HarnessConfig | None = None
    cluster_field: ClusterField = None
    baseline: BaselineConfig = UNSET
    judge_drift: JudgeCalibration | None = None
    archived: bool = UNSET


class BenchmarkView(WireModel):
    id: str
    metadata: dict[str, Any]
    dataset_ref: str | None
    run_name: str | None
    task_def: str | None
    features: Any
    evaluates: list[str]
    source: str
    metrics: list[MetricSelection]
    measures: list[KpiView]
    min_coverage: float
    max_error_share: float
    keep_days: int | None
    triggers: EventTriggers
    late_scores: bool
    write_back: WriteBackConfig
    harness: HarnessConfig | None
    cluster_field: str | None
    baseline: BaselineConfig
    judge_drift: JudgeCalibration | None
    archived: bool
    revision: int
    created_at: datetime
    updated_at: datetime
