"""Verdicts as they are stored, sent over HTTP and read by gates, alerts and reports.

The columns `kpi_history.verdict` and `run_metrics.verdict` hold a `ValueVerdict`, the column
`benchmark_runs.verdict` holds a `RunVerdict`. Both carry a `version` of their layout.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Literal, NamedTuple, TypeAlias

from pydantic import Field

from mosaico.core.schemas import StoredText, WireModel
from mosaico.kpis.judge_types import PeopleAgreement
from mosaico.statistics.intervals import Interval
from mosaico.statistics.verdict_rules import (
    About,
    ChangeMethod,
    RunsBasis,
    Scale,
    Side,
    Verdict,
    VerdictNote,
)


class RepeatedTrials(WireModel):
    """pass@k statistics of a pass-or-fail metric, over the `items` with at least k trials.

    `passAtK` is the probability that one of k trials passes, `passHatK` the probability that all k
    trials pass, and `atLeastK` the share of items that passed at least k times.
    """

    k: int
    items: int
    pass_at_k: float
    pass_hat_k: float
    at_least_k: float


class QuestionAnswer(WireModel):
    """The answer to one question about a change, not adjusted for what is judged together.

    TASKS: did exactly these tasks change? POPULATION: would other tasks of this kind change? `minDetectableTasks` is
    the number of tasks that have to break (from always to never) to be found in four of five runs.
    """

    about: About
    low: float | None = None
    high: float | None = None
    p: float | None = None
    min_detectable_effect: float | None = None
    min_detectable_tasks: int | None = None


class ChangedTasks(WireModel):
    """The tasks, of `tasks`, that changed by themselves, of passes and failures: `fell` from always passing to never, in
    several trials in both runs; `rose` the reverse; and those of which their own trials prove a change, at 0.5 % over all
    tasks, which decide the verdict, too. `names` are the first 20 that fell, or rose where a rise is harm; `beyondChanceNames` the first 20 of those.
    """

    tasks: int
    fell: int
    rose: int
    beyond_chance: int
    names: tuple[StoredText, ...] = ()
    beyond_chance_names: tuple[StoredText, ...] = ()


class WholeRunVariation(WireModel):
    """How much whole runs of an unchanged agent vary beyond their items, which the verdict takes into account.

    `sd` is a standard deviation in the unit of the effect. ASSUMED: nothing tells it, or `runs`
    earlier runs are too few to show that they vary less. GIVEN: a user stated it. MEASURED: from `runs` earlier runs,
    together with the assumption, which counts as one run.
    """

    sd: float
    basis: RunsBasis
    runs: int = 0


class JudgedAnswers(WireModel):
    """Of how many `answers` that are equal in both runs, byte for byte, with their tool calls, the scores `changed`, and
    their mean change `shift` in the unit of the effect: what the judge did, not the agent. `counts`: the shift is a part
    of the error. It is not for passes and failures of the source, which may check more than the answer.
    """

    answers: Annotated[int, Field(description="Answers that are equal in both runs.")]
    changed: Annotated[int, Field(description="Equal answers whose score changed.")]
    shift: Annotated[float, Field(description="Mean change of the scores of all equal answers.")]
    counts: Annotated[bool, Field(description="Whether the shift is a part of the error.")] = True


class ValueVerdict(WireModel):
    """The comparison of one KPI or metric with its baseline.

    `effect` is the candidate's value minus the baseline's, over the `items` of both runs, with its
    95 % interval `low` to `high`; on the scale RATIO it is the relative change. From a baseline of 0 the
    scale is never RATIO. `pAdjusted`,
    `lowAdjusted` and `highAdjusted` are adjusted for the KPIs or metrics that are judged together,
    and the verdict follows from them. `minDetectableEffect` is the smallest change that is detected
    with 80 % power. `minEffect` is the smallest change that counts and `margin` the largest that
    does not, in the unit of the effect. All these numbers answer the question `about`; `answers` are those to every
    question that the data allow. `changedTasks` is null where no task changed by itself.

    A KPI or metric that was not compared has a `reason` and no numbers; `hasValue` is false when the
    candidate run has no value. `verdict` is null unless the comparison itself is invalid.
    """

    version: Literal[1] = 1
    verdict: Verdict | None = None
    reason: StoredText | None = None
    explanation: StoredText
    remedy: Annotated[
        StoredText | None,
        Field(description="How to say which way is better, for a value that CHANGED."),
    ] = None
    has_value: bool = True
    baseline_value: float | None = None
    value: float | None = None
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    low_adjusted: float | None = None
    high_adjusted: float | None = None
    p: float | None = None
    p_adjusted: float | None = None
    min_detectable_effect: float | None = None
    min_effect: float | None = None
    margin: float | None = None
    scale: Scale | None = None
    unit: Annotated[str | None, Field(description="Unit of the values.")] = None
    side: Side | None = None
    items: int | None = None
    trials: float | None = None
    more_trials: Annotated[
        int | None, Field(description="Trials per item to add for a conclusive verdict.")
    ] = None
    items_needed: Annotated[
        int | None,
        Field(
            description=(
                "Number of items required to detect any change, if the items of the run cannot "
                "detect one."
            )
        ),
    ] = None
    clusters: int | None = None
    about: About | None = None
    answers: Annotated[
        tuple[QuestionAnswer, ...],
        Field(description="Answers to each question that the data allow."),
    ] = ()
    min_detectable_tasks: int | None = None
    changed_tasks: ChangedTasks | None = None
    whole_runs: WholeRunVariation | None = None
    judged_answers: Annotated[
        JudgedAnswers | None,
        Field(description="What the scores did on equal answers; null without any."),
    ] = None
    compares_scores: Annotated[
        bool,
        Field(
            description="Whether the numbers are those of the judge alone, because annotations correct the value of the KPI."
        ),
    ] = False
    weak_judges: Annotated[
        tuple[PeopleAgreement, ...],
        Field(
            description="Its judges that agree with people less than the benchmark requires. They change no verdict."
        ),
    ] = ()
    method: ChangeMethod | None = None
    gate: bool = False
    notes: tuple[VerdictNote, ...] = ()
    repeats: tuple[RepeatedTrials, ...] = ()
    threshold_probability: Annotated[
        float | None, Field(description="Probability that the KPI reaches its lower threshold.")
    ] = None
    warnings: Annotated[
        tuple[str, ...],
        Field(description="Reason why the value may jump without a change of the agent."),
    ] = ()
    same_as: Annotated[
        str | None,
        Field(
            description="An earlier metric with the same value on each item of both runs: both are one test."
        ),
    ] = None


class BaselineSelection(StrEnum):
    """The reason why runs are the baseline. PINNED: a user pinned the run. PREVIOUS_VALID,
    MEAN_OF_LAST: the mode of the benchmark. CHOSEN: the request named the runs.
    """

    PINNED = "PINNED"
    PREVIOUS_VALID = "PREVIOUS_VALID"
    MEAN_OF_LAST = "MEAN_OF_LAST"
    CHOSEN = "CHOSEN"


class BaselineRuns(WireModel):
    """The baseline runs, newest first; `mode` is the reason for their selection."""

    mode: BaselineSelection
    run_ids: tuple[str, ...]


class ComparedItems(WireModel):
    """Item counts of a comparison.

    `compared` items are in both runs with the same task. `revised` items have another task or
    expected output in the candidate. `leftOut` items exceed the limit of compared items.
    `areSamples`: each run has a sample of production traces, and no item is in both.
    """

    compared: int
    only_baseline: int
    only_candidate: int
    revised: int
    left_out: int
    are_samples: bool = False


class FallenSlice(WireModel):
    """The only slice of the items, by a tag or an attribute, that fell by `metric`: the mean change of its `items`, and
    that of the others, which did not fall. `pAdjusted` is adjusted for all `slices` that were tested.
    """

    tag: Annotated[StoredText, Field(description="Tag or attribute, `name:value`.")]
    metric: StoredText
    items: int
    change: float
    other_items: Annotated[int, Field(description="Number of the other items.")]
    other_change: Annotated[float, Field(description="Mean change of the other items.")]
    p_adjusted: float
    slices: Annotated[int, Field(description="Number of slices that were tested.")]


class RunVerdict(WireModel):
    """The comparison of a run with its baseline.

    `counts` is the number of KPIs (of the metrics that decide, when the run has no KPI) per verdict, `differences`
    lists what differs between the two runs, and `conditions` the differences that affect all values.
    `measuredDifferently` says by which ruler the run is the first one to be measured, also where its baseline was
    measured again by the same. `sameAnswers` says so when the run has the data of
    an earlier one.
    """

    version: Literal[1] = 1
    verdict: Verdict | None = None
    reason: StoredText | None = None
    explanation: StoredText
    baseline: BaselineRuns | None = None
    items: ComparedItems | None = None
    counts: Mapping[str, int] = Field(default_factory=dict)
    differences: tuple[StoredText, ...] = ()
    conditions: tuple[StoredText, ...] = ()
    measured_differently: tuple[StoredText, ...] = ()
    same_answers: Annotated[
        StoredText | None,
        Field(description="Of which day the answers are; null for a run with new data."),
    ] = None
    fallen_slice: Annotated[
        FallenSlice | None, Field(description="The only slice that fell; null without one.")
    ] = None
    incomplete: Annotated[
        tuple[StoredText, ...],
        Field(
            description="Metrics that the run has values of for too few of the items of its baseline."
        ),
    ] = ()
    weak_judges: Annotated[
        tuple[PeopleAgreement, ...],
        Field(
            description="Judges that decide and agree with people less than the benchmark requires."
        ),
    ] = ()


# A metric as (column, None), a KPI as (None, ID).
SubjectKey: TypeAlias = tuple[str | None, str | None]


class ValueFailure(NamedTuple):
    """The unexpected error of one metric or KPI; `details` is its traceback, for the log."""

    error: str
    details: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdicts:
    """All verdicts of a run: metrics by column, KPIs by ID, and their 95 % intervals. Those with
    `failures` have no verdict.
    """

    run: RunVerdict
    metrics: Mapping[str, ValueVerdict]
    kpis: Mapping[str, ValueVerdict]
    metric_intervals: Mapping[str, Interval] = field(default_factory=dict)
    kpi_intervals: Mapping[str, Interval] = field(default_factory=dict)
    failures: Mapping[SubjectKey, ValueFailure] = field(default_factory=dict)
