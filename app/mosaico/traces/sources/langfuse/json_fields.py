"""Fields of Langfuse's JSON: lenient readers, texts in one form for both API versions, attributes.

Attributes of a trace are its session, user, release, version, environment and metadata. Texts are
compared by metrics: the answer of a chat, and no references to media.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import jmespath
from jmespath.exceptions import JMESPathError

from mosaico.core.strict_json import float_of, is_number, parse_finite_json, text_of_json
from mosaico.traces.production import TraceFilters
from mosaico.traces.references import read_expected
from mosaico.traces.registry import TraceQuery
from mosaico.traces.sources.langfuse.failures import BadResponse
from mosaico.traces.types import Trace
from mosaico.traces.value_text import NoText, TextRole, read_text

JSON = dict[str, Any]
FIELDS: Final = {
    "userId": "user",
    "sessionId": "session",
    "release": "release",
    "version": "version",
    "environment": "environment",
}
# Written by SDKs into the metadata of every span, or read elsewhere.
_TECHNICAL_KEYS: Final = frozenset(
    {
        *("experiment_name", "experiment_run_name", "dataset_id", "dataset_item_id"),
        *("resourceAttributes", "scope", "attributes", "trial", "tags"),
    }
)
# API v4 returns the objects among them as one key for each of their values.
_TECHNICAL_PREFIXES: Final = (
    *("resourceAttributes.", "scope.", "attributes."),
    *("service.instance.", "telemetry.", "process."),
)
MEDIA_ATTRIBUTE: Final = "media"
_MEDIA: Final = re.compile(r"@@@langfuseMedia:type=([^|@]*)\|id=([^|@]*)\|source=[^@]*@@@")


def normalize_raw_text(value: Any) -> str | None:
    """The canonical text of a field of API v4; None for an empty text."""
    if not isinstance(value, str):
        return text_of_json(value)
    if value[:1] in ("{", "["):
        return _canonical_json(value)
    return value or None


def _canonical_json(text: str) -> str:
    """The canonical form of JSON text; the text itself when it is not valid or not finite JSON."""
    try:
        value = parse_finite_json(text)
        return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)
    except (ValueError, RecursionError):
        return text


def get_text(row: Mapping[str, Any], name: str) -> str | None:
    """A text field; None when it is missing, empty or not a text."""
    value = row.get(name)
    return value if isinstance(value, str) and value else None


def require_text(row: Mapping[str, Any], name: str, row_name: str) -> str:
    """A text field that must exist; `row_name` names the row for the user.

    Raises: `BadResponse`.
    """
    value = get_text(row, name)
    if value is None:
        raise BadResponse(
            f"Langfuse returned {row_name} without {name}; check that langfuseUrl is the address of"
            " a Langfuse server of version 3 or newer"
        )
    return value


def parse_number(value: object) -> float | None:
    """A finite number as float; None for every other value, booleans included."""
    if not is_number(value):
        return None
    number = float_of(value)
    return number if math.isfinite(number) else None


def get_object(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object field; empty when it is missing or not an object."""
    value = row.get(name)
    return value if isinstance(value, dict) else {}


def get_time_ms(row: Mapping[str, Any], name: str) -> int | None:
    """An ISO 8601 time field in milliseconds since 1970; None when it is missing or malformed."""
    value = row.get(name)
    return parse_time_ms(value) if isinstance(value, str) else None


def parse_time_ms(text: str) -> int | None:
    """An ISO 8601 time in milliseconds since 1970; None when it is malformed."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    # The API's times are UTC, some without saying so. Rounded: a float cannot hold each millisecond.
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def format_time(milliseconds: int) -> str:
    """Milliseconds since 1970 as a time parameter of the API."""
    time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def first_tags(*values: object) -> tuple[str, ...]:
    """The tags in the first value that is a list or the JSON text of a list."""
    for value in values:
        tags = parse_embedded_json(value)
        if isinstance(tags, list):
            return tuple(tag for tag in tags if isinstance(tag, str))
    return ()


def parse_embedded_json(value: object) -> object:
    """The value of JSON text, which is how metadata often comes; any other value unchanged."""
    if not isinstance(value, str):
        return value
    try:
        parsed: object = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return parsed


def parse_fields(row: Mapping[str, Any]) -> dict[str, str]:
    """The attributes that an observation or a trace has as fields of its own."""
    return {
        attribute: text
        for name, attribute in FIELDS.items()
        if (text := get_text(row, name)) is not None
    }


def parse_metadata(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Metadata as attributes: nested objects get names with dots; lists, and what SDKs write about
    themselves, are left out.
    """
    own = {name: value for name, value in metadata.items() if name not in _TECHNICAL_KEYS}
    return {
        name: text for name, text in _flatten("", own) if not name.startswith(_TECHNICAL_PREFIXES)
    }


def has_metadata(row: Mapping[str, Any], expected: Mapping[str, str]) -> bool:
    """Return whether the metadata of an observation or a trace has these values, whatever their
    JSON types.
    """
    if not expected:
        return True
    # A filter may name what SDKs write about themselves, which is no attribute.
    attributes = dict(_flatten("", get_object(row, "metadata")))
    return all(attributes.get(name) == value for name, value in expected.items())


