"""Bodies of comparisons, baselines and power estimates on the wire."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import Field

from mosaico.benchmarks.config_types import BaselineMode
from mosaico.comparison.deciders import DecidedBy
from mosaico.core.edits import SERVICE_MOVES, EditBody
from mosaico.core.schemas import Identifier, Page, StoredText, WireModel
from mosaico.items.flipped import FlipCause
from mosaico.kpis.evaluate import PlannedKpi
from mosaico.kpis.verdict_types import RunVerdict, ValueVerdict
from mosaico.run_store.recorded_attributes import WhatChanged
from mosaico.run_store.rules import Validity
from mosaico.statistics.verdict_rules import About

PowerSubjectKind: TypeAlias = Literal["KPI", "METRIC"]


class VarianceBasis(StrEnum):
    """The source of a variance estimate.

    TWO_RUNS: the changes of items between two runs. TRIALS_OF_ONE_RUN: the trials of one run.
    ITEMS_OF_ONE_RUN: the items of one run, which differ more than they will change.
    """

    TWO_RUNS = "TWO_RUNS"
    TRIALS_OF_ONE_RUN = "TRIALS_OF_ONE_RUN"
    ITEMS_OF_ONE_RUN = "ITEMS_OF_ONE_RUN"


class ComparedRun(WireModel):
    """One run of a comparison."""

    id: str
    benchmark_id: str
    agent_id: str
    run_name: str | None
    created_at: datetime | None
    validity: Validity | None
    traces: int


class KpiComparison(WireModel):
    """The verdict of one KPI."""

    kpi_id: str
    name: str
    gate: bool
    verdict: ValueVerdict

    @classmethod
    def of(cls, kpi: PlannedKpi, verdict: ValueVerdict) -> Self:
        return cls(kpi_id=kpi.id, name=kpi.name, gate=kpi.gate, verdict=verdict)


class MetricComparison(WireModel):
    """The verdict of one metric, or of a usage figure: latency, tokens or cost.

    `sameAs` is an earlier metric with the same value on each item: both are one test.
    """

    metric: str
    verdict: ValueVerdict
    same_as: str | None = None


class CategoryMetric(WireModel):
    """The value of one metric over the items of a category; null without a value. `reason` is the error
    of a value or an interval that could not be computed.
    """

    metric: str
    value: float | None
    interval_low: float | None
    interval_high: float | None
    reason: StoredText | None = None

    @classmethod
    def lost(cls, column: str) -> Self:
        """A metric that is no longer installed."""
        return cls(
            metric=column,
            value=None,
            interval_low=None,
            interval_high=None,
            reason="it is no longer installed; install its plugin again",
        )


class CategoryKpi(WireModel):
    """The value of one KPI over the items of a category; null when it is undefined there. `reason` is the
    error of a value or an interval that could not be computed.
    """

    kpi_id: str
    name: str
    value: float | None
    interval_low: float | None
    interval_high: float | None
    reason: StoredText | None = None


class CategoryValues(WireModel):
    """The metrics and KPIs of a run over the `items` of one category, with 95 % intervals."""

    category: str
    items: int
    metrics: list[CategoryMetric]
    kpis: list[CategoryKpi]


class CategoryPage(Page[CategoryValues]):
    """One page of the `total` categories of a run, in alphabetical order."""

    total: int = Field(description="Number of categories of the run.")


class CategoryComparison(WireModel):
    """The verdicts over the `items` of one category; p-values are adjusted for the categories that are compared
    together, at most 50.
    """

    category: str
    items: int
    kpis: list[KpiComparison]
    metrics: list[MetricComparison]


class TraceLink(WireModel):
    """A trace of an item; `side` names its run."""

    side: Literal["baseline", "candidate"]
    trace_id: str
    url: StoredText | None


class FlippedItem(WireModel):
    """An item whose value changed by at least half; values are means over the trials.

    `cause` of a regression is ENVIRONMENT when the item fell for every other agent as well, AGENT
    when it fell for this agent alone, SOME_AGENTS otherwise; it is null when no other agent ran the
    item. `agents` are the other agents for which it fell.
    """

    item_id: str
    baseline: float
    candidate: float
    change: float
    cause: FlipCause | None
    agents: list[str]
    traces: list[TraceLink]


class FlippedItems(WireModel):
    """The items whose `metric` changed by at least half: the number of regressions and improvements,
    and the items, worst regression first.
    """

    metric: str
    regressions: int
    improvements: int
    items: list[FlippedItem]


class ItemMetricChange(WireModel):
    """The mean of a metric over the trials of an item in both runs; null without a value."""

    metric: str
    baseline: float | None
    candidate: float | None
    change: float | None


class ComparedItemView(WireModel):
    """An item that both runs have, with the change of one metric and of every other.

    `baselineTrials` and `candidateTrials` are the values of `metric` in the order of the trials;
    the means and the change are over them. `isSameTask` is false when the expected output or the
    checks of the item changed between the runs: then its change has no meaning. `errors` are the
    failed tools and outcomes of the candidate.
    """

    item_id: str
    input: str | None
    is_same_task: bool
    metric: str
    baseline_trials: list[float | None]
    candidate_trials: list[float | None]
    baseline: float | None
    candidate: float | None
    change: float | None
    errors: list[str]
    metrics: list[ItemMetricChange]


class EnrichedFeature(WireModel):
    """A tag, tool or outcome that is more frequent among the items that regressed.

    `count` of the `total` regressed items have it, and `baselineCount` of the `baselineTotal` other
    items. `p` is Fisher's exact test, `pAdjusted` is adjusted by Benjamini and Hochberg.
    """

    feature: str
    count: int
    total: int
    baseline_count: int
    baseline_total: int
    p: float
    p_adjusted: float


class PeerRun(WireModel):
    """A run of another agent at about the same time, and the run it is compared with."""

    agent_id: str
    run_id: str
    baseline_run_id: str


class ConstantItems(WireModel):
    """Items with the same result in each of the `runs`: they do not distinguish agents."""

    runs: int
    always_pass: int
    always_fail: int
    always_pass_items: list[str]
    always_fail_items: list[str]


class Comparison(WireModel):
    """A comparison of a candidate run with a baseline run of the same benchmark.

    `usage` compares latency, tokens and cost as relative changes.
    `judged` are the KPIs and metrics that decide and are judged together, and `decidedBy` is the reason: NAMED by the
    request, the KPIs of the gate, otherwise all KPIs, scores and pass or fail of the SOURCE, the metric that fits
    expected LABELS or TEXTS, OTHER metrics, or UNDIRECTED scores; NOTHING when nothing measures quality. `guard` is the
    metric of failed answers, which is judged together with them and counts only if it regressed.
    `flippedItems` is null when no metric is a mean over items. With several `baselineRunIds` the
    candidate is compared with each item's mean over these runs; `baseline` is the first of them.
    `categories` are the tags `category:…` of the items; empty when there are fewer than two.
    """

    baseline: ComparedRun
    baseline_run_ids: list[str]
    candidate: ComparedRun
    verdict: RunVerdict
    kpis: list[KpiComparison]
    metrics: list[MetricComparison]
    usage: list[MetricComparison]
    judged: list[str]
    decided_by: DecidedBy
    guard: str | None
    flipped_items: FlippedItems | None
    enriched_features: list[EnrichedFeature]
    what_changed: Annotated[
        WhatChanged,
        Field(
            description="The differences between the traces of the runs, and what of the drop they cover."
        ),
    ] = WhatChanged()
    peers: list[PeerRun]
    constant_items: ConstantItems | None
    categories: list[CategoryComparison]
    categories_left_out: Annotated[
        int,
        Field(
            description="Number of categories after these 50, which are not compared; send `lastCategory` as"
            " `categoriesAfter` to compare them."
        ),
    ]
    last_category: str | None = Field(
        description="The last of these categories by name, if others follow; otherwise null."
    )


class PinnedView(WireModel):
    """The pinned baseline run of an agent."""

    agent_id: str
    run_id: str
    pinned_at: Annotated[datetime, SERVICE_MOVES]


class BaselinePin(EditBody):
    """The run to pin as baseline."""

    shown_as: ClassVar = PinnedView

    run_id: Identifier = Field(
        description="ID of the run; `latest` is the newest run of the benchmark that can be a baseline."
    )


class BaselineView(WireModel):
    """The baselines of a benchmark: the pinned run of an agent, otherwise the runs that `mode`
    selects (`runs` of them for MEAN_OF_LAST). `pinned` has those of the first 1,000 agents by ID.
    """

    mode: BaselineMode
    runs: int
    pinned: list[PinnedView]


class PowerRequest(WireModel):
    """The size of a planned benchmark; omitted fields are taken from the newest valid run. `drop` is
    the drop to detect, in the unit of the KPI.
    """

    agent_id: Identifier | None = None
    items: Annotated[int, Field(ge=2, le=1_000_000)] | None = None
    trials: Annotated[int, Field(ge=1, le=1_000)] | None = None
    drop: Annotated[float, Field(gt=0)] | None = None


class PowerView(WireModel):
    """The drop of a KPI or metric that so many items and trials detect with 80 % power, in its unit.

    `trialsNeeded` is null when no number of trials detects the requested drop, or no drop was
    requested. `about` is the question that decides with these trials, and `minDetectableTasks` the number of tasks that
    have to break (from always to never) to be found, where that question is about these tasks. All numbers include how
    much whole runs vary.
    """

    kind: PowerSubjectKind
    name: str
    basis: VarianceBasis | None
    items: int
    trials: int
    about: About | None
    min_detectable_effect: float | None
    min_detectable_tasks: int | None
    trials_needed: int | None
    items_needed: int | None
    explanation: str
