"""Wire format of benchmarks and their KPIs."""

from datetime import datetime
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
)

from mosaico.benchmarks.config_types import (
    BaselineConfig,
    EventTriggers,
    JudgeCalibration,
    MetricSelection,
    WriteBackConfig,
    described_union,
    expand_metric_name,
    unacceptable,
)
from mosaico.core.defaults import MAX_ERROR_SHARE, MIN_COVERAGE
from mosaico.core.edits import EditBody, patch_of
from mosaico.core.errors import Invalid
from mosaico.core.revisions import RevisionView
from mosaico.core.schemas import (
    Identifier,
    JsonObject,
    LongText,
    ShortText,
    WireModel,
    explain_pattern,
)
from mosaico.core.strict_json import MalformedJson, parse_json
from mosaico.harness.harness_config import HarnessConfig
from mosaico.harness.text_search import InvalidPattern, compile_pattern
from mosaico.metrics.types import Direction
from mosaico.traces.files.field_paths import FieldPath
from mosaico.traces.production import Duration, ProductionTraces
from mosaico.traces.redaction import MAX_PATTERN_CHARS, RedactionRules
from mosaico.traces.types import ExpectedItems

MAX_KPIS = 100
MAX_METRICS = 100
MAX_AGENTS = 1000
MAX_FEATURES = 200
MAX_INFRA_ERRORS = 50

DEFAULT_METRICS = ("ROUGE", "BLEU", "ACCURACY", "PRECISION", "RECALL", "F1_SCORE")
"""Default metrics of a benchmark: the six metrics of the original system."""


def _parse_json_text(value: object) -> object:
    """Accept `metadata` as JSON text too, the form of the original system."""
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value)
    except MalformedJson as error:
        reason = error.detail.partition(": ")[2].partition(";")[0]
        raise unacceptable(
            f"the text is not valid JSON: {reason}; send an object, or its JSON text"
        ) from None
    except Invalid as error:
        reason = " ".join(f"{item.pointer} {item.detail}" for item in error.errors)
        raise unacceptable(reason.strip() or error.detail) from None


Metadata = Annotated[JsonObject, BeforeValidator(_parse_json_text)]


MetricInput = Annotated[
    MetricSelection,
    BeforeValidator(expand_metric_name, json_schema_input_type=MetricSelection | ShortText),
]
IsGate = Annotated[
    bool,
    Field(
        description="Whether the KPI is one of the gate. The KPIs of the gate (all, if none is marked)"
        " are judged together: their intervals and p-values are adjusted, so that any false change"
        " among them has a probability of 5 %."
    ),
]
MinEffect = Annotated[
    float | None,
    Field(
        gt=0, description="Smallest relevant change, in the unit of the KPI. Default: 0.02 or 2 %."
    ),
]
IsCorrected = Annotated[
    bool,
    Field(
        description="Whether annotations of people correct the value of a KPI that is the mean of the scores of a judge."
        " With too few of them it is the mean of the scores, and the run says so."
    ),
]
KpiDirection = Annotated[Direction, Field(description="Direction in which the KPI improves.")]
ChosenDirection = Annotated[
    Direction | None,
    Field(
        description="Direction in which the KPI improves. Default: the one that follows from the formula;"
        " `NEITHER` if none does."
    ),
]


class KpiView(WireModel):
    """The current revision of a KPI, also one that `KpiBody` would refuse."""

    name: str
    formula: str
    description: str | None
    direction: KpiDirection
    unit: str | None
    threshold_min: float | None
    threshold_max: float | None
    gate: IsGate
    min_effect: float | None
    corrected: IsCorrected
    warnings: Annotated[list[str], Field(description="Reasons to check the direction of the KPI.")]
    id: str
    benchmark_id: str
    revision: int
    created_at: datetime


class KpiBody(EditBody):
    """A KPI: a formula over the metrics of a run. Each change creates a new revision."""

    shown_as: ClassVar = KpiView

    name: ShortText
    formula: Annotated[str, Field(min_length=1, max_length=4096, examples=["AVERAGE(ROUGE, BLEU)"])]
    description: LongText | None = None
    direction: ChosenDirection = None
    unit: ShortText | None = None
    threshold_min: float | None = None
    threshold_max: float | None = None
    gate: IsGate = False
    min_effect: MinEffect = None
    corrected: IsCorrected = False


