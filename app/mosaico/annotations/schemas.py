"""Requests and responses of annotations."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from mosaico.core.schemas import FilterValues, Instant, ListFilter, WireModel

MAX_CORRECTED_CHARS = 20_000
MAX_NOTE_CHARS = 2_000
# Of a trace and an item, which have the IDs that their source gave them.
MAX_ID_CHARS = 1_000
MAX_QUEUE = 200
MAX_NIGHTS = 30


class AnswerJudgement(StrEnum):
    """What somebody says of an answer."""

    RIGHT = "right"
    PARTLY = "partly"
    WRONG = "wrong"


class QueueKind(StrEnum):
    """Which answers of a run somebody is asked to judge."""

    FLIPPED = "flipped"
    SAMPLE = "sample"
    JUDGES = "judges"
    NEW = "new"


def _text_or_none(text: str | None) -> str | None:
    return (text or "").strip() or None


NoteText: TypeAlias = Annotated[
    Annotated[str, Field(max_length=MAX_NOTE_CHARS)] | None, AfterValidator(_text_or_none)
]
CorrectedText: TypeAlias = Annotated[
    Annotated[str, Field(max_length=MAX_CORRECTED_CHARS)] | None, AfterValidator(_text_or_none)
]


class AnnotationCreate(WireModel):
    """What the caller says of one answer; an earlier annotation of the caller for it is replaced."""

    trace_id: Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
    judgement: AnswerJudgement
    score: Annotated[float | None, Field(allow_inf_nan=False)] = None
    corrected_answer: CorrectedText = None
    note: NoteText = None
    expected_is_wrong: bool = False


class AnnotationView(WireModel):
    """What a person or an API key says of one answer of a run."""

    id: str
    benchmark_id: str
    run_id: str
    trace_id: str
    item_id: str
    judgement: AnswerJudgement
    score: float | None
    corrected_answer: str | None
    note: str | None
    expected_is_wrong: bool
    annotator: str
    annotator_name: str | None = None
    created_at: datetime
    updated_at: datetime


class AnnotationFilter(ListFilter):
    """Filters of the list of annotations by exact value, and by a part of their texts."""

    benchmark_id: FilterValues = Field(default=[], validation_alias="benchmarkId")
    run_id: FilterValues = Field(default=[], validation_alias="runId")
    item_id: str | None = Field(default=None, validation_alias="itemId")
    trace_id: str | None = Field(
        default=None, validation_alias="traceId", description="Filter by trace."
    )
    annotator: str | None = Field(
        default=None, description="Filter by the ID of a person or an API key."
    )
    judgement: AnswerJudgement | None = Field(default=None, description="Filter by judgement.")
    expected_is_wrong: bool | None = Field(
        default=None,
        validation_alias="expectedIsWrong",
        description="`true`: only those that call the expected answer wrong.",
    )
    text: str | None = Field(
        default=None,
        max_length=200,
        description="Only annotations whose note or corrected answer contains this text, in any case.",
    )


class SummaryScope(ListFilter):
    """What annotations are summarized: those of a run, or those of a benchmark; exactly one of them."""

    benchmark_id: str | None = Field(default=None, validation_alias="benchmarkId")
    run_id: str | None = Field(default=None, validation_alias="runId")


class QueueFilter(ListFilter):
    """The answers of a queue. The same filter selects the same answers for everybody, but for `new`."""

    queue: QueueKind = Field(
        default=QueueKind.SAMPLE,
        description="`flipped`: items that fell or rose by half or more since the baseline, the worst fall first;"
        " `sample`: drawn by `name`; `judges`: right by `first` and wrong by `second`, or the reverse, the greatest"
        " difference first; `new`: not annotated by you before `since`.",
    )
    size: int = Field(default=20, ge=1, le=MAX_QUEUE, description="At most so many answers.")
    name: str = Field(
        default="",
        max_length=100,
        description="Name of the sample: everybody who writes the same name gets the same answers.",
    )
    first: str | None = Field(default=None, max_length=300, description="A metric of the run.")
    second: str | None = Field(default=None, max_length=300, description="Another one.")
    nights: int = Field(
        default=1,
        ge=1,
        le=MAX_NIGHTS,
        description="Of `sample` and `new`: the answers of the run and of the runs of its agent on its benchmark"
        " before it, so many in all.",
    )
    since: Instant | None = Field(
        default=None,
        description="What you annotated from then on stays in the queue `new`, so that its numbers do not move.",
    )


class QueuedAnswer(WireModel):
    """An answer of a queue, and what the caller says of it."""

    run_id: str
    trace_id: str
    item_id: str
    judgement: Annotated[
        AnswerJudgement | None, Field(description="Yours; null before you judged it.")
    ]


class AnnotationQueueView(WireModel):
    """A queue of answers to judge. `reason` says why it is empty."""

    items: list[QueuedAnswer]
    annotated: Annotated[int, Field(description="Answers of the queue that you judged.")]
    first: Annotated[str | None, Field(description="First metric of the queue `judges`.")] = None
    second: Annotated[str | None, Field(description="Its second metric.")] = None
    reason: str | None = None


class AnnotationCounts(WireModel):
    """Annotated answers by what all their annotators say; `disputed` are those on which they differ."""

    answers: Annotated[int, Field(description="Annotated answers.")] = 0
    right: Annotated[int, Field(description="Answers that are right.")] = 0
    partly: Annotated[int, Field(description="Answers that are partly right.")] = 0
    wrong: Annotated[int, Field(description="Answers that are wrong.")] = 0
    disputed: Annotated[int, Field(description="Answers on which annotators differ.")] = 0


class AnnotatorCounts(WireModel):
    """The annotations of one annotator."""

    annotator: str
    annotator_name: str | None
    right: Annotated[int, Field(description="Annotations that say right.")]
    partly: Annotated[int, Field(description="Annotations that say partly right.")]
    wrong: Annotated[int, Field(description="Annotations that say wrong.")]


class AgreementMeasure(WireModel):
    """A measure of agreement with its 95 % interval. `reason` says why a number is missing."""

    value: Annotated[float | None, Field(description="1 is full agreement, 0 that of chance.")]
    low: Annotated[float | None, Field(description="Lower end of the interval.")]
    high: Annotated[float | None, Field(description="Upper end of the interval.")]
    answers: Annotated[int, Field(description="Answers with two annotations or more.")]
    reason: str | None


class PairAgreement(WireModel):
    """Cohen's kappa of two annotators, over the answers that both judged."""

    first: Annotated[str, Field(description="ID of an annotator.")]
    second: Annotated[str, Field(description="ID of another one.")]
    first_name: Annotated[str | None, Field(description="Name of the first one.")] = None
    second_name: Annotated[str | None, Field(description="Name of the second one.")] = None
    equal: Annotated[int, Field(description="Answers on which both say the same.")]
    kappa: Annotated[AgreementMeasure, Field(description="Cohen's kappa.")]


