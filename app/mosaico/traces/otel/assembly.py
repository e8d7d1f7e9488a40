"""Assembles the spans of a trace to traces of MOSAICO: one per trace, or one per experiment item."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

from mosaico.harness.results import sum_if_complete
from mosaico.harness.transcript import (
    Transcript,
    TranscriptMessage,
    TranscriptRequest,
    TranscriptStep,
    TranscriptToolCall,
)
from mosaico.traces.error_rules import outcome_of_error
from mosaico.traces.messages import RequestedCall, canonical_text
from mosaico.traces.otel.facts import FactReader, ItemKey, SpanFacts, merge_facts
from mosaico.traces.otel.span_reader import (
    SpanKind,
    SpanReading,
    ToolReading,
    find_error_type,
    hides_output,
    read_error,
    read_kind,
    read_span,
    read_tool,
)
from mosaico.traces.otel.spans import Span
from mosaico.traces.references import read_expected
from mosaico.traces.types import MAX_TRIAL, ToolCall, Trace, TraceOutcome

EXPECTED_OUTPUTS: Final = (
    "mosaico.expected_output",
    "langfuse.experiment.item.expected_output",
)
TRIAL: Final = "mosaico.trial"
TASK_SPAN_ID: Final = "langfuse.experiment.item.root_observation_id"
EVALUATION_EVENT: Final = "gen_ai.evaluation.result"
TAG_NO_CONTENT: Final = "content-not-recorded"
NS_PER_MS: Final = 1e6
_MODEL_KINDS: Final = (SpanKind.MODEL, SpanKind.EMBEDDING)
_TRANSCRIPT_ROLES: Final[Mapping[str, Literal["system", "user"]]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
}


def assemble_trace(spans: Sequence[Span]) -> Trace:
    """The trace of production that all spans of one trace ID form; `spans` is not empty."""
    tree = _SpanTree(spans)
    return _assemble(tree, tree.find_root(), tree.spans)


def assemble_items(spans: Sequence[Span], dataset: str, run_name: str) -> list[Trace]:
    """The traces of the items of one experiment run in one trace, in order of time.

    An item begins with the topmost span that carries its attributes, and contains what is below.
    """
    tree = _SpanTree(spans)
    roots = tree.find_item_roots(dataset, run_name)
    spans_by_root = tree.group_below([root for root, _ in roots])
    traces = []
    for root, item in roots:
        trace = _assemble(tree, root, spans_by_root[root.span_id])
        # A trace can hold the items of a whole run.
        trace_id = root.trace_id if len(roots) == 1 else f"{root.trace_id}-{root.span_id}"
        traces.append(replace(trace, trace_id=trace_id, item_id=item.item_id))
    return traces


class _SpanTree:
    """The spans of one trace ID, in order of time."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.spans = sorted(spans, key=lambda span: (span.start_ns, span.span_id))
        self._by_id = {span.span_id: span for span in self.spans}
        reader = FactReader()
        self.facts = {span.span_id: reader.read(span) for span in self.spans}

    def find_root(self) -> Span:
        """The first span without a parent; without one, the first whose parent has not arrived."""
        # Exports arrive in any order, and the span of a killed process never arrives.
        roots = [span for span in self.spans if span.parent_id is None]
        orphans = [span for span in self.spans if span.parent_id not in self._by_id]
        return (roots or orphans or self.spans)[0]

    def find_item_roots(self, dataset: str, run_name: str) -> list[tuple[Span, ItemKey]]:
        """The first span of each item of a run."""
        items = {
            span.span_id: item
            for span in self.spans
            if (item := self.facts[span.span_id].item) is not None
            and item[:2] == (dataset, run_name)
        }
        roots: dict[str, tuple[Span, ItemKey]] = {}
        for span_id, item in items.items():
            span = self._by_id[span_id]
            if not any(items.get(above.span_id) == item for above in self.ancestors(span)):
                # The Langfuse SDK names the span of the agent's work, which its evaluation follows.
                task = self._by_id.get(str(span.attribute(TASK_SPAN_ID)), span)
                roots[task.span_id] = (task, item)
        return list(roots.values())

    def ancestors(self, span: Span) -> Iterator[Span]:
        """The spans above a span, the nearest first."""
        visited = {span.span_id}  # broken writers create cycles of parents
        while (above := self._by_id.get(span.parent_id or "")) and above.span_id not in visited:
            visited.add(above.span_id)
            yield above
            span = above

    def group_below(self, roots: Sequence[Span]) -> dict[str, list[Span]]:
        """Return each root with all spans below it, by the ID of the root.

        A span below several roots belongs to each of them. In one pass over the spans: a trace can
        hold the items of a whole run.
        """
        groups: dict[str, list[Span]] = {root.span_id: [] for root in roots}
        for span in self.spans:
            for above in (span, *self.ancestors(span)):
                if above.span_id in groups:
                    groups[above.span_id].append(span)
        return groups


