"""Inputs and outputs as texts, in one form for both generations of the API.

The older API sends JSON values, the newer one raw texts, in which the text `1` and the number 1
look alike. So a raw text is read as JSON only where it begins like an object or a list, and every
object or list is written in one canonical form: two that are equal are equal as texts.
"""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from app.core.strict_json import parse_finite_json
from app.traces.sources.langfuse.errors import BadResponse


def normalize_raw_text(value: Any) -> str | None:
    """The text of a field of the v4 API; the empty text stands for none."""
    if not isinstance(value, str):
        return normalize_json_value(value)
    if value[:1] in ("{", "["):
        return _canonical_json(value)
    return value or None


def normalize_json_value(value: Any) -> str | None:
    """The text of a JSON value of the v3 API; null and the empty text stand for none."""
    if value is None or isinstance(value, str):
        return value or None
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _canonical_json(text: str) -> str:
    """The canonical form of what a text holds; the text itself when it holds no JSON after all,
    or numbers that would not survive.
    """
    try:
        value = parse_finite_json(text)
        return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)
    except (ValueError, RecursionError):
        return text


JSON = dict[str, Any]


def get_text(row: Mapping[str, Any], name: str) -> str | None:
    """A text that is not empty."""
    value = row.get(name)
    return value if isinstance(value, str) and value else None


def require_text(row: Mapping[str, Any], name: str, row_name: str) -> str:
    """Raises: `BadResponse` when it is not there."""
    value = get_text(row, name)
    if value is None:
        raise BadResponse(
            f"Langfuse sent {row_name} without {name}; check that langfuseUrl is the address of a"
            " Langfuse server of version 3 or newer"
        )
    return value


def parse_number(value: object) -> float | None:
    """A finite number; truth values are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        return None
    return number if math.isfinite(number) else None


def get_object(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = row.get(name)
    return value if isinstance(value, dict) else {}


def get_time_ms(row: Mapping[str, Any], name: str) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 time."""
    value = row.get(name)
    if not isinstance(value, str):
        return None
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def format_time(milliseconds: int) -> str:
    """A time as the API reads it."""
    at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def first_tags(*values: object) -> tuple[str, ...]:
    """The tags of the first value that is a list, or a list written as JSON."""
    for value in values:
        given = parse_embedded_json(value)
        if isinstance(given, list):
            return tuple(tag for tag in given if isinstance(tag, str))
    return ()


def parse_embedded_json(value: object) -> object:
    """A value of metadata, which is often JSON inside of a text."""
    if not isinstance(value, str):
        return value
    try:
        found: object = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return found
