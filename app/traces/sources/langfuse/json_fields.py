"""Fields of Langfuse's JSON: lenient readers, and texts in one form for both API versions.

API v3 sends inputs and outputs as JSON values, API v4 as raw text, in which the text `1` and the
number 1 look the same. A raw text is therefore parsed as JSON only if it starts like an object or
an array, and objects and arrays are written in one canonical form: equal values give equal texts.

The readers treat a value of an unexpected type as missing, because one bad row must not reject a
whole page.
"""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from app.core.strict_json import parse_finite_json
from app.traces.sources.langfuse.errors import BadResponse

JSON = dict[str, Any]


def normalize_raw_text(value: Any) -> str | None:
    """The canonical text of a field of API v4; None for an empty text."""
    if not isinstance(value, str):
        return normalize_json_value(value)
    if value[:1] in ("{", "["):
        return _canonical_json(value)
    return value or None


def normalize_json_value(value: Any) -> str | None:
    """The canonical text of a JSON value of API v3; None for null and an empty text."""
    if value is None or isinstance(value, str):
        return value or None
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


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
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer with hundreds of digits
        return None
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
