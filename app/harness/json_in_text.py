"""Finds JSON objects in a text."""

import json
from collections.abc import Iterator
from typing import Any, Final

MOST_TRIES: Final = 200


def objects_in(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of a text from left to right, with prose and fences around them.

    After 200 braces that begin none the rest is left alone.
    """
    decoder = json.JSONDecoder()
    start = text.find("{")
    tries = 0
    while start >= 0 and tries < MOST_TRIES:
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            tries, end = tries + 1, start + 1
        else:
            yield value
        start = text.find("{", end)
