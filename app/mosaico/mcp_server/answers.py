"""What the tools answer: typed, and as text. Every text of others is in its envelope."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from mosaico.core.schemas import WireModel
from mosaico.core.text import format_number

_LINE_CHARS: Final = 160

Enclosed = Annotated[str, Field(description="A text of others, in its envelope.")]


class ToolAnswer(WireModel):
    """The answer of a tool. `notices` say what is left out, guessed or unknown, and what to do."""

    summary: str
    page: Annotated[str | None, Field(description="Page with everything, for people.")] = None
    notices: Sequence[str] = ()


class ChangedValue(WireModel):
    """A KPI or metric beside its baseline; `low` to `high` is the interval of the change.

    Of the scale RATIO, `change`, `low` and `high` are fractions of the value before.
    """

    name: Enclosed
    verdict: str | None = None
    gate: bool | None = None
    before: float | None = None
    after: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    scale: str | None = None
    unit: Enclosed | None = None


class RunLine(WireModel):
    """A run in one line."""

    run: str
    name: Enclosed | None = None
    agent: str
    benchmark: str
    status: str
    verdict: str | None = None
    created_at: str
    page: str


class WorseChange(WireModel):
    """A change for the worse of an agent on a benchmark; pass `run` to the tool `why`."""

    outcome: str
    group: Annotated[str, Field(description="NEW began in the period, ONGOING before it.")]
    agent: Enclosed
    agent_id: str
    benchmark: Enclosed
    benchmark_id: str
    run: str
    since: str
    runs: int
    kpi: ChangedValue | None = None
    what_changed: Sequence[Enclosed] = ()
    explanation: Enclosed
    page: str


class WhatGotWorse(ToolAnswer):
    """The changes that nobody judged and that go on, the worst first."""

    changes: Sequence[WorseChange]


class Difference(WireModel):
    """A difference between a run and its baseline, and whether it goes with the drop."""

    difference: Enclosed
    items: str
    proof: str


class FallenItemAnswers(WireModel):
    """An item that fell, with its answers before and now. Pass `trace` to the tool `show_trace`."""

    item: Enclosed
    trace: Enclosed
    question: Enclosed | None = None
    expected: Sequence[Enclosed] = ()
    before: Enclosed | None = None
    now: Enclosed | None = None
    error: Enclosed | None = None
    went_wrong: Sequence[Enclosed] = ()
    change: float | None = None
    page: str


class CountedText(WireModel):
    """How many items or answers have something."""

    text: Enclosed
    count: int


class Why(ToolAnswer):
    """Why a run got its verdict: what decides, what changed, and the worst items."""

    run: RunLine
    baseline_run: str | None = None
    comparison_page: str | None = None
    explanation: Enclosed | None = None
    decides: Sequence[ChangedValue] = ()
    what_changed: Sequence[Difference] = ()
    went_wrong: Sequence[CountedText] = ()
    errors: Sequence[CountedText] = ()
    items: Sequence[FallenItemAnswers] = ()
    people_say: Sequence[Enclosed] = ()


class FlippedLine(WireModel):
    """An item that changed by half or more."""

    item: Enclosed
    before: float
    after: float
    cause: str | None = None
    page: str | None = None


class RunComparisonAnswer(ToolAnswer):
    """Two runs beside each other."""

    verdict: str
    baseline_run: str
    candidate_run: str
    explanation: Enclosed
    decides: Sequence[ChangedValue]
    usage: Sequence[ChangedValue]
    what_changed: Sequence[Difference]
    more_frequent_in_fallen_items: Sequence[Enclosed]
    fell: int
    rose: int
    items: Sequence[FlippedLine]


class ToolUse(WireModel):
    """A tool call of the agent under test; `ok` is missing where the source does not say."""

    tool: Enclosed
    ok: bool | None = None
    arguments: Enclosed | None = None
    output: Enclosed | None = None
    ms: float | None = None


class NamedNumber(WireModel):
    """A metric of a trace; no value is missing, never zero."""

    name: Enclosed
    value: float | None = None


class ShownTrace(ToolAnswer):
    """A trace of an item: the question, the answer, its values, and the tools that the agent called."""

    run: str
    item: Enclosed
    trial: int
    trace: Enclosed
    outcome: str
    is_right: bool | None = None
    question: Enclosed | None = None
    expected: Sequence[Enclosed] = ()
    answer: Enclosed | None = None
    error: Enclosed | None = None
    values: Sequence[NamedNumber] = ()
    judge_says: Sequence[Enclosed] = ()
    tools: Sequence[ToolUse] = ()
    tags: Sequence[Enclosed] = ()
    latency_ms: float | None = None
    cost_usd: float | None = None


class TrendAnswerPoint(WireModel):
    """The value of a KPI in a run."""

    at: str
    agent: str
    value: float | None = None
    verdict: str | None = None
    validity: str
    run: str


class TrendAnswer(ToolAnswer):
    """The values of a KPI, newest first."""

    kpi: Enclosed
    unit: Enclosed | None = None
    direction: str | None = None
    points: Sequence[TrendAnswerPoint]


class NamedResource(WireModel):
    """An agent or a benchmark."""

    id: str
    name: Enclosed
    kpis: Sequence[Enclosed] = ()
    page: str


class Listing(ToolAnswer):
    """Agents, benchmarks or runs."""

    agents: Sequence[NamedResource] = ()
    benchmarks: Sequence[NamedResource] = ()
    runs: Sequence[RunLine] = ()


class FileGate(ToolAnswer):
    """The outcome of a gate of two files, as `mosaico gate` has it."""

    outcome: str
    passed: bool
    exit_code: int
    checks: Sequence[ChangedValue]
    sentences: Sequence[Enclosed]
    remarks: Sequence[Enclosed]


class StartedRun(ToolAnswer):
    """A run that was started and goes on in the background."""

    run: RunLine


def document_of(answer: ToolAnswer) -> dict[str, Any]:
    """The answer as JSON, without what is missing."""
    document: dict[str, Any] = answer.model_dump(mode="json", exclude_none=True)
    return document


def text_of(answer: ToolAnswer) -> str:
    """The answer as text: the same as `document_of`, a field or an element of a list per line."""
    return "\n".join(_lines(document_of(answer)))


def _lines(document: dict[str, Any]) -> Iterator[str]:
    for name, value in document.items():
        match value:
            case list():
                yield from [f"{name}:"] if value else []
                for element in value:
                    yield from _element_lines(element)
            case dict():
                yield f"{name}:"
                yield from (f"  {line}" for line in _lines(value))
            case _:
                yield f"{name}: {_scalar(value)}"


def _element_lines(element: Any) -> Iterator[str]:
    if not isinstance(element, dict):
        yield f"- {_scalar(element)}"
        return
    lines = list(_lines(element))
    in_one = "; ".join(lines)
    is_flat = not any(isinstance(value, list | dict) for value in element.values())
    first, *rest = [in_one] if is_flat and len(in_one) <= _LINE_CHARS else lines
    yield f"- {first}"
    yield from (f"  {line}" for line in rest)


def _scalar(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return format_number(value)
        case _:
            return str(value)