class KpiCreate(KpiBody):
    """A new KPI; the service generates the id if it is omitted."""

    id: Identifier | None = None


RevisionNote = Annotated[
    ShortText | None, Field(description="Reason for the change, shown with the revision.")
]


@patch_of
class KpiPatch(KpiBody):
    """The fields to change; null clears a field."""

    revision_note: RevisionNote = None


Measures = Annotated[list[KpiCreate], Field(max_length=MAX_KPIS)]


def _id_of_entity(value: object) -> object:
    """The ID of an agent that a client sends whole, as those of the original system do."""
    return value.get("id", value) if isinstance(value, dict) else value


Evaluates = Annotated[
    list[Annotated[Identifier, BeforeValidator(_id_of_entity)]],
    Field(
        max_length=MAX_AGENTS,
        description="IDs of the evaluated agents. Default: any agent. An agent may also be sent as an object, of"
        " which only the `id` counts.",
    ),
]
MetricList = Annotated[list[MetricInput], Field(min_length=1, max_length=MAX_METRICS)]
Features = Annotated[
    LongText | Annotated[list[ShortText], Field(max_length=MAX_FEATURES)] | None,
    described_union(f"a text, or a list of at most {MAX_FEATURES} short texts"),
    Field(description="Features to evaluate."),
]
Share = Annotated[float, Field(ge=0, le=1)]
KeepDays = Annotated[int, Field(ge=1, le=36500)]
LateScores = Annotated[
    bool,
    Field(
        description="Also read scores that were created long after the trace, or on its observations."
    ),
]


ExpectItems = Annotated[
    ExpectedItems,
    described_union('a whole number from 1, or "any"'),
    Field(
        description="Number of items of a complete run, or `any`. Default: the active items of the"
        " dataset when the run of the source began."
    ),
]


_CLUSTER_FIELD_PATTERN = r"^[^:\s]{1,64}$"
ClusterField = Annotated[
    Annotated[
        str,
        Field(pattern=_CLUSTER_FIELD_PATTERN),
        explain_pattern(
            _CLUSTER_FIELD_PATTERN, "should have 1 to 64 characters, without colon and white space"
        ),
    ]
    | None,
    Field(
        description="Prefix of a tag, such as category of `category:billing`, or name of an attribute, such as"
        " session. Items that share such a tag, or a value of the attribute, form a cluster: they are not"
        " independent of each other.",
        examples=["category"],
    ),
]


def _require_pattern(pattern: str) -> str:
    try:
        compile_pattern(pattern)
    except InvalidPattern as error:
        raise unacceptable(f"is not a valid regular expression (RE2): {error}") from None
    return pattern


InfraErrors = Annotated[
    list[
        Annotated[
            str, Field(min_length=1, max_length=MAX_PATTERN_CHARS), AfterValidator(_require_pattern)
        ]
    ],
    Field(
        max_length=MAX_INFRA_ERRORS,
        description="Regular expressions (RE2) of error messages that are no fault of the agent, such as those of a"
        " gateway of your own. They come before the rules of the service.",
        examples=[["gateway-7 .* saturated"]],
    ),
]


def _default_metrics() -> list[MetricSelection]:
    return [MetricSelection(key=key) for key in DEFAULT_METRICS]


class BenchmarkView(WireModel):
    """A benchmark with the agents it evaluates and its current KPIs."""

    id: str
    metadata: dict[str, Any]
    dataset_ref: str | None
    run_name: str | None
    task_def: str | None
    features: Any
    evaluates: list[str]
    source: str | None
    metrics: list[MetricSelection]
    measures: list[KpiView]
    min_coverage: float
    max_error_share: float
    min_agreement: float | None
    keep_days: int | None
    keep_text_days: int | None
    redact: RedactionRules | None
    triggers: EventTriggers
    late_scores: bool
    expect_items: ExpectedItems
    settle_for: str | None
    input_path: str | None
    output_path: str | None
    expected_path: str | None
    write_back: WriteBackConfig
    harness: HarnessConfig | None
    production: ProductionTraces | None
    cluster_field: str | None
    infra_errors: list[str]
    baseline: BaselineConfig
    judge_calibration: JudgeCalibration | None
    archived: bool
    revision: int
    created_at: datetime
    updated_at: datetime