class DisputedJudgement(WireModel):
    """What one annotator says of a disputed answer."""

    annotator: str
    annotator_name: str | None
    judgement: AnswerJudgement


class DisputedAnswer(WireModel):
    """An answer on which annotators differ."""

    run_id: str
    trace_id: str
    item_id: str
    judgements: Annotated[list[DisputedJudgement], Field(description="One per annotator.")]


class WrongExpectation(WireModel):
    """An item whose expected answer annotators call wrong."""

    item_id: str
    run_id: Annotated[str, Field(description="A run in which somebody said so.")]
    annotators: Annotated[int, Field(description="How many annotators say so.")]
    corrected_answer: Annotated[str | None, Field(description="The newest corrected answer.")]


class AnnotationSummary(WireModel):
    """What annotators say of a run or a benchmark, and how far they agree. With `isCut`, only the newest annotations were
    read.
    """

    counts: Annotated[AnnotationCounts, Field(description="Annotated answers by judgement.")]
    annotators: Annotated[list[AnnotatorCounts], Field(description="By name.")]
    alpha: Annotated[
        AgreementMeasure | None,
        Field(description="Krippendorff's alpha; null with fewer than two annotators."),
    ]
    pairs: Annotated[
        list[PairAgreement], Field(description="Those with the most common answers, at most ten.")
    ]
    disputed: Annotated[list[DisputedAnswer], Field(description="At most 200.")]
    wrong_expectations: Annotated[
        list[WrongExpectation], Field(description="Items with a wrong expected answer.")
    ]
    is_cut: bool


