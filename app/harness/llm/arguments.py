"""The arguments of a tool call as providers send them: JSON in a text, right or wrong."""

import json
from typing import Any, NamedTuple


class Arguments(NamedTuple):
    """The arguments, or none and what is wrong with them."""

    value: dict[str, Any]
    flaw: str | None


def read_arguments(text: str | None) -> Arguments:
    """The object that a text of JSON stands for; no text at all is an empty one."""
    if not text or not text.strip():
        return Arguments({}, None)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Arguments({}, f"the arguments are not valid JSON: {error}")
    if not isinstance(value, dict):
        return Arguments({}, "the arguments are not a JSON object")
    return Arguments(value, None)