def text_options(column: str, operator: str, values: Sequence[str]) -> JSON:
    """A filter on a text column that compares it with several values."""
    return {
        "type": "stringOptions",
        "column": column,
        "operator": operator,
        "value": list(values),
    }


def equals(column: str, *values: str) -> JSON:
    """A filter on a text column: equal to the value, or to one of several values."""
    # Only the filter with `=` accepts every character: plain parameters are split at commas.
    if len(values) == 1:
        return {"type": "string", "column": column, "operator": "=", "value": values[0]}
    return text_options(column, "any of", values)


def trace_conditions(
    filters: TraceFilters, *, name_column: str, match_any: Callable[[str, Sequence[str]], JSON]
) -> Iterator[JSON]:
    """The conditions on a trace that both API versions have; `match_any` is that on a text with several
    allowed values. The condition on metadata lets similar values pass.
    """
    texts = {name_column: filters.name, "release": filters.release, "version": filters.version}
    for column, text in texts.items():
        if text is not None:
            yield equals(column, text)
    options = {
        "environment": filters.environment,
        "userId": filters.user,
        "sessionId": filters.session,
    }
    for column, values in options.items():
        if values:
            yield match_any(column, values)
    if filters.tags:
        yield {**text_options("tags", "all of", filters.tags), "type": "arrayOptions"}
    yield from metadata_conditions(filters)


def metadata_conditions(filters: TraceFilters) -> Iterator[dict[str, str]]:
    """Conditions that let every value of `has_metadata` pass, and similar values too."""
    for key, value in filters.metadata.items():
        # Values are stored as JSON or as plain text: `=` would miss one of them, and `contains` a text
        # that JSON escapes.
        if json.dumps(value, ensure_ascii=False) == f'"{value}"':
            yield {
                "type": "stringObject",
                "column": "metadata",
                "key": key,
                "operator": "contains",
                "value": value,
            }


def _flatten(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, raw_value in values.items():
        # Twice: API v4 returns metadata values as JSON in a string, and SDKs write a JSON string.
        value = parse_embedded_json(parse_embedded_json(raw_value))
        match value:
            case dict():
                yield from _flatten(f"{prefix}{name}.", value)
            case bool():
                yield f"{prefix}{name}", str(value).lower()
            case str() | int() | float() if value != "":
                yield f"{prefix}{name}", str(value)
            case _:
                pass


def clean_texts(trace: Trace, query: TraceQuery) -> Trace:
    """The trace with the texts that the paths of the query select, and with its media named. Without
    a path, all three are read by `value_text`.

    References to media are not compared as text: they leave the output and the expected output, and
    are named in the attribute `media` and in the input. An output of nothing but media is missing.
    """
    output = _select(trace.output, query.output_path, otherwise=_read_answer)
    if output is None and trace.output is not None:
        # The agent was asked, and its answer lacks the text: an empty answer, not a missing one.
        output = ""
    expected, expected_any = trace.expected_output, tuple[str, ...]()
    if query.expected_path is not None:
        expected = _select(expected, query.expected_path, otherwise=lambda text: text)
    elif expected is not None and expected[:1] in ("{", "["):
        expected, expected_any = read_expected(expected)
    input_text = _select(trace.input, query.input_path, otherwise=_read_question)
    media = [*_names_of_media(trace.output), *_names_of_media(trace.expected_output)]
    attributes = {**trace.attributes, MEDIA_ATTRIBUTE: ", ".join(media)} if media else None
    return replace(
        trace,
        input=input_text and _MEDIA.sub(lambda match: f"[{match[1]} {match[2]}]", input_text),
        output=_without_media(output),
        expected_output=_without_media(expected),
        expected_any=expected_any,
        attributes=attributes or trace.attributes,
    )


def _select(
    text: str | None, path: str | None, *, otherwise: Callable[[str | None], str | None]
) -> str | None:
    """The selection of a path in the JSON text of an object or a list: a text, or the canonical JSON text
    of any other value. None if it selects nothing. A text that is not such JSON stays as it is.
    """
    if path is None:
        return otherwise(text)
    if text is None or text[:1] not in ("{", "["):
        return text
    try:
        value = parse_finite_json(text)
    except (ValueError, RecursionError):
        return text
    try:
        return text_of_json(jmespath.search(path, value))
    # A function that does not accept the type or the size of a value selects nothing.
    except (JMESPathError, ArithmeticError):
        return None


def _read_question(text: str | None) -> str | None:
    """The question in the JSON text of messages or of an object with one text; any other text unchanged."""
    if text is None or text[:1] not in ("{", "["):
        return text
    return read_text(text, TextRole.QUESTION, is_encoded=True).text or text


def _read_answer(text: str | None) -> str | None:
    """The text of the answer in the JSON text of a message, a response or an object with one text; any other text
    unchanged, None for tool calls without a text.
    """
    if text is None or text[:1] not in ("{", "["):
        return text
    reading = read_text(text, is_encoded=True)
    is_silent = reading.reason is NoText.TOOL_CALLS
    return reading.text if reading.text is not None or is_silent else text


def _without_media(text: str | None) -> str | None:
    if text is None or not _MEDIA.search(text):
        return text
    return _MEDIA.sub("", text).strip() or None


def _names_of_media(text: str | None) -> Iterator[str]:
    return (f"{match[1]} {match[2]}" for match in _MEDIA.finditer(text or ""))