class _ReadSpan(NamedTuple):
    span: Span
    reading: SpanReading


def _assemble(tree: _SpanTree, root: Span, spans: Sequence[Span]) -> Trace:
    agent_spans = list(_select_agent_spans(tree, spans))
    models = list(_select_model_calls(tree, agent_spans))
    chats = [call for call in models if call.reading.kind is SpanKind.MODEL]
    root_reading = read_span(root)
    tools = [span for span in agent_spans if read_kind(span) is SpanKind.TOOL]
    requested = [
        call
        for chat in chats
        for message in chat.reading.output_messages
        for call in message.tool_calls
    ]
    input_text, output_text = _find_input(root_reading, chats), _find_output(root_reading, chats)
    is_hidden = output_text is None and any(
        map(hides_output, (root, *(chat.span for chat in chats)))
    )
    is_recorded = not is_hidden and (input_text is not None or output_text is not None)
    error = read_error(root)
    expected, expected_any = _find_expected_output(root, agent_spans)
    facts = merge_facts(tree.facts[span.span_id] for span in _root_first(root, agent_spans))
    return Trace(
        trace_id=root.trace_id,
        item_id=root.trace_id,
        trial=_read_trial(root),
        outcome=_find_outcome(root, error),
        input=input_text,
        expected_output=expected,
        expected_any=expected_any,
        # Without an answer where content is recorded, the agent answered nothing.
        output=None if error is not None or not is_recorded else output_text or "",
        error=error,
        tags=(*facts.tags, *(() if is_recorded else (TAG_NO_CONTENT,))),
        attributes=_attributes(facts, chats),
        input_tokens=sum_if_complete([_billed(call, call.reading.input_tokens) for call in models]),
        output_tokens=sum_if_complete(
            [_billed(call, call.reading.output_tokens) for call in models]
        ),
        cost_usd=sum_if_complete([_billed(call, call.reading.cost_usd) for call in models]),
        latency_ms=_duration_ms(root),
        tool_calls=(
            tuple(_merge_calls(requested, tools)) if tools or (chats and is_recorded) else None
        ),
        turns=len(chats) if chats else None,
        scores=dict(_read_scores(spans)),
        transcript=_transcript(chats, tools),
    )


def _select_agent_spans(tree: _SpanTree, spans: Sequence[Span]) -> Iterator[Span]:
    """The spans without evaluators and what is below them."""
    evaluators = {span.span_id for span in spans if read_kind(span) is SpanKind.EVALUATOR}
    for span in spans:
        if span.span_id not in evaluators and not any(
            above.span_id in evaluators for above in (tree.ancestors(span) if evaluators else ())
        ):
            yield span


def _select_model_calls(tree: _SpanTree, spans: Sequence[Span]) -> Iterator[_ReadSpan]:
    """The calls of models; one inside of another is the same call, reported by a second library."""
    calls = {span.span_id for span in spans if read_kind(span) in _MODEL_KINDS}
    for span in spans:
        if span.span_id in calls and not any(
            above.span_id in calls for above in tree.ancestors(span)
        ):
            yield _ReadSpan(span, read_span(span))


def _root_first(root: Span, spans: Sequence[Span]) -> Iterator[Span]:
    yield root
    yield from (span for span in spans if span is not root)


def _find_input(root: SpanReading, chats: Sequence[_ReadSpan]) -> str | None:
    texts = [root.input, *(chat.reading.input for chat in chats)]
    return next((text for text in texts if text is not None), None)


def _find_output(root: SpanReading, chats: Sequence[_ReadSpan]) -> str | None:
    """The output of the root, or else the last answer; "" when models answered without a text."""
    if root.output is not None:
        return root.output
    texts = [chat.reading.output for chat in chats if chat.reading.output is not None]
    return next((text for text in reversed(texts) if text), "") if texts else None


def _find_outcome(root: Span, error: str | None) -> TraceOutcome:
    if error is None:
        return TraceOutcome.SCORED
    # The last line only: the numbers of a traceback would be read as statuses of HTTP.
    last_line = error.strip().rpartition("\n")[2]
    return outcome_of_error(f"{find_error_type(root) or ''}: {last_line}")