class BenchmarkBody(EditBody):
    """All fields of a benchmark; an omitted field gets its default."""

    shown_as: ClassVar = BenchmarkView

    metadata: Metadata = Field(default_factory=dict)
    dataset_ref: ShortText | None = Field(default=None, description="Name of the dataset.")
    run_name: ShortText | None = Field(
        default=None, description="Dataset run to read. Default: the newest run."
    )
    task_def: LongText | None = None
    features: Features = None
    evaluates: Evaluates = Field(default_factory=list)
    source: ShortText | None = Field(
        default=None,
        description="Trace source. Default: `langfuse` for an agent with a Langfuse key, `local` (uploads)"
        " for any other.",
    )
    metrics: MetricList = Field(default_factory=_default_metrics)
    measures: Measures = Field(default_factory=list)
    min_coverage: Share = Field(
        default=MIN_COVERAGE, description="A run with lower coverage is INVALID."
    )
    max_error_share: Share = Field(
        default=MAX_ERROR_SHARE, description="A run with a higher share of errors is INVALID."
    )
    min_agreement: Share | None = Field(
        default=None,
        description="A judge that agrees with people on a smaller share of the annotated answers is named wherever its"
        " scores decide. It changes no verdict.",
    )
    keep_days: KeepDays | None = Field(
        default=None, description="Age in days at which the traces of runs are deleted."
    )
    keep_text_days: KeepDays | None = Field(
        default=None,
        description="Age in days at which the texts of runs are removed: questions, answers, errors, tool calls,"
        " transcripts, reasons of judges. Values and verdicts stay. It cannot be undone.",
    )
    redact: RedactionRules | None = Field(
        default=None,
        description="What is removed from texts before they are stored. A change makes the next run measured differently.",
    )
    triggers: EventTriggers = Field(default_factory=EventTriggers)
    late_scores: LateScores = False
    expect_items: ExpectItems = None
    settle_for: Duration | None = Field(
        default=None,
        description="Maximum wait after the newest item of a run that lacks items. Default: three times"
        " the median interval between its items, at least one minute.",
    )
    input_path: FieldPath | None = Field(
        default=None,
        description="JMESPath expression that selects the compared text in the input of a trace.",
    )
    output_path: FieldPath | None = Field(
        default=None,
        description="JMESPath expression that selects the compared text in the output of a trace.",
    )
    expected_path: FieldPath | None = Field(
        default=None,
        description="JMESPath expression that selects the compared text in the expected output of a"
        " trace.",
    )
    write_back: WriteBackConfig = Field(default_factory=WriteBackConfig)
    harness: HarnessConfig | None = Field(
        default=None,
        description="For the source `harness`: the model under test, the part of an ot-bench YAML to run,"
        " or the agent (`command`) to run.",
    )
    production: ProductionTraces | None = Field(
        default=None,
        description="Read the traces of a time window in production instead of a dataset.",
    )
    cluster_field: ClusterField = None
    infra_errors: InfraErrors = Field(default_factory=list)
    baseline: BaselineConfig = Field(
        default_factory=BaselineConfig,
        description="Baseline of comparisons. A pinned run takes precedence.",
    )
    judge_calibration: JudgeCalibration | None = None
    archived: bool = False


class BenchmarkCreate(BenchmarkBody):
    """A new benchmark; the service generates the id if it is omitted."""

    id: Identifier | None = None


@patch_of
class BenchmarkPatch(BenchmarkBody):
    """The fields to change; null clears a field, `measures` replaces the whole list."""

    revision_note: RevisionNote = None


class BenchmarkRevisionView(RevisionView):
    """An edit of a benchmark or of one of its KPIs: what changed, why, when and by whom."""

    revision_note: str | None
