"""What an agent spent on a trace: tokens, money, calls of tools; never what its judges spent."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from app.traces.sources.langfuse.payload import number_of, object_of, tags_of, text_of, time_of
from app.traces.types import ToolCall

MODEL_TYPES: Final = ("GENERATION", "EMBEDDING")
CALL_TYPES: Final = (*MODEL_TYPES, "TOOL")
JUDGE_TYPE: Final = "EVALUATOR"
JUDGE_SPAN: Final = "experiment-item-evaluation"
TASK_SPAN: Final = "experiment-item-task"


class Span(NamedTuple):
    """An observation without its texts; times in milliseconds since 1970."""

    id: str
    trace_id: str
    parent_id: str | None
    type: str
    name: str
    start: int
    end: int | None
    failed: bool
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The span of the agent's own work in a trace."""

    id: str
    trace_id: str
    start: int
    end: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """None where nobody told: a sum with an unknown part is unknown."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    turns: int | None = None
    tags: tuple[str, ...] = ()


def span_of(row: Mapping[str, Any]) -> Span | None:
    """The span that an observation of either API describes; None without an id and a start."""
    span_id, trace_id, start = (
        text_of(row, "id"),
        text_of(row, "traceId"),
        time_of(row, "startTime"),
    )
    if span_id is None or trace_id is None or start is None:
        return None
    usage = _Usage.of(object_of(row, "usageDetails"))
    return Span(
        id=span_id,
        trace_id=trace_id,
        parent_id=text_of(row, "parentObservationId"),
        type=text_of(row, "type") or "SPAN",
        name=text_of(row, "name") or "",
        start=start,
        end=time_of(row, "endTime"),
        failed=row.get("level") == "ERROR",
        input_tokens=usage.input,
        output_tokens=usage.output,
        cost_usd=_cost(row),
        tags=tags_of(row.get("tags")),
    )


def below(task: Task, spans: Iterable[Span]) -> list[Span]:
    """The spans under the task, none of which is a judge's, each once, in the order of time.

    All ancestors must be among `spans`.
    """
    known = {span.id: span for span in spans}
    inside = [span for span in known.values() if _is_below(task, span, known)]
    return sorted(inside, key=lambda span: (span.start, span.id))


class Sorted(NamedTuple):
    """Calls of the agent, and those of which more spans must be known to tell."""

    own: list[Span]
    unclear: list[Span]


def sort_calls(task: Task, calls: Iterable[Span]) -> Sorted:
    """Which calls are the agent's, when the spans between them and the task are not known.

    A call whose parents lead to the task is the agent's. Of the others the time tells: an
    evaluation begins after the task has ended. At that very millisecond, and when the task has no
    end, it does not tell.
    """
    known = {call.id: call for call in calls}
    own, unclear = [], []
    for call in known.values():
        if _is_below(task, call, known):
            own.append(call)
        elif _topmost(call, known).parent_id is not None and call.start >= task.start:
            if task.end is None or call.start == task.end:
                unclear.append(call)
            elif call.start < task.end:
                own.append(call)
    return Sorted(sorted(own, key=lambda call: (call.start, call.id)), unclear)


def spending_of(calls: Sequence[Span]) -> Spending:
    """The sums over the calls of one agent in one trace; nothing is known without any call."""
    models = [call for call in calls if call.type in MODEL_TYPES]
    tools = [call for call in calls if call.type == "TOOL"]
    return Spending(
        input_tokens=_sum([_spent(call, call.input_tokens) for call in models]),
        output_tokens=_sum([_spent(call, call.output_tokens) for call in models]),
        cost_usd=_sum([_spent(call, call.cost_usd) for call in models]),
        tool_calls=tuple(map(_tool_call, tools)) if calls else None,
        turns=sum(call.type == "GENERATION" for call in models) if calls else None,
        tags=next((call.tags for call in calls if call.tags), ()),
    )


def _is_below(task: Task, span: Span, known: Mapping[str, Span]) -> bool:
    seen = set[str]()
    at: Span | None = span
    while at is not None and at.id not in seen and at.id != task.id:
        if at.type == JUDGE_TYPE or at.name == JUDGE_SPAN:
            return False
        if at.parent_id == task.id:
            return True
        seen.add(at.id)
        at = known.get(at.parent_id or "")
    return False


def _topmost(span: Span, known: Mapping[str, Span]) -> Span:
    seen = {span.id}
    while (above := known.get(span.parent_id or "")) is not None and above.id not in seen:
        seen.add(above.id)
        span = above
    return span


def _spent(call: Span, amount: float | None) -> float | None:
    """A call that failed without telling its usage used nothing."""
    return 0 if amount is None and call.failed else amount


def _sum(amounts: Sequence[float | None]) -> Any:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known and len(known) == len(amounts) else None


def _tool_call(call: Span) -> ToolCall:
    latency = None if call.end is None else float(call.end - call.start)
    return ToolCall(name=call.name, ok=not call.failed, latency_ms=latency)


class _Usage(NamedTuple):
    input: int | None
    output: int | None

    @classmethod
    def of(cls, details: Mapping[str, Any]) -> "_Usage":
        """Tokens by the words in their keys; a total stands in for the side that is not told, and
        tells whether finer figures, such as of cached tokens, are parts of the plain ones.
        """
        amounts = {
            name.lower(): int(amount)
            for name, value in details.items()
            if (amount := number_of(value)) is not None and amount >= 0
        }
        read = _named(amounts, "input", "prompt")
        written = _named(amounts, "output", "completion")
        total = amounts.get("total")
        if total is not None and total < (read or 0) + (written or 0):
            read, written = amounts.get("input", read), amounts.get("output", written)
        if total is not None:
            if read is None:
                read = max(total - (written or 0), 0)
            if written is None:
                written = max(total - read, 0)
        return cls(read, written)


def _named(amounts: Mapping[str, int], *words: str) -> int | None:
    found = [amount for name, amount in amounts.items() if any(word in name for word in words)]
    return sum(found) if found else None


def _cost(row: Mapping[str, Any]) -> float | None:
    """The price of a call in USD; 0 without details means that no price is known."""
    details = object_of(row, "costDetails")
    total = number_of(row.get("totalCost"))
    if total is None:
        total = number_of(row.get("calculatedTotalCost"))
    if not details:
        return total if total is not None and total > 0 else None
    if total is None:
        amounts = [number_of(value) for name, value in details.items() if name != "total"]
        total = number_of(details.get("total"))
        total = sum(filter(None, amounts)) if total is None else total
    return total if total >= 0 else None