def _find_expected_output(root: Span, spans: Sequence[Span]) -> tuple[str | None, tuple[str, ...]]:
    """The expected answer of an item, and all alternatives where it has several."""
    for span in _root_first(root, spans):
        for name in EXPECTED_OUTPUTS:
            value = span.attribute(name)
            if value is not None:
                return read_expected(value)
    return None, ()


def _read_trial(root: Span) -> int:
    value = root.attribute(TRIAL)
    try:
        trial = int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    # A number that does not fit into the column must not fail the run.
    return trial if 0 <= trial <= MAX_TRIAL else 0


def _attributes(facts: SpanFacts, chats: Sequence[_ReadSpan]) -> dict[str, str]:
    """The attributes of a trace; facts win over metadata of the same name."""
    model = next((chat.reading.model for chat in chats if chat.reading.model), None)
    return {**facts.metadata, **({"model": model} if model else {}), **facts.texts}


def _billed(call: _ReadSpan, amount: float | None) -> float | None:
    """The amount of a call; a failed call without a reported amount used nothing."""
    return 0 if amount is None and call.reading.error is not None else amount


def _duration_ms(span: Span) -> float | None:
    """The duration of a span; None without an end, and when the clock was set back in between."""
    duration_ns = span.end_ns - span.start_ns
    return duration_ns / NS_PER_MS if span.end_ns and duration_ns >= 0 else None


def _merge_calls(requested: Sequence[RequestedCall], tools: Sequence[Span]) -> Iterator[ToolCall]:
    """The tool calls: those that models requested, each with the span that ran it, then other spans.

    Many agents run tools without a span, and many spans of tools have no names of arguments.
    """
    # Each span is used for one call at most, so that repeated calls of a tool are not counted
    # twice.
    runs = {span.span_id: (span, read_tool(span)) for span in tools}
    for call in requested:
        match = next((run for run in runs.values() if call.id and run[1].call_id == call.id), None)
        match = match or next(
            (run for run in runs.values() if run[1].name == call.name and not run[1].call_id), None
        )
        if match is None:
            yield ToolCall(name=call.name, arguments=call.arguments)
        else:
            del runs[match[0].span_id]
            yield _run_call(*match, call.arguments)
    for span, tool in runs.values():
        yield _run_call(span, tool, None)


def _run_call(span: Span, tool: ToolReading, requested: Mapping[str, Any] | None) -> ToolCall:
    return ToolCall(
        name=tool.name,
        arguments=requested if requested is not None else tool.arguments,
        ok=read_error(span) is None,
        latency_ms=_duration_ms(span),
    )


def _read_scores(spans: Sequence[Span]) -> Iterator[tuple[str, float]]:
    """The scores of evaluations that were recorded as events."""
    for span in spans:
        for event in span.events:
            name = event.attributes.get("gen_ai.evaluation.name")
            value = event.attributes.get("gen_ai.evaluation.score.value")
            if (
                event.name == EVALUATION_EVENT
                and isinstance(name, str)
                and isinstance(value, int | float)
            ):
                yield name, float(value)


def _transcript(chats: Sequence[_ReadSpan], tools: Sequence[Span]) -> Transcript | None:
    """The conversation: each message of a user once, the answers of models, and their tool calls."""
    steps: list[TranscriptStep] = []
    seen_inputs = set[str]()
    results = {call_id: span for span in tools if (call_id := read_tool(span).call_id)}
    for span, reading in chats:
        for message in reading.input_messages:
            role = _TRANSCRIPT_ROLES.get(message.role)
            if role is not None and message.text and message.text not in seen_inputs:
                seen_inputs.add(message.text)
                steps.append(TranscriptMessage(role=role, text=message.text))
        request = TranscriptRequest(
            input_tokens=reading.input_tokens,
            output_tokens=reading.output_tokens,
            latency_ms=_duration_ms(span),
        )
        text = reading.output or reading.error or ""
        steps.append(TranscriptMessage(role="assistant", text=text, request=request))
        for message in reading.output_messages:
            steps.extend(
                _transcript_call(call, results.get(call.id or "")) for call in message.tool_calls
            )
    return Transcript(steps=tuple(steps)) if steps else None


def _transcript_call(call: RequestedCall, run: Span | None) -> TranscriptToolCall:
    output = None if run is None else run.attributes.get("gen_ai.tool.call.result")
    return TranscriptToolCall(
        tool=call.name,
        arguments=call.arguments,
        output=None if output is None else canonical_text(output),
        is_error=run is not None and read_error(run) is not None,
        duration_ms=None if run is None else _duration_ms(run),
    )
