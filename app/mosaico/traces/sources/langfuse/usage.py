"""Usage of the agent in a trace: sums of tokens, cost and tool calls.

The usage of judges is never counted.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from mosaico.harness.results import sum_if_complete
from mosaico.traces.reported_usage import drop_unknown_zeros, read_usage_details
from mosaico.traces.sources.langfuse.json_fields import (
    first_tags,
    get_object,
    get_text,
    get_time_ms,
    parse_fields,
    parse_number,
)
from mosaico.traces.types import ToolCall

MODEL_TYPES: Final = ("GENERATION", "EMBEDDING")
CALL_TYPES: Final = (*MODEL_TYPES, "TOOL")
JUDGE_TYPE: Final = "EVALUATOR"
JUDGE_SPAN_NAME: Final = "experiment-item-evaluation"
TASK_SPAN_NAME: Final = "experiment-item-task"
# Servers do not order spans that started within the same minute.
ORDER_SLACK_MS: Final = 60_000


# Fields of a call of a model, and the attributes that they are of its trace. The name of the model depends on the API.
VERSION_FIELDS: Final = {
    "providedModelName": "model",
    "model": "model",
    "promptName": "promptName",
    "promptVersion": "promptVersion",
}
NO_VERSIONS: Final[Mapping[str, str]] = {}


class ObservedSpan(NamedTuple):
    """A Langfuse observation without its texts; times in milliseconds since 1970. `versions` name the model and the prompt."""

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
    attributes: dict[str, str]
    versions: Mapping[str, str] = NO_VERSIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpan:
    """The span of the agent's own work in a trace; times in milliseconds since 1970."""

    id: str
    trace_id: str
    start: int
    end: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentUsage:
    """Usage of an agent in one trace. None means unknown: a sum with an unknown part is unknown. `versions` are the
    model and the prompt of its first call of a model.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    turns: int | None = None
    tags: tuple[str, ...] = ()
    attributes: dict[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


def parse_span(row: Mapping[str, Any]) -> ObservedSpan | None:
    """Parse an observation of either API version; None without an ID or a start time."""
    span_id, trace_id, start = (
        get_text(row, "id"),
        get_text(row, "traceId"),
        get_time_ms(row, "startTime"),
    )
    if span_id is None or trace_id is None or start is None:
        return None
    tokens = read_usage_details(get_object(row, "usageDetails"))
    usage = drop_unknown_zeros(tokens.input, tokens.output, None)
    return ObservedSpan(
        id=span_id,
        trace_id=trace_id,
        parent_id=get_text(row, "parentObservationId"),
        type=get_text(row, "type") or "SPAN",
        name=get_text(row, "name") or "",
        start=start,
        end=get_time_ms(row, "endTime"),
        failed=row.get("level") == "ERROR",
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        # Its details say whether 0 is known.
        cost_usd=_parse_cost(row),
        tags=first_tags(row.get("tags")),
        attributes=parse_fields(row),
        versions=_parse_versions(row),
    )


def _parse_versions(row: Mapping[str, Any]) -> dict[str, str]:
    texts = {
        attribute: row.get(name) for name, attribute in VERSION_FIELDS.items() if row.get(name)
    }
    return {name: str(value) for name, value in texts.items() if isinstance(value, str | int)}


def select_descendants(task: TaskSpan, spans: Iterable[ObservedSpan]) -> list[ObservedSpan]:
    """The spans below the task without those of judges, deduplicated, in order of time.

    `spans` must contain all ancestors of its spans.
    """
    spans_by_id = {span.id: span for span in spans}
    descendants = [
        span for span in spans_by_id.values() if _is_agent_descendant(task, span, spans_by_id)
    ]
    return sorted(descendants, key=lambda span: (span.start, span.id))


def select_agent_spans(spans: Iterable[ObservedSpan]) -> list[ObservedSpan]:
    """The spans of a whole trace without those of judges, deduplicated, in order of time."""
    spans_by_id = {span.id: span for span in spans}
    agent_spans = [span for span in spans_by_id.values() if not _is_below_judge(span, spans_by_id)]
    return sorted(agent_spans, key=lambda span: (span.start, span.id))


def group_spans(spans: Iterable[ObservedSpan]) -> dict[str, list[ObservedSpan]]:
    """The spans by trace ID."""
    groups = defaultdict[str, list[ObservedSpan]](list)
    for span in spans:
        groups[span.trace_id].append(span)
    return groups


class CallSplit(NamedTuple):
    """Calls of the agent, and calls that only the whole span tree can assign."""

    own: list[ObservedSpan]
    ambiguous: list[ObservedSpan]


def split_calls(task: TaskSpan, calls: Iterable[ObservedSpan]) -> CallSplit:
    """Find the calls of the agent when the spans between the calls and the task are unknown.

    A call whose known ancestors lead to the task belongs to the agent. For the others the start
    time decides, because SDKs start an evaluation after the task has ended. A call in the
    millisecond of the task's end, or of a task without an end, is ambiguous.
    """
    calls_by_id = {call.id: call for call in calls}
    own, ambiguous = [], []
    for call in calls_by_id.values():
        if _is_agent_descendant(task, call, calls_by_id):
            own.append(call)
        elif (
            # A root is neither below the task nor below an evaluation.
            _topmost_ancestor(call, calls_by_id).parent_id is not None and call.start >= task.start
        ):
            if task.end is None or call.start == task.end:
                ambiguous.append(call)
            elif call.start < task.end:
                own.append(call)
    return CallSplit(sorted(own, key=lambda call: (call.start, call.id)), ambiguous)


def sum_usage(calls: Sequence[ObservedSpan]) -> AgentUsage:
    """The usage of the calls of one agent in one trace; everything is unknown without a call."""
    models = [call for call in calls if call.type in MODEL_TYPES]
    tools = [call for call in calls if call.type == "TOOL"]
    return AgentUsage(
        input_tokens=sum_if_complete([_billed_amount(call, call.input_tokens) for call in models]),
        output_tokens=sum_if_complete(
            [_billed_amount(call, call.output_tokens) for call in models]
        ),
        cost_usd=sum_if_complete([_billed_amount(call, call.cost_usd) for call in models]),
        tool_calls=tuple(map(_to_tool_call, tools)) if calls else None,
        turns=sum(call.type == "GENERATION" for call in models) if calls else None,
        tags=next((call.tags for call in calls if call.tags), ()),
        attributes=next((call.attributes for call in calls if call.attributes), {}),
        versions=next((call.versions for call in models if call.versions), NO_VERSIONS),
    )


def _is_agent_descendant(
    task: TaskSpan, span: ObservedSpan, spans_by_id: Mapping[str, ObservedSpan]
) -> bool:
    for ancestor in _iter_ancestry(span, spans_by_id):
        if ancestor.id == task.id or _is_judge(ancestor):
            return False
        if ancestor.parent_id == task.id:
            return True
    return False


def _is_below_judge(span: ObservedSpan, spans_by_id: Mapping[str, ObservedSpan]) -> bool:
    return any(map(_is_judge, _iter_ancestry(span, spans_by_id)))


def _is_judge(span: ObservedSpan) -> bool:
    # Otherwise the tokens of a judge would be billed to the agent.
    return span.type == JUDGE_TYPE or span.name == JUDGE_SPAN_NAME


def _iter_ancestry(
    span: ObservedSpan, spans_by_id: Mapping[str, ObservedSpan]
) -> Iterator[ObservedSpan]:
    """The span and its known ancestors, the nearest first."""
    visited_ids = set[str]()  # broken writers create cycles of parents
    ancestor: ObservedSpan | None = span
    while ancestor is not None and ancestor.id not in visited_ids:
        yield ancestor
        visited_ids.add(ancestor.id)
        ancestor = spans_by_id.get(ancestor.parent_id or "")


def _topmost_ancestor(span: ObservedSpan, spans_by_id: Mapping[str, ObservedSpan]) -> ObservedSpan:
    return [*_iter_ancestry(span, spans_by_id)][-1]


def _billed_amount(call: ObservedSpan, amount: float | None) -> float | None:
    """The amount of a call; a failed call without a reported amount used nothing."""
    return 0 if amount is None and call.failed else amount


def _to_tool_call(call: ObservedSpan) -> ToolCall:
    latency_ms = None if call.end is None else float(call.end - call.start)
    return ToolCall(name=call.name, ok=not call.failed, latency_ms=latency_ms)


def _parse_cost(row: Mapping[str, Any]) -> float | None:
    """The cost of a call in USD; None when unknown."""
    details = get_object(row, "costDetails")
    total = parse_number(row.get("totalCost"))
    if total is None:
        total = parse_number(row.get("calculatedTotalCost"))
    if not details:
        # Langfuse reports 0 without details when it knows no price for the model.
        return total if total is not None and total > 0 else None
    if total is None:
        parts = (parse_number(value) for name, value in details.items() if name != "total")
        amounts = [part for part in parts if part is not None]
        total = parse_number(details.get("total"))
        if total is None:
            total = sum(amounts) if amounts else None
    # A negative cost is an error of the writer.
    return total if total is not None and total >= 0 else None
