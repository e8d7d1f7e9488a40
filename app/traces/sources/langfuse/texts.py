"""Inputs and outputs as texts, in one form for both generations of the API.

The older API sends JSON values, the newer one raw texts, in which the text `1` and the number 1
look alike. So a raw text is read as JSON only where it begins like an object or a list, and every
object or list is written in one canonical form: two that are equal are equal as texts.
"""

import json
from typing import Any


def text_of_raw(value: Any) -> str | None:
    """The text of a field of the v4 API; the empty text stands for none."""
    if not isinstance(value, str):
        return text_of_value(value)
    if value[:1] in ("{", "["):
        return _canonical_or(value)
    return value or None


def text_of_value(value: Any) -> str | None:
    """The text of a JSON value of the v3 API; null and the empty text stand for none."""
    if value is None or isinstance(value, str):
        return value or None
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _canonical_or(text: str) -> str:
    """The canonical form of what a text holds; the text itself when it holds no JSON after all,
    or numbers that would not survive.
    """
    try:
        value = json.loads(text, parse_constant=_refuse)
        return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)
    except (ValueError, RecursionError):
        return text


def _refuse(name: str) -> None:
    raise ValueError(name)