class JudgeMeasure(WireModel):
    """A measure of a judge against people with its 95 % interval. `reason` says why a number is missing."""

    value: float | None
    low: Annotated[float | None, Field(description="Lower end of the interval.")]
    high: Annotated[float | None, Field(description="Upper end of the interval.")]
    reason: str | None


class JudgeDriftView(WireModel):
    """How a judge scored answers again that are equal to the byte in two runs."""

    before_run_id: Annotated[str, Field(description="The last valid run before.")]
    run_id: Annotated[str, Field(description="The newest run.")]
    answers: Annotated[int, Field(description="Answers that are equal in both runs.")]
    changed: Annotated[int, Field(description="Those with another score.")]
    shift: Annotated[float, Field(description="Mean change of the score over all equal answers.")]
    low: Annotated[float | None, Field(description="Lower end of the 95 % interval of the shift.")]
    high: Annotated[float | None, Field(description="Its upper end.")]


class CorrectedMeanView(WireModel):
    """The mean over all items of the newest annotated run that people would give, from the scores of the judge and the
    annotations of that run alone. A KPI with `corrected` uses the annotations of all runs. `reason` says why there is none.
    """

    run_id: Annotated[str, Field(description="The newest annotated run.")]
    judge_mean: Annotated[
        float | None, Field(description="What the judge says, not corrected.")
    ] = None
    value: Annotated[float | None, Field(description="The corrected mean.")] = None
    low: Annotated[float | None, Field(description="Lower end of the 95 % interval.")] = None
    high: Annotated[float | None, Field(description="Upper end of the interval.")] = None
    alone_low: Annotated[
        float | None, Field(description="Lower end of the interval of the annotations alone.")
    ] = None
    alone_high: Annotated[float | None, Field(description="Its upper end.")] = None
    weight: Annotated[
        float,
        Field(
            description="Of the scores; 0: the judge does not help, and the annotations stand alone."
        ),
    ] = 0.0
    annotated: Annotated[int, Field(description="Annotated items.")]
    items: Annotated[int, Field(description="Items of the run.")]
    reason: str | None = None


class JudgeView(WireModel):
    """A judge (a model, or the scores of the source) against people. `reason` says why it cannot be compared."""

    metric: Annotated[str, Field(description="The metric that has its scores.")]
    runs: Annotated[int, Field(description="Runs with annotated answers.")] = 0
    answers: Annotated[int, Field(description="Annotated answers that the judge scored.")] = 0
    items: Annotated[int, Field(description="Their items.")] = 0
    too_kind: Annotated[int, Field(description="Right by the judge, wrong by people.")] = 0
    too_strict: Annotated[int, Field(description="Wrong by the judge, right by people.")] = 0
    share: Annotated[
        JudgeMeasure | None, Field(description="Share of the answers on which both say the same.")
    ] = None
    kappa: Annotated[JudgeMeasure | None, Field(description="Cohen's kappa.")] = None
    bias: Annotated[
        JudgeMeasure | None, Field(description="Mean of score less annotation; above 0: too kind.")
    ] = None
    correlation: Annotated[JudgeMeasure | None, Field(description="Pearson's correlation.")] = None
    drift: Annotated[
        JudgeDriftView | None, Field(description="Null without an equal answer in the run before.")
    ] = None
    corrected: Annotated[
        CorrectedMeanView | None, Field(description="Null without an annotated run.")
    ] = None
    is_below: Annotated[
        bool | None,
        Field(
            description="Whether the share is below `minAgreement`, or not known; null without one."
        ),
    ] = None
    reason: str | None = None
