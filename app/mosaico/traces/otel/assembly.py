"""Assembles the spans of a trace to traces of MOSAICO: one per trace, or one per experiment item."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

from mosaico.harness.transcript import (
    Transcript,
    TranscriptMessage,
    TranscriptRequest,
    TranscriptStep,
    TranscriptToolCall,
)
from mosaico.traces.error_rules import outcome_of_error
from mosaico.traces.messages import RequestedCall
from mosaico.traces.otel.facts import FactReader, ItemKey, SpanFacts, merge_facts
from mosaico.traces.otel.model_calls import ModelCall, SpanKinds, select_model_calls, sum_amounts
from mosaico.traces.otel.span_reader import (
    SideReading,
    SpanReading,
    ToolReading,
    find_error_type,
    has_failed_tool,
    read_error,
    read_span,
    read_tool,
)
from mosaico.traces.otel.spans import Span, attach_events
from mosaico.traces.otel.unread import find_cut, find_unread
from mosaico.traces.references import read_expected
from mosaico.traces.types import MAX_TRIAL, ToolCall, Trace, TraceOutcome

EXPECTED_OUTPUTS: Final = (
    "mosaico.expected_output",
    "langfuse.experiment.item.expected_output",
    "braintrust.expected",
)
TRIAL: Final = "mosaico.trial"
TASK_SPAN_ID: Final = "langfuse.experiment.item.root_observation_id"
EVALUATION_EVENT: Final = "gen_ai.evaluation.result"
TAG_NO_CONTENT: Final = "content-not-recorded"
TAG_UNREAD: Final = "content-not-understood"
# The attribute of a trace with the names of what was not understood.
UNREAD: Final = "contentNotUnderstood"
NS_PER_MS: Final = 1e6
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
        self.spans = attach_events(sorted(spans, key=lambda span: (span.start_ns, span.span_id)))
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


class _Texts(NamedTuple):
    """The texts of a trace; `unread` are the names of attributes that may hold the texts that are missing."""

    input: str | None
    output: str | None
    is_recorded: bool
    unread: Sequence[str]

    @property
    def tags(self) -> tuple[str, ...]:
        if self.unread:
            return (TAG_UNREAD,)
        return () if self.is_recorded else (TAG_NO_CONTENT,)


def _assemble(tree: _SpanTree, root: Span, spans: Sequence[Span]) -> Trace:
    kinds = SpanKinds(spans, tree.ancestors)
    agent_spans = kinds.agent_spans
    models = select_model_calls(kinds)
    chats = [call for call in models if call.is_chat]
    root_reading = read_span(root)
    tools = kinds.tools
    asking = [chat.reading for chat in chats] or [root_reading]
    requested = [
        call
        for reading in asking
        for message in reading.output.messages
        for call in message.tool_calls
    ]
    texts = _find_texts(kinds, root, root_reading, chats)
    error = read_error(root)
    expected, expected_any = _find_expected_output(root, agent_spans)
    facts = merge_facts(tree.facts[span.span_id] for span in _root_first(root, agent_spans))
    input_tokens = sum_amounts(kinds, models, "input_tokens")
    output_tokens = sum_amounts(kinds, models, "output_tokens")
    return Trace(
        trace_id=root.trace_id,
        item_id=root.trace_id,
        trial=_read_trial(root),
        outcome=_find_outcome(root, error),
        input=texts.input,
        expected_output=expected,
        expected_any=expected_any,
        output=None if error is not None else texts.output,
        error=error,
        tags=(*facts.tags, *texts.tags),
        attributes=_attributes(facts, asking, texts),
        input_tokens=None if input_tokens is None else int(input_tokens),
        output_tokens=None if output_tokens is None else int(output_tokens),
        cost_usd=sum_amounts(kinds, models, "cost_usd"),
        latency_ms=_duration_ms(root),
        tool_calls=(
            tuple(_merge_calls(requested, tools))
            if tools or requested or (chats and texts.is_recorded)
            else None
        ),
        turns=len(chats) if chats else None,
        scores=dict(_read_scores(spans)),
        transcript=_transcript(chats, tools),
    )


def _root_first(root: Span, spans: Sequence[Span]) -> Iterator[Span]:
    yield root
    yield from (span for span in spans if span is not root)


def _find_texts(
    kinds: SpanKinds, root: Span, reading: SpanReading, chats: Sequence[ModelCall]
) -> _Texts:
    """The input of the root or else of the first call, and the output of the root or else the last answer; those of an
    agent below a server's span where they have no text.

    A text that one span hides is hidden in all: libraries leave copies of it around the call. Without an answer where texts
    are recorded and understood, the agent answered nothing.
    """
    readings = [reading, *(chat.reading for chat in chats)]
    if not (any(r.input.text for r in readings) and any(r.output.text for r in readings)):
        readings += [read_span(span) for span in kinds.agents_below(root)]
    inputs, outputs = [r.input for r in readings], [r.output for r in readings]
    input_text = None if _is_hidden(inputs) else _first_recorded(inputs)
    is_hidden = _is_hidden(outputs)
    output = None if is_hidden else _last_answer(outputs)
    spans = (root, *(chat.span for chat in chats))
    if output is not None or is_hidden:
        cut = () if input_text is not None else find_cut(spans, "input")
        return _Texts(input_text, output, output is not None, cut)
    if input_text is not None:
        unread = (*find_cut(spans, "output"), *find_unread(spans, only_answers=True))
        return _Texts(input_text, None if unread else "", is_recorded=True, unread=unread)
    unread = () if _is_hidden(inputs) else find_unread(_root_first(root, kinds.agent_spans))
    unread = (*find_cut(spans, "input"), *unread)
    return _Texts(None, None, is_recorded=False, unread=unread)


def _is_hidden(readings: Sequence[SideReading]) -> bool:
    return any(reading.is_hidden for reading in readings)


def _first_recorded(readings: Sequence[SideReading]) -> str | None:
    return next((reading.text for reading in readings if reading.text is not None), None)


def _last_answer(readings: Sequence[SideReading]) -> str | None:
    """The output of the root, or else the last answer; "" when models answered without a text."""
    root, *chats = readings
    if root.text is not None:
        return root.text
    texts = [chat.text for chat in chats if chat.text is not None]
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


def _attributes(facts: SpanFacts, readings: Sequence[SpanReading], texts: _Texts) -> dict[str, str]:
    """The attributes of a trace; facts win over metadata of the same name."""
    model = next((reading.model for reading in readings if reading.model), None)
    own = {"model": model, UNREAD: ", ".join(texts.unread)}
    return {**facts.metadata, **{name: text for name, text in own.items() if text}, **facts.texts}


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
        ok=not has_failed_tool(span),
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


def _transcript(chats: Sequence[ModelCall], tools: Sequence[Span]) -> Transcript | None:
    """The conversation: each message of a user once, the answers of models, and their tool calls."""
    steps: list[TranscriptStep] = []
    seen_inputs = set[str]()
    hides_input = _is_hidden([chat.reading.input for chat in chats])
    hides_output = _is_hidden([chat.reading.output for chat in chats])
    results = {call_id: span for span in tools if (call_id := read_tool(span).call_id)}
    for chat in chats:
        reading = chat.reading
        for message in () if hides_input else reading.input.messages:
            role = _TRANSCRIPT_ROLES.get(message.role)
            if role is not None and message.text and message.text not in seen_inputs:
                seen_inputs.add(message.text)
                steps.append(TranscriptMessage(role=role, text=message.text))
        request = TranscriptRequest(
            input_tokens=reading.input_tokens,
            output_tokens=reading.output_tokens,
            latency_ms=_duration_ms(chat.span),
        )
        text = (None if hides_output else reading.output.text) or reading.error or ""
        steps.append(TranscriptMessage(role="assistant", text=text, request=request))
        for message in reading.output.messages:
            steps.extend(
                _transcript_call(call, results.get(call.id or "")) for call in message.tool_calls
            )
    return Transcript(steps=tuple(steps)) if steps else None


def _transcript_call(call: RequestedCall, run: Span | None) -> TranscriptToolCall:
    return TranscriptToolCall(
        tool=call.name,
        arguments=call.arguments,
        output=None if run is None else read_tool(run).result,
        is_error=run is not None and has_failed_tool(run),
        duration_ms=None if run is None else _duration_ms(run),
    )
