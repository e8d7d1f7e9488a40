"""Reads the content of a span by the table of the conventions.

A span can mix conventions, and names of schemas are mostly empty: each field is read from the first of its places that is
filled.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from mosaico.traces.messages import (
    ASSISTANT_ROLES,
    USER_ROLES,
    Message,
    canonical_text,
    last_text,
    parse_arguments,
    parse_value,
    read_messages,
)
from mosaico.traces.otel.convention_row import SpanKind
from mosaico.traces.otel.conventions import (
    EXCLUSIVE_INPUTS,
    FAILED_SPAN,
    FAILED_TOOL,
    HIDDEN_MARKS,
    KINDS,
    LAST_STEP_ONLY,
    NEVER_BILLED,
    PLACES,
    TOOL_MARKS,
    ExclusiveInput,
)
from mosaico.traces.otel.encodings import is_cut_off
from mosaico.traces.otel.library_rows import OPERATION
from mosaico.traces.otel.places import filled, first_value
from mosaico.traces.otel.spans import Span
from mosaico.traces.reported_usage import ReportedUsage, TokenCounts, drop_unknown_zeros
from mosaico.traces.value_text import NoText, TextRole, parse_encoded, read_text

_ROLES: Final = {"input": USER_ROLES, "output": ASSISTANT_ROLES}
_KNOWN_ROLES: Final = USER_ROLES | ASSISTANT_ROLES | {"system", "developer", "tool", "function"}
_TEXT_ROLES: Final = {"input": TextRole.QUESTION, "output": TextRole.ANSWER}
_SIDE_NAMES: Final = {side: frozenset(place.name for place in PLACES[side]) for side in _ROLES}
# The beginning of what logfire puts in place of a text.
_SCRUBBED: Final = "[Scrubbed due to "
_MARK_TEXTS: Final = (*HIDDEN_MARKS, _SCRUBBED)
_NO_USAGE: Final = ReportedUsage(None, None, None)
# The largest number of its column.
_MAX_TOKENS: Final = 2**63 - 1


class SideReading(NamedTuple):
    """What a span was asked, or what it answered.

    `text` is that of the last user or of the assistant; "" when messages are recorded and none of them has a text, and
    None when nothing is recorded. `is_hidden`: the writer replaced or left out the texts on purpose.
    """

    text: str | None = None
    messages: tuple[Message, ...] = ()
    is_hidden: bool = False


class SpanReading(NamedTuple):
    """The content of a span; None is unknown. `input_tokens` contain those of caches."""

    model: str | None
    input: SideReading
    output: SideReading
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    error: str | None


class ToolReading(NamedTuple):
    """The tool that a span ran."""

    name: str
    call_id: str | None
    arguments: Mapping[str, Any] | None
    result: str | None


def read_span(span: Span) -> SpanReading:
    """Read a span; every field is unknown in a span that no known library wrote."""
    usage = read_usage(span)
    return SpanReading(
        model=_first_text("model", span),
        input=_read_side(span, "input"),
        output=_read_side(span, "output"),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=usage.cost_usd,
        error=read_error(span),
    )


def read_kind(span: Span) -> SpanKind:
    """Return the kind of a span, by the first place that names a known one, or else by what it has."""
    for place, values in KINDS:
        if place.name and place.name not in span.attributes:
            continue
        value = parse_value(place.find(span))
        if isinstance(value, str) and (kind := values.get(value)) is not None:
            return kind
    has_model = any(_first_text(field, span) for field in ("model", "provider"))
    if has_model and read_usage(span).input_tokens is not None:
        return SpanKind.LIKELY_MODEL
    return SpanKind.OTHER if first_value(TOOL_MARKS, span) is None else SpanKind.TOOL


def read_usage(span: Span) -> ReportedUsage:
    """The tokens and the cost of a span; unknown where it repeats those of other spans."""
    operation = span.attributes.get(OPERATION)
    if isinstance(operation, str) and (operation in NEVER_BILLED or operation.startswith("list_")):
        return _NO_USAGE
    name, value, proof = LAST_STEP_ONLY
    if span.attributes.get(name) == value and proof not in span.attributes:
        return _NO_USAGE
    document: TokenCounts = first_value(PLACES["usage"], span) or TokenCounts(None, None)
    counts = _counted_tokens(span) if None in document else document
    return drop_unknown_zeros(
        _fit(counts.input if document.input is None else document.input),
        _fit(counts.output if document.output is None else document.output),
        first_value(PLACES["cost"], span),
    )


def read_tool(span: Span) -> ToolReading:
    """The tool of a span of the kind `TOOL`."""
    values = filled(PLACES["tool_arguments"], span)
    arguments = (parse_arguments(parse_encoded(value)) for value in values)
    call_id = _first_text("tool_call_id", span)
    result = first_value(PLACES["tool_result"], span)
    return ToolReading(
        name=_first_text("tool_name", span) or span.name,
        # ADK writes `<not specified>`.
        call_id=None if call_id is None or call_id.startswith("<") else call_id,
        arguments=next((value for value in arguments if value is not None), None),
        result=None if result is None or _is_mark(result) else canonical_text(result),
    )


def read_error(span: Span) -> str | None:
    """Return the reason why the work of a span failed; None when it did not fail."""
    if not (span.failed or _has_any(span, FAILED_SPAN)):
        return None
    exception = find_exception(span)
    messages = (
        span.attributes.get("langfuse.observation.status_message"),
        # Before the status, which some libraries fill with a traceback.
        exception.get("exception.message"),
        span.status_message,
        find_error_type(span),
    )
    message = next((text for text in messages if isinstance(text, str) and text), None)
    # A failed trace always has an error, which the reader of a report sees.
    return message or "the span failed without a message"


def has_failed_tool(span: Span) -> bool:
    """Return whether the tool of a span failed; some libraries leave the status unset."""
    return read_error(span) is not None or _has_any(span, FAILED_TOOL)


def find_error_type(span: Span) -> str | None:
    """The class of the error of a span, without its module; None when it is not named."""
    for value in (
        span.attributes.get("error.type"),
        find_exception(span).get("exception.type"),
    ):
        if isinstance(value, str) and value:
            return value.rpartition(".")[2]
    return None


def find_exception(span: Span) -> Mapping[str, Any]:
    """The attributes of the last exception of a span; empty when it has none."""
    events = (event.attributes for event in reversed(span.events) if event.name == "exception")
    return next(events, {})


def _read_side(span: Span, side: str) -> SideReading:
    """The first text and the first messages; a mark at any place hides the copies at the others."""
    text: str | None = None
    messages: tuple[Message, ...] = ()
    is_hidden = False
    for value in filled(PLACES[side], span):
        if _is_mark(value):
            is_hidden = True
        elif (text is None or not messages) and is_cut_off(value):
            continue
        elif text is None or not messages:
            content = _read_value(value, side)
            is_hidden = is_hidden or content.is_hidden
            text = content.text if text is None else text
            messages = messages or content.messages
            if text is not None and messages and not _may_have_marks(span, side):
                break  # The other places have copies, which can be long.
    return hide(SideReading(text, messages)) if is_hidden else SideReading(text, messages)


def _may_have_marks(span: Span, side: str) -> bool:
    values = (span.attributes[name] for name in _SIDE_NAMES[side] & span.attributes.keys())
    return any(mark in value for value in values if isinstance(value, str) for mark in _MARK_TEXTS)


def hide(reading: SideReading) -> SideReading:
    """The reading without its texts: what is left are the calls of tools."""
    messages = tuple(message._replace(text=None) for message in reading.messages)
    return SideReading(None, messages, is_hidden=True)


def _read_value(value: Any, side: str) -> SideReading:
    """The text of a value: that of its messages or of a response, or else the value itself."""
    messages = tuple(
        message._replace(text=None) if _is_mark(message.text) else message
        for message in read_messages(parse_value(value))
    )
    if any(message.role in _KNOWN_ROLES for message in messages):
        text = last_text(messages, _ROLES[side])
        is_hidden = text is None and any(m.role in _ROLES[side] for m in messages)
        # A place whose messages are all empty does not hide the next place.
        is_filled = any(message.text or message.tool_calls for message in messages)
        return (
            SideReading(text, messages, is_hidden)
            if is_filled
            else SideReading(None, (), is_hidden)
        )
    reading = read_text(value, _TEXT_ROLES[side], is_encoded=True)
    if reading.reason is NoText.TOOL_CALLS:
        return SideReading("", messages)
    if reading.is_unwrapped and reading.reason is not NoText.ERROR:
        return SideReading(reading.text, messages, reading.reason is NoText.HIDDEN)
    return SideReading(canonical_text(value))


def _is_mark(value: Any) -> bool:
    return isinstance(value, str) and (value in HIDDEN_MARKS or value.startswith(_SCRUBBED))


def _has_any(span: Span, marks: Iterable[tuple[str, Any]]) -> bool:
    return any(span.attributes.get(name) == value for name, value in marks)


def _first_text(field: str, span: Span) -> str | None:
    texts = (parse_value(value) for value in filled(PLACES[field], span))
    return next((text for text in texts if isinstance(text, str) and text), None)


def _counted_tokens(span: Span) -> TokenCounts:
    """The tokens in numbers of their own, with those of caches and of thoughts."""
    tokens, output = _count("input_tokens", span), _count("output_tokens", span)
    if tokens is not None:
        cached = (_count("cache_read", span) or 0) + (_count("cache_write", span) or 0)
        if cached and _lacks_cached(span, tokens, output, cached):
            tokens += cached
    if output is not None:
        output += _count("reasoning_on_top", span) or 0
    return TokenCounts(tokens, output)


def _count(field: str, span: Span) -> int | None:
    number = first_value(PLACES[field], span)
    return None if number is None else int(number)


def _lacks_cached(span: Span, tokens: int, output: int | None, cached: int) -> bool:
    """Return whether cached tokens come on top of the input tokens: the numbers prove it, the writer is known for it, or
    the total contains them.
    """
    if cached > tokens or any(_fits(span, rule) for rule in EXCLUSIVE_INPUTS):
        return True
    total = _count("total_tokens", span)
    return total is not None and total == tokens + (output or 0) + cached


def _fits(span: Span, rule: ExclusiveInput) -> bool:
    return (
        (not rule.scope or span.scope == rule.scope or span.scope.startswith(f"{rule.scope}."))
        and rule.provider in (_first_text("provider", span) or "").lower()
        and (not rule.before or _version(span.scope_version) < _version(rule.before))
        and (not rule.has or rule.has in span.attributes)
        and (not rule.lacks or rule.lacks not in span.attributes)
    )


def _version(text: str) -> tuple[int, ...]:
    """The numbers of a version; an unknown one is later than all."""
    numbers = tuple(int(number) for number in re.findall(r"\d{1,9}", text)[:3])
    return numbers or (_MAX_TOKENS,)


def _fit(tokens: int | None) -> int | None:
    return tokens if tokens is None or tokens <= _MAX_TOKENS else None
