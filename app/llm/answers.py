"""Answers of servers as plain JSON: read leniently, refused clearly.

The SDKs' own models take anything for an answer, a gateway's page among it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from app.core.strict_json import parse_finite_json
from app.core.text import replace_unstorable_in_json
from app.llm.conversation import LlmError, Turn, Usage

JSON = dict[str, Any]

MOST = 2**53  # tokens; a number beyond is none that anybody counted
SHOWN = 100  # characters of what cannot be read
MAX_DEPTH = 64  # levels of arguments; what reads and writes them gives up at a few hundred


class Arguments(NamedTuple):
    """The arguments of a tool call, or none and what is wrong with them."""

    value: JSON
    flaw: str | None


def read_answer(body: bytes, read: Callable[[JSON], Turn]) -> Turn:
    """The turn that an answer holds. Raises LlmFailure when it holds none."""
    try:
        return read(replace_unstorable_in_json(parse_finite_json(body)))
    except (ValueError, RecursionError, KeyError, IndexError, TypeError, AttributeError):
        shown = body[:SHOWN].decode("utf-8", "replace")
        raise LlmError(f"the answer cannot be read: {shown!r}") from None


def read_arguments(given: Any) -> Arguments:
    """The object that arguments are, or that a text of JSON stands for; no text is an empty one."""
    if isinstance(given, str) and given.strip():
        try:
            given = replace_unstorable_in_json(parse_finite_json(given))
        except (ValueError, RecursionError) as error:
            return Arguments({}, f"the arguments are not valid JSON: {error}")
    elif not given:
        given = {}
    if not isinstance(given, dict):
        return Arguments({}, "the arguments are not a JSON object")
    if _is_deeper(given, MAX_DEPTH):
        return Arguments({}, f"the arguments are nested more than {MAX_DEPTH} levels deep")
    return Arguments(given, None)


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether lists and objects stand in each other to more than so many levels."""
    level = [value]
    for _ in range(levels):
        nested = (each for each in level if isinstance(each, dict | list))
        level = [
            part for each in nested for part in (each.values() if isinstance(each, dict) else each)
        ]
    return any(isinstance(each, dict | list) for each in level)


def text_of(value: Any) -> str:
    """A text that must be one; some servers tell it in parts. Raises TypeError."""
    if isinstance(value, list):
        return "".join(text_of(part["text"]) for part in value if part.get("type") == "text")
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < MOST


def read_usage(told: Any, read: str, written: str) -> Usage | None:
    """The tokens under these names; None when a server does not tell them."""
    if not isinstance(told, dict) or not all(_is_count(told.get(name)) for name in (read, written)):
        return None
    return Usage(input_tokens=told[read], output_tokens=told[written])
