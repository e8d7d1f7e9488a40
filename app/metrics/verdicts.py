"""Reading what a judge wrote, which may be more than it was asked for."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from app.metrics.types import JudgeError


def verdict_of(content: str) -> Mapping[str, Any]:
    """The one JSON object with a score in what a judge wrote; prose or a fence may stand around it.

    Raises: `JudgeError` where there is none, or several: one may be a quotation of the trace.
    """
    found = [document for document in _objects(content) if "score" in document]
    if len(found) != 1:
        what = "no JSON object with a score" if not found else "several scores"
        raise JudgeError(f"the judge wrote {what}: {content.strip()!r:.200}")
    return found[0]


def _objects(content: str) -> Iterator[dict[str, Any]]:
    """The JSON objects that stand in a text, not those within them, from the left."""
    at = content.find("{")
    while at >= 0:
        try:
            document, end = _DECODER.raw_decode(content, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if isinstance(document, dict):
                yield document
        at = content.find("{", end)


def _unequivocal(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return members


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unequivocal)
