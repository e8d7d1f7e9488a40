"""Traces as NDJSON (one JSON object per line): the format of uploads and of `mosaico score`."""

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from mosaico.core.errors import AppError
from mosaico.core.ids import is_path_segment
from mosaico.core.strict_json import MAX_INTEGER, float_of, is_number, parse_json
from mosaico.core.text import unstorable_reason
from mosaico.harness.transcript import Transcript, document_of, parse_transcript
from mosaico.traces.files.ignored_fields import IgnoredFields, describe_ignored
from mosaico.traces.model_responses import ValueForm
from mosaico.traces.types import MAX_ID_CHARS, MAX_TRIAL, ToolCall, Trace, TraceOutcome
from mosaico.traces.upload_errors import DuplicateTrace, InvalidTrace
from mosaico.traces.value_text import NoText, TextRole, read_text

T = TypeVar("T")

MAX_TURNS: Final = 2**31 - 1
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# The keys of a trace and of a tool call, by the names of their fields.
TRACE_KEYS: Final = {field.name: to_camel(field.name) for field in fields(Trace)}
CALL_KEYS: Final = {field.name: to_camel(field.name) for field in fields(ToolCall)}


class IgnoredKeys:
    """Collects the keys of traces and of their tool calls that are not used, such as misspelled
    ones.
    """

    def __init__(self) -> None:
        self._of_traces = IgnoredFields(TRACE_KEYS.values())
        self._of_calls = IgnoredFields(CALL_KEYS.values(), "toolCalls[].")

    def check(self, document: Mapping[str, Any]) -> None:
        """Add the keys of a valid trace."""
        self._of_traces.check(document)
        for call in document.get("toolCalls") or ():
            self._of_calls.check(call)

    @property
    def names(self) -> list[str]:
        return [*self._of_traces.names, *self._of_calls.names]

    def notes(self) -> Iterator[str]:
        """A sentence for the user, if there are any."""
        return describe_ignored("keys", self._of_traces, self._of_calls)


def iter_traces(
    lines: Iterable[str | bytes], ignored_keys: IgnoredKeys | None = None
) -> Iterator[Trace]:
    """Parse the traces of NDJSON lines one by one; blank lines are skipped.

    Memory grows with the IDs, not with the texts.
    Raises: `Invalid` with `line N:` (counted from 1) for a line that is not a trace, and for a
            traceId that occurs on an earlier line.
    """
    first_lines: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        trace = parse_trace_line(line, number, ignored_keys)
        first_line = first_lines.setdefault(trace.trace_id, number)
        if first_line != number:
            raise DuplicateTrace(
                f"line {number}: traceId {trace.trace_id!r} is already on line {first_line};"
                " give each trace a unique ID."
            )
        yield trace


def parse_trace_line(line: str | bytes, number: int, ignored_keys: IgnoredKeys | None) -> Trace:
    """Parse one line; keys that are not used are added to `ignored_keys`.

    Raises: `Invalid` with a message that starts with `line N:`, or `line N, column M:` where the
            JSON is broken.
    """
    if isinstance(line, bytes) and number == 1:
        line = line.removeprefix(BYTE_ORDER_MARK)
    try:
        document = parse_json(line)
        trace = parse_trace(document)
    except AppError as error:
        raise InvalidTrace(f"line {number}{_describe_error(error)}", errors=error.errors) from None
    if ignored_keys is not None:
        ignored_keys.check(document)
    return trace


def _describe_error(error: AppError) -> str:
    """The end of an error message after the line number: the column of the JSON error."""
    match error.__cause__:
        case json.JSONDecodeError(msg=message, colno=column):
            return (
                f", column {column}: not valid JSON: {message.lower()}; write one object per line"
            )
        case UnicodeDecodeError(start=start):
            return f": byte {start} is not UTF-8; encode the text as UTF-8"
        case _:
            return f": {error.detail}"


