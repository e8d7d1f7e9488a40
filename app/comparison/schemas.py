"""Two runs side by side, as the API answers and commands print it."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from app.core.schemas import Identifier, StoredText, WireModel


class ComparedRun(WireModel):
    """One side of a comparison."""

    id: str
    benchmark_id: str
    agent_id: str
    run_name: str | None
    created_at: datetime | None
    validity: str | None
    traces: int


class KpiComparison(WireModel):
    kpi_id: str
    name: str
    gate: bool
    verdict: dict[str, Any]


class MetricComparison(WireModel):
    """A metric, or what the agent spent on the items: latency, tokens, cost."""

    metric: str
    verdict: dict[str, Any]


class TraceLink(WireModel):
    """A trace of an item; `side` says in which of the two runs."""

    side: Literal["base", "candidate"]
    trace_id: str
    url: StoredText | None


class FlippedItem(WireModel):
    """An item that turned round: `base` and `candidate` are the means of its trials.

    `cause` is ENVIRONMENT where it fell for every agent of that night, AGENT where for this one
    alone, SOME_AGENTS between; null where no other agent measured it. `fellFor` are the others.
    """

    item_id: str
    base: float
    candidate: float
    change: float
    cause: str | None
    fell_for: list[str]
    traces: list[TraceLink]


class Flips(WireModel):
    """The items whose `metric` changed by at least half: how many to the worse and to the better,
    and the worst of them first.
    """

    metric: str
    fell: int
    rose: int
    items: list[FlippedItem]


class SharedFeature(WireModel):
    """What the items that fell have more often than the others: a tag, a tool, a way to end."""

    feature: str
    fell_with: int
    fell: int
    others_with: int
    others: int
    p: float
    p_adjusted: float


class OtherAgent(WireModel):
    """A run of another agent in the same night, and the one that it is held against."""

    agent_id: str
    run_id: str
    base_run_id: str


class DeadWeight(WireModel):
    """Items that came out the same in each of so many runs: they tell agents apart no longer."""

    runs: int
    always_pass: int
    always_fail: int
    always_pass_items: list[str]
    always_fail_items: list[str]


class Comparison(WireModel):
    """The candidate beside the base: `verdict` of the whole, then of each KPI and metric; `usage`
    are latency, tokens and cost as shares of the base's geometric mean. `flips` is null where no
    metric is a mean of items. Where the base is several runs, each item's mean over all of
    `baseRunIds` is what the candidate is held against, and `base` is the first of them.
    """

    base: ComparedRun
    base_run_ids: list[str]
    candidate: ComparedRun
    verdict: dict[str, Any]
    kpis: list[KpiComparison]
    metrics: list[MetricComparison]
    usage: list[MetricComparison]
    flips: Flips | None
    over_represented: list[SharedFeature]
    other_agents: list[OtherAgent]
    dead_weight: DeadWeight | None


class BaselinePin(WireModel):
    """The run that later ones are compared with."""

    run_id: Identifier


class PinnedView(WireModel):
    """The run that the runs of an agent are compared with."""

    agent_id: str
    run_id: str
    pinned_at: datetime


class BaselineView(WireModel):
    """What runs are compared with: a pinned run, else as `mode` says (`runs` of them for
    MEAN_OF_LAST).
    """

    mode: str
    runs: int
    pinned: list[PinnedView]


class PowerRequest(WireModel):
    """How much would be measured; what is left out is as in the newest valid run. `drop` is the one
    that should be seen.
    """

    agent_id: Identifier | None = None
    items: Annotated[int, Field(ge=2, le=1_000_000)] | None = None
    trials: Annotated[int, Field(ge=1, le=1_000)] | None = None
    drop: Annotated[float, Field(gt=0)] | None = None


class PowerView(WireModel):
    """What a KPI or metric could see with so many items and trials, in its own unit: a drop that is
    found in four runs of five. `trialsNeeded` is null when no number of trials shows the wanted
    drop, or none is wanted.
    """

    kind: str
    name: str
    basis: str | None
    items: int
    trials: int
    smallest_drop: float | None
    trials_needed: int | None
    items_needed: int | None
    explanation: str
