"""The calls of models in a trace, each once, and the sums of what they used."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from mosaico.harness.results import sum_if_complete
from mosaico.traces.otel.convention_row import SpanKind
from mosaico.traces.otel.span_reader import (
    SideReading,
    SpanReading,
    read_kind,
    read_span,
    read_tool,
    read_usage,
)
from mosaico.traces.otel.spans import Span
from mosaico.traces.otel.unread import may_have_content

Amount: TypeAlias = Literal["input_tokens", "output_tokens", "cost_usd"]
Ancestors: TypeAlias = Callable[[Span], Iterator[Span]]

_CALL_KINDS: Final = (SpanKind.MODEL, SpanKind.EMBEDDING)


class ModelCall(NamedTuple):
    """One call of a model; several spans can report it."""

    span: Span
    reading: SpanReading
    is_chat: bool


class SpanKinds:
    """The spans of a trace by their kind, without evaluators and what is below them; in order of time."""

    def __init__(self, spans: Sequence[Span], ancestors: Ancestors) -> None:
        self.ancestors = ancestors
        self._kinds = {span.span_id: read_kind(span) for span in spans}
        judges = {i for i, kind in self._kinds.items() if kind is SpanKind.EVALUATOR}
        self.agent_spans = [
            span for span in spans if not (judges and self._is_in(judges, span, with_own=True))
        ]
        self._calls = self._call_ids()
        self.calls = [span for span in self.agent_spans if span.span_id in self._calls]
        self.tools = [span for span in self.agent_spans if self._is_own_run(span)]

    def kind(self, span: Span) -> SpanKind:
        return self._kinds[span.span_id]

    def call_above(self, span: Span) -> Span | None:
        """The nearest call of a model around a span."""
        return next((a for a in self.ancestors(span) if a.span_id in self._calls), None)

    def agents_below(self, root: Span) -> Iterator[Span]:
        """The topmost spans below a root that are agents: a call of a model is below them, or they alone have its tokens."""
        around_calls = {a.span_id for span in self.calls for a in self.ancestors(span)}
        agents = [
            span
            for span in self.agent_spans
            if span is not root
            and self.kind(span) is SpanKind.OTHER
            and may_have_content(span)
            and (span.span_id in around_calls or read_usage(span).input_tokens is not None)
        ]
        return self.topmost(agents)

    def topmost(self, spans: Sequence[Span]) -> Iterator[Span]:
        """The spans that are not below another of them."""
        ids = {span.span_id for span in spans}
        return (span for span in spans if not self._is_in(ids, span))

    def _is_in(self, ids: set[str], span: Span, *, with_own: bool = False) -> bool:
        is_own = with_own and span.span_id in ids
        return is_own or any(above.span_id in ids for above in self.ancestors(span))

    def _call_ids(self) -> set[str]:
        """A span that is only likely to be a call is a wrapper if there is a call below it, and any span if there are
        several that did not fail: one call has no two answers.
        """
        calls = {s.span_id for s in self.agent_spans if self.kind(s) in _CALL_KINDS}
        calls -= self._wrappers_of_several(calls)
        likely = [s for s in self.agent_spans if self.kind(s) is SpanKind.LIKELY_MODEL]
        if not likely:
            return calls
        wrappers = {
            above.span_id
            for span in (*likely, *(s for s in self.agent_spans if s.span_id in calls))
            for above in self.ancestors(span)
        }
        return calls | {span.span_id for span in likely if span.span_id not in wrappers}

    def _wrappers_of_several(self, calls: set[str]) -> set[str]:
        answers = Counter[str]()
        for span in self.agent_spans:
            if span.span_id in calls and not span.failed:
                nearest = next((a for a in self.ancestors(span) if a.span_id in calls), None)
                if nearest is not None and self.kind(nearest) is self.kind(span):
                    answers[nearest.span_id] += 1
        return {span_id for span_id, count in answers.items() if count > 1}

    def _is_own_run(self, span: Span) -> bool:
        """Return whether a span ran a tool, and no span around it reports the same run."""
        if self.kind(span) is not SpanKind.TOOL:
            return False
        above = next(
            (a for a in self.ancestors(span) if self._kinds.get(a.span_id) is SpanKind.TOOL), None
        )
        if above is None:
            return True
        tool, outer = read_tool(span), read_tool(above)
        has_other_id = tool.call_id and outer.call_id and tool.call_id != outer.call_id
        return tool.name != outer.name or bool(has_other_id)


def select_model_calls(kinds: SpanKinds) -> list[ModelCall]:
    """The calls of models: one inside of another is the same call, reported by a second library, and so is the record of
    the end of a stream beside its request.
    """
    inner = defaultdict[str, list[Span]](list)
    outermost = []
    for span in kinds.calls:
        above = kinds.call_above(span)
        if above is None:
            outermost.append(span)
        else:
            inner[above.span_id].append(span)
    calls: list[ModelCall] = []
    for span in outermost:
        is_chat = kinds.kind(span) is not SpanKind.EMBEDDING
        call = ModelCall(span, _read_nested(span, inner), is_chat)
        request = next((c for c in calls if _is_request_of(call, c)), None)
        if request is None:
            calls.append(call)
        else:
            merged = _fill(request.reading, [call.reading])
            calls[calls.index(request)] = request._replace(reading=merged)
    return calls


def sum_amounts(kinds: SpanKinds, calls: Sequence[ModelCall], amount: Amount) -> float | None:
    """The sum over the calls; if no call reports the amount, that of the topmost spans that do.

    A sum with an unknown part is unknown, but a failed call without a reported amount used nothing.
    """
    amounts: list[tuple[float | None, bool]] = [
        (getattr(call.reading, amount), call.reading.error is not None) for call in calls
    ]
    if not any(known is not None for known, _ in amounts):
        reported: dict[str, float] = {
            span.span_id: value
            for span in kinds.agent_spans
            if kinds.kind(span) not in _CALL_KINDS
            and (value := getattr(read_usage(span), amount)) is not None
        }
        topmost = kinds.topmost([s for s in kinds.agent_spans if s.span_id in reported])
        if sums := [reported[span.span_id] for span in topmost]:
            return sum(sums)
    billed = [0 if known is None and failed else known for known, failed in amounts]
    total: float | None = sum_if_complete(billed)
    return total


def _read_nested(span: Span, inner: dict[str, list[Span]]) -> SpanReading:
    below = [_read_nested(part, inner) for part in inner.get(span.span_id, ())]
    reading = read_span(span)
    return _fill(reading, below) if below else reading


def _fill(reading: SpanReading, others: Sequence[SpanReading]) -> SpanReading:
    """The reading, with what it lacks from other reports of the same call."""
    return reading._replace(
        model=reading.model or next((other.model for other in others if other.model), None),
        input=_fill_side(reading.input, [other.input for other in others]),
        output=_fill_side(reading.output, [other.output for other in others][::-1]),
        **{
            amount: sum_if_complete([getattr(other, amount) for other in others])
            for amount in ("input_tokens", "output_tokens", "cost_usd")
            if getattr(reading, amount) is None
        },
    )


def _fill_side(side: SideReading, others: Sequence[SideReading]) -> SideReading:
    text = next((o.text for o in (side, *others) if o.text is not None), None)
    messages = next((o.messages for o in (side, *others) if o.messages), ())
    is_hidden = any(o.is_hidden for o in (side, *others))
    return SideReading(None if is_hidden else text, messages, is_hidden)


def _is_request_of(end: ModelCall, request: ModelCall) -> bool:
    """Return whether a call is the record of a stream's end, which logfire writes beside the span of its request."""
    return (
        end.span.start_ns == end.span.end_ns
        and end.span.parent_id == request.span.parent_id
        and end.span.scope == request.span.scope
        and request.reading.output_tokens is None
        and request.reading.output.text is None
        and request.reading.error is None
        and end.reading.input.text == request.reading.input.text
    )
