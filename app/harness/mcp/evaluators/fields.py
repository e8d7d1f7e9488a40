"""A mapping whose values the JSON of the answer has; what else it has does not matter."""

from collections.abc import Iterable
from typing import Any

from pydantic import JsonValue

from app.core.registry import suggest_names
from app.harness.json_objects import objects_in
from app.harness.mcp.config import Evaluator
from app.harness.mcp.evaluating import (
    EVALUATORS,
    Criterion,
    Evidence,
    Found,
    expected_items,
    is_pattern,
)
from app.harness.patterns import InvalidPattern, compile_pattern


def mappings(evaluator: Evaluator) -> list[JsonValue]:
    return [
        item
        for item in expected_items(evaluator)
        if isinstance(item, dict | list) and not is_pattern(item)
    ]


def has_fields(wanted: JsonValue, evidence: Evidence) -> Found:
    """The best of the JSON objects in the answer decides what is told."""
    differences = [difference(wanted, found) for found in objects_in(evidence.response)]
    if not differences:
        return Found(False, "the answer holds no JSON object")
    if None in differences:
        return Found(True, "every value is there")
    return Found(False, differences[0] or "")


def difference(wanted: Any, found: Any, path: str = "") -> str | None:
    """Where the first value differs, and how; None when all that is wanted is there."""
    if is_pattern(wanted):
        return _pattern_difference(wanted, found, path)
    if isinstance(wanted, dict):
        return _mapping_difference(wanted, found, path)
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            return f"{path} is no list of {len(wanted)}"
        pairs = enumerate(zip(wanted, found, strict=True))
        return _first(difference(each, other, f"{path}/{i}") for i, (each, other) in pairs)
    is_same = wanted == found and isinstance(wanted, bool) == isinstance(found, bool)
    return None if is_same else f"{path} is {found!r:.80}, not {wanted!r:.80}"


def _pattern_difference(wanted: dict[str, Any], found: Any, path: str) -> str | None:
    matched = isinstance(found, str) and bool(compile_pattern(wanted["regex"]).search(found))
    return None if matched == wanted.get("expect_match", True) else f"{path} is {found!r:.80}"


def _mapping_difference(wanted: dict[str, Any], found: Any, path: str) -> str | None:
    if not isinstance(found, dict):
        return f"{path} is no mapping"
    missing = [key for key in wanted if key not in found]
    if missing:
        return f"{path}/{missing[0]} is missing"
    return _first(difference(wanted[key], found[key], f"{path}/{key}") for key in wanted)


def _first(differences: Iterable[str | None]) -> str | None:
    return next((each for each in differences if each is not None), None)


def flaws(wanted: JsonValue) -> Iterable[str]:
    if isinstance(wanted, list):
        yield "a list within a list of what is expected has no meaning; write its items"
    elif isinstance(wanted, dict) and _looks_like_a_pattern(wanted):
        yield f"a pattern is written {{regex: …}}, not {{{next(iter(wanted))}: …}}"
    elif not wanted:
        yield "an empty mapping is met by any JSON; write what it is to hold"
    yield from pattern_flaws(wanted)


def _looks_like_a_pattern(wanted: dict[str, Any]) -> bool:
    """Whether its only key is nearly `regex`."""
    keys = list(wanted)
    return len(keys) == 1 and bool(suggest_names(keys[0], ["regex"]))


def pattern_flaws(wanted: Any) -> Iterable[str]:
    """Which patterns somewhere in a value cannot be used."""
    if is_pattern(wanted):
        try:
            compile_pattern(str(wanted["regex"]))
        except InvalidPattern as invalid:
            yield f"the pattern {wanted['regex']!r} cannot be used: {invalid}"
    elif isinstance(wanted, dict | list):
        for each in wanted.values() if isinstance(wanted, dict) else wanted:
            yield from pattern_flaws(each)


EVALUATORS.register(
    "fields",
    Criterion(
        summary="the JSON of the answer has these values; it may have more",
        wanted=mappings,
        find=has_fields,
        complaints=flaws,
    ),
)
