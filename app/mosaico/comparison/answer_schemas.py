"""The answers of a run, as the API returns them."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from mosaico.core.schemas import ListFilter, Page, StoredText, WireModel
from mosaico.traces.types import TraceOutcome

ShownAnswers: TypeAlias = Literal["all", "fell", "wrong", "rose"]


class AnswerFilter(ListFilter):
    """Filter of the items of a run by their answers."""

    show: ShownAnswers = Field(
        default="all",
        description="`fell` and `rose`: the mean over the trials changed by half or more of a share (of the value before,"
        " for any other metric); `wrong`: wrong now.",
    )
    failure: str | None = Field(
        default=None, max_length=300, description="Filter by what went wrong, one of `failures`."
    )
    tool: str | None = Field(
        default=None, max_length=300, description="Filter by a tool that the agent called."
    )
    tag: str | None = Field(
        default=None, max_length=600, description="Filter by a tag or an attribute, `name:value`."
    )
    text: str | None = Field(
        default=None,
        max_length=200,
        description="Filter by a part of the ID, the question, the expected answer, an answer or an error.",
    )


class AnswerSideView(WireModel):
    """The answers to an item in one run, and the text of its worst trial. `isRight` is about all trials, by the mean of
    their values; null where nothing says so.
    """

    trace_id: str
    trial: int
    outcome: TraceOutcome
    output: StoredText | None
    error: StoredText | None
    trials: Annotated[list[float | None], Field(description="Values of `metric`, trial by trial.")]
    value: float | None
    is_right: Annotated[
        bool | None, Field(description="Whether the answer is right by the metric.")
    ]


class RunAnswerView(WireModel):
    """An item of a run: the question, the expected answer, and the answers before and now. `change` is that of `metric`;
    null where a side has no value, or the item has another task now. `failures` are what went wrong now. Texts longer than
    2,000 characters are cut in their middle; a trace has the whole of them.
    """

    item_id: str
    input: StoredText | None
    expected_output: StoredText | None
    expected_any: list[StoredText]
    expected_all: list[StoredText]
    is_same_task: Annotated[
        bool, Field(description="Whether the item has the same task in both runs.")
    ]
    before: AnswerSideView | None
    now: AnswerSideView
    change: float | None
    failures: Annotated[list[str], Field(description="What went wrong now.")]
    tools: Annotated[list[str], Field(description="Tools that the agent called now.")]


class CountedName(WireModel):
    """How many items have something."""

    name: str
    items: int


class AnswerCounts(WireModel):
    """The items of the run, and those of each value of `show`; `wrong` is null where nothing says what is right."""

    all: Annotated[int, Field(description="Items of the run.")]
    fell: Annotated[int, Field(description="Items that fell by half or more.")]
    wrong: Annotated[int | None, Field(description="Items that are wrong now.")]
    rose: Annotated[int, Field(description="Items that rose by half or more.")]


class AnswerPage(Page[RunAnswerView]):
    """One page of the answers of a run beside those of its baseline. `metric` is the one of the KPI that decides, and
    `rule` says which of its values are right, or why none is. `failures` and `tools` count among the items of `show`.
    """

    baseline_run_id: Annotated[
        str | None, Field(description="The run before; null for a run without one.")
    ]
    metric: str | None
    rule: str
    counts: AnswerCounts
    failures: Annotated[list[CountedName], Field(description="What went wrong, by items.")]
    tools: Annotated[list[CountedName], Field(description="Tools that were called, by items.")]


class MetricDistribution(WireModel):
    """How many traces have a value between `edges[i]` and `edges[i + 1]`, before and now. The last bin has its upper edge,
    too.
    """

    metric: str
    unit: str
    edges: Annotated[list[float], Field(description="Ends of the bins, one more than bins.")]
    before: Annotated[
        list[int] | None, Field(description="Counts of the baseline; null without one.")
    ]
    now: Annotated[list[int], Field(description="Counts of the run.")]


class RunCostView(WireModel):
    """The quality of a run beside what its answers took: means over the traces that report it."""

    run_id: str
    quality: Annotated[float, Field(description="Value of the KPI that decides.")]
    cost_usd: float | None
    latency_ms: float | None