def parse_trace(value: Any) -> Trace:
    """Parse a JSON object as a trace; unknown keys are ignored, and null equals a missing key, except
    for the output of a scored trace: null is an agent that answered nothing, a missing key an answer
    that was not recorded.

    `traceId` is required, and is the default of `itemId`. The first of `expectedAny` or `expectedAll` is the
    `expectedOutput`.
    Raises: `Invalid` with the key, for a value of another type, a number that is not finite, and a
            text with NUL or a lone surrogate.
    """
    if not isinstance(value, Mapping):
        _reject("a trace", "an object", value)
    if value.get("traceId") is None:
        raise InvalidTrace("traceId is missing; give each trace an ID.")
    # By the keys of the document: most traces have a few of them.
    parsed: dict[str, Any] = {
        field.name: field.parse(content, key)
        for key, content in value.items()
        if content is not None and (field := _FIELDS.get(key)) is not None
    }
    expected = parsed.get("expected_any") or parsed.get("expected_all")
    if expected:
        parsed["expected_output"] = expected[0]
    trace = Trace(**{"item_id": parsed["trace_id"], **parsed})
    is_empty_answer = trace.outcome is TraceOutcome.SCORED and value.get("output", "") is None
    return dataclasses.replace(trace, output="") if is_empty_answer else trace


def format_trace_line(trace: Trace) -> bytes:
    """Format a trace as a line; keys without a value are omitted."""
    return json.dumps(trace_document(trace), ensure_ascii=False).encode() + b"\n"


def trace_document(trace: Trace) -> dict[str, Any]:
    """A trace as a JSON object; keys without a value are omitted."""
    calls, transcript = trace.tool_calls, trace.transcript
    document = _present_fields(trace, TRACE_KEYS) | {
        "expectedAny": list(trace.expected_any) or None,
        "expectedAll": list(trace.expected_all) or None,
        "tags": list(trace.tags) or None,
        "attributes": dict(trace.attributes) or None,
        "toolCalls": None if calls is None else [_present_fields(c, CALL_KEYS) for c in calls],
        "scores": dict(trace.scores) or None,
        "transcript": None if transcript is None else document_of(transcript),
    }
    return {key: value for key, value in document.items() if value is not None}


def _present_fields(source: Trace | ToolCall, keys: Mapping[str, str]) -> dict[str, Any]:
    values = ((key, getattr(source, name)) for name, key in keys.items())
    return {key: value for key, value in values if value is not None}


def _identifier(value: Any, key: str) -> str:
    text = _text(value, key)
    if not text.strip() or len(text) > MAX_ID_CHARS:
        raise InvalidTrace(
            f"{key} has {len(text)} characters or is blank; use 1 to {MAX_ID_CHARS} characters."
        )
    return text


def _trace_id(value: Any, key: str) -> str:
    """An ID that its page and the API can have in a path."""
    text = _identifier(value, key)
    if not is_path_segment(text):
        raise InvalidTrace(f"{key} is {text!r}, which no address can contain; use another ID.")
    return text


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        _reject(key, "a text (put other values into JSON text)", value)
    flaw = unstorable_reason(value)
    if flaw is not None:
        raise InvalidTrace(f"{key} {flaw}.")
    return value


def _read_text(value: Any, key: str, role: TextRole) -> str:
    """A text, or the text of messages, of a response of a model or of an object with one text."""
    if not isinstance(value, Mapping | list):
        return _text(value, key)
    reading = read_text(value, role)
    is_silent = reading.reason is NoText.TOOL_CALLS
    is_known = reading.is_unwrapped and reading.form is not ValueForm.ONE_TEXT
    if not is_known or (reading.text is None and not is_silent):
        _reject(
            key,
            "a text (put other values into JSON text)",
            value,
        )
    return _text(reading.text or "", key)


def _count(value: Any, key: str, most: int = MAX_INTEGER) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        _reject(key, f"a whole number from 0 to {most}", value)
    return value


def _amount(value: Any, key: str) -> float:
    amount = _number(value, key)
    if amount < 0:
        _reject(key, "a number of at least 0", value)
    return amount


