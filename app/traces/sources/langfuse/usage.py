"""What an agent spent on a trace: tokens, money, calls of tools; never what its judges spent."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from app.traces.sources.langfuse.payload import (
    first_tags,
    get_object,
    get_text,
    get_time_ms,
    parse_number,
)
from app.traces.types import ToolCall

MODEL_TYPES: Final = ("GENERATION", "EMBEDDING")
CALL_TYPES: Final = (*MODEL_TYPES, "TOOL")
JUDGE_TYPE: Final = "EVALUATOR"
JUDGE_SPAN_NAME: Final = "experiment-item-evaluation"
TASK_SPAN_NAME: Final = "experiment-item-task"


class ObservedSpan(NamedTuple):
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
class TaskSpan:
    """The span of the agent's own work in a trace."""

    id: str
    trace_id: str
    start: int
    end: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentUsage:
    """None where nobody told: a sum with an unknown part is unknown."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    turns: int | None = None
    tags: tuple[str, ...] = ()


def parse_span(row: Mapping[str, Any]) -> ObservedSpan | None:
    """The span that an observation of either API describes; None without an id and a start."""
    span_id, trace_id, start = (
        get_text(row, "id"),
        get_text(row, "traceId"),
        get_time_ms(row, "startTime"),
    )
    if span_id is None or trace_id is None or start is None:
        return None
    usage = _TokenUsage.parse(get_object(row, "usageDetails"))
    return ObservedSpan(
        id=span_id,
        trace_id=trace_id,
        parent_id=get_text(row, "parentObservationId"),
        type=get_text(row, "type") or "SPAN",
        name=get_text(row, "name") or "",
        start=start,
        end=get_time_ms(row, "endTime"),
        failed=row.get("level") == "ERROR",
        input_tokens=usage.input,
        output_tokens=usage.output,
        cost_usd=_parse_cost(row),
        tags=first_tags(row.get("tags")),
    )


def select_descendants(task: TaskSpan, spans: Iterable[ObservedSpan]) -> list[ObservedSpan]:
    """The spans under the task, none of which is a judge's, each once, in the order of time.

    All ancestors must be among `spans`.
    """
    known = {span.id: span for span in spans}
    inside = [span for span in known.values() if _is_agent_descendant(task, span, known)]
    return sorted(inside, key=lambda span: (span.start, span.id))


class CallSplit(NamedTuple):
    """Calls of the agent, and those of which more spans must be known to tell."""

    own: list[ObservedSpan]
    ambiguous: list[ObservedSpan]


def split_calls(task: TaskSpan, calls: Iterable[ObservedSpan]) -> CallSplit:
    """Which calls are the agent's, when the spans between them and the task are not known.

    A call whose parents lead to the task is the agent's. Of the others the time tells: an
    evaluation begins after the task has ended. At that very millisecond, and when the task has no
    end, it does not tell.
    """
    known = {call.id: call for call in calls}
    own, unclear = [], []
    for call in known.values():
        if _is_agent_descendant(task, call, known):
            own.append(call)
        elif _topmost_ancestor(call, known).parent_id is not None and call.start >= task.start:
            if task.end is None or call.start == task.end:
                unclear.append(call)
            elif call.start < task.end:
                own.append(call)
    return CallSplit(sorted(own, key=lambda call: (call.start, call.id)), unclear)


def sum_usage(calls: Sequence[ObservedSpan]) -> AgentUsage:
    """The sums over the calls of one agent in one trace; nothing is known without any call."""
    models = [call for call in calls if call.type in MODEL_TYPES]
    tools = [call for call in calls if call.type == "TOOL"]
    return AgentUsage(
        input_tokens=_sum_if_complete([_billed_amount(call, call.input_tokens) for call in models]),
        output_tokens=_sum_if_complete(
            [_billed_amount(call, call.output_tokens) for call in models]
        ),
        cost_usd=_sum_if_complete([_billed_amount(call, call.cost_usd) for call in models]),
        tool_calls=tuple(map(_to_tool_call, tools)) if calls else None,
        turns=sum(call.type == "GENERATION" for call in models) if calls else None,
        tags=next((call.tags for call in calls if call.tags), ()),
    )


def _is_agent_descendant(
    task: TaskSpan, span: ObservedSpan, known: Mapping[str, ObservedSpan]
) -> bool:
    seen = set[str]()
    at: ObservedSpan | None = span
    while at is not None and at.id not in seen and at.id != task.id:
        if at.type == JUDGE_TYPE or at.name == JUDGE_SPAN_NAME:
            return False
        if at.parent_id == task.id:
            return True
        seen.add(at.id)
        at = known.get(at.parent_id or "")
    return False


def _topmost_ancestor(span: ObservedSpan, known: Mapping[str, ObservedSpan]) -> ObservedSpan:
    seen = {span.id}
    while (above := known.get(span.parent_id or "")) is not None and above.id not in seen:
        seen.add(above.id)
        span = above
    return span


def _billed_amount(call: ObservedSpan, amount: float | None) -> float | None:
    """A call that failed without telling its usage used nothing."""
    return 0 if amount is None and call.failed else amount


def _sum_if_complete(amounts: Sequence[float | None]) -> Any:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known and len(known) == len(amounts) else None


def _to_tool_call(call: ObservedSpan) -> ToolCall:
    latency = None if call.end is None else float(call.end - call.start)
    return ToolCall(name=call.name, ok=not call.failed, latency_ms=latency)


class _TokenUsage(NamedTuple):
    input: int | None
    output: int | None

    @classmethod
    def parse(cls, details: Mapping[str, Any]) -> "_TokenUsage":
        """Tokens by the words in their keys; a total stands in for the side that is not told, and
        tells whether finer figures, such as of cached tokens, are parts of the plain ones.
        """
        amounts = {
            name.lower(): int(amount)
            for name, value in details.items()
            if (amount := parse_number(value)) is not None and amount >= 0
        }
        read = _sum_matching(amounts, "input", "prompt")
        written = _sum_matching(amounts, "output", "completion")
        total = amounts.get("total")
        if total is not None and total < (read or 0) + (written or 0):
            read, written = amounts.get("input", read), amounts.get("output", written)
        if total is not None:
            if read is None:
                read = max(total - (written or 0), 0)
            if written is None:
                written = max(total - read, 0)
        return cls(read, written)


def _sum_matching(amounts: Mapping[str, int], *words: str) -> int | None:
    found = [amount for name, amount in amounts.items() if any(word in name for word in words)]
    return sum(found) if found else None


def _parse_cost(row: Mapping[str, Any]) -> float | None:
    """The price of a call in USD; 0 without details means that no price is known."""
    details = get_object(row, "costDetails")
    total = parse_number(row.get("totalCost"))
    if total is None:
        total = parse_number(row.get("calculatedTotalCost"))
    if not details:
        return total if total is not None and total > 0 else None
    if total is None:
        amounts = [parse_number(value) for name, value in details.items() if name != "total"]
        total = parse_number(details.get("total"))
        total = sum(filter(None, amounts)) if total is None else total
    return total if total >= 0 else None