def _number(value: Any, key: str) -> float:
    if not is_number(value):
        _reject(key, "a number", value)
    number = float_of(value)
    if not math.isfinite(number):
        _reject(key, "a finite number", value)
    return number


def _outcome(value: Any, key: str) -> TraceOutcome:
    try:
        return TraceOutcome(value)
    except ValueError:
        _reject(key, f"one of {', '.join(TraceOutcome)}", value)


def _list(value: Any, key: str, parse_member: Callable[[Any, str], T]) -> tuple[T, ...]:
    if not isinstance(value, list):
        _reject(key, "a list", value)
    return tuple(parse_member(member, f"{key}[{index}]") for index, member in enumerate(value))


def _mapping(
    value: Any, key: str, expected: str, parse_member: Callable[[Any, str], T]
) -> dict[str, T]:
    if not isinstance(value, Mapping):
        _reject(key, expected, value)
    return {
        _text(name, f"a name in {key}"): parse_member(member, f"{key}[{name!r:.80}]")
        for name, member in value.items()
        if member is not None
    }


def _tags(value: Any, key: str) -> tuple[str, ...]:
    return _list(value, key, _text)


def _attributes(value: Any, key: str) -> Mapping[str, str]:
    return _mapping(value, key, "an object of texts", _text)


def _tool_calls(value: Any, key: str) -> tuple[ToolCall, ...]:
    return _list(value, key, _tool_call)


def _tool_call(value: Any, key: str) -> ToolCall:
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        _reject(key, 'an object with a "name"', value)
    arguments, ok, latency_ms = (value.get(name) for name in ("arguments", "ok", "latencyMs"))
    if arguments is not None and not isinstance(arguments, Mapping):
        _reject(f"{key}.arguments", "an object", arguments)
    if ok is not None and not isinstance(ok, bool):
        _reject(f"{key}.ok", "true or false", ok)
    return ToolCall(
        name=_text(value["name"], f"{key}.name"),
        arguments=arguments,
        ok=ok,
        latency_ms=None if latency_ms is None else _amount(latency_ms, f"{key}.latencyMs"),
    )


def _scores(value: Any, key: str) -> Mapping[str, float]:
    return _mapping(value, key, "an object of numbers", _number)


def _transcript(value: Any, key: str) -> Transcript:
    try:
        return parse_transcript(value)
    except ValidationError:
        _reject(key, "a transcript as the API returns it with a trace", value)


def _reject(key: str, expected: str, value: Any) -> NoReturn:
    type_names = {dict: "an object", list: "a list", bool: "a boolean"}
    actual = type_names.get(type(value), "null" if value is None else f"{value!r:.40}")
    raise InvalidTrace(f"{key} must be {expected}, not {actual}; correct it.")


class _TraceField(NamedTuple):
    """A field of a trace; `parse` gets a value that is not null and its key, and rejects a wrong one."""

    name: str
    parse: Callable[[Any, str], object]


_PARSERS: Final[Mapping[str, Callable[[Any, str], object]]] = {
    "trace_id": _trace_id,
    "item_id": _identifier,
    "trial": partial(_count, most=MAX_TRIAL),
    "outcome": _outcome,
    "input": partial(_read_text, role=TextRole.QUESTION),
    "expected_output": partial(_read_text, role=TextRole.REFERENCE),
    "expected_any": _tags,
    "expected_all": _tags,
    "output": partial(_read_text, role=TextRole.ANSWER),
    "error": _text,
    "tags": _tags,
    "attributes": _attributes,
    "url": _text,
    "input_tokens": _count,
    "output_tokens": _count,
    "cost_usd": _amount,
    "latency_ms": _amount,
    "tool_calls": _tool_calls,
    "turns": partial(_count, most=MAX_TURNS),
    "scores": _scores,
    "transcript": _transcript,
}
_FIELDS: Final = {TRACE_KEYS[name]: _TraceField(name, parse) for name, parse in _PARSERS.items()}
