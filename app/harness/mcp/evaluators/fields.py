"""A mapping whose values the JSON of the answer has; what else it has does not matter."""

from collections.abc import Iterable
from typing import Any

from pydantic import JsonValue

from app.core.registry import suggest_names
from app.harness.json_in_text import objects_in
from app.harness.mcp.config import EvaluatorConfig
from app.harness.mcp.evaluator_registry import (
    EVALUATORS,
    Evaluator,
    EvaluatorEvidence,
    EvaluatorResult,
    expected_items,
    is_pattern,
)
from app.harness.patterns import InvalidPattern, compile_pattern


def select_mappings(evaluator: EvaluatorConfig) -> list[JsonValue]:
    return [
        item
        for item in expected_items(evaluator)
        if isinstance(item, dict | list) and not is_pattern(item)
    ]


def check_fields(expected: JsonValue, evidence: EvaluatorEvidence) -> EvaluatorResult:
    """The best of the JSON objects in the answer decides what is told."""
    differences = [find_difference(expected, actual) for actual in objects_in(evidence.response)]
    if not differences:
        return EvaluatorResult(False, "the answer holds no JSON object")
    if None in differences:
        return EvaluatorResult(True, "every value is there")
    return EvaluatorResult(False, differences[0] or "")


def find_difference(expected: Any, actual: Any, path: str = "") -> str | None:
    """Where the first value differs, and how; None when all that is wanted is there."""
    if is_pattern(expected):
        return _pattern_difference(expected, actual, path)
    if isinstance(expected, dict):
        return _mapping_difference(expected, actual, path)
    if isinstance(expected, list):
        if not isinstance(actual, list) or len(actual) != len(expected):
            return f"{path} is no list of {len(expected)}"
        pairs = enumerate(zip(expected, actual, strict=True))
        return _first_difference(
            find_difference(expected_element, actual_element, f"{path}/{i}")
            for i, (expected_element, actual_element) in pairs
        )
    is_same = expected == actual and isinstance(expected, bool) == isinstance(actual, bool)
    return None if is_same else f"{path} is {actual!r:.80}, not {expected!r:.80}"


def _pattern_difference(expected: dict[str, Any], actual: Any, path: str) -> str | None:
    matched = isinstance(actual, str) and bool(compile_pattern(expected["regex"]).search(actual))
    return None if matched == expected.get("expect_match", True) else f"{path} is {actual!r:.80}"


def _mapping_difference(expected: dict[str, Any], actual: Any, path: str) -> str | None:
    if not isinstance(actual, dict):
        return f"{path} is no mapping"
    missing = [key for key in expected if key not in actual]
    if missing:
        return f"{path}/{missing[0]} is missing"
    return _first_difference(
        find_difference(expected[key], actual[key], f"{path}/{key}") for key in expected
    )


def _first_difference(differences: Iterable[str | None]) -> str | None:
    return next((difference for difference in differences if difference is not None), None)


def validate_mapping(expected: JsonValue) -> Iterable[str]:
    if isinstance(expected, list):
        yield "a list within a list of what is expected has no meaning; write its items"
    elif isinstance(expected, dict) and _looks_like_a_pattern(expected):
        yield f"a pattern is written {{regex: …}}, not {{{next(iter(expected))}: …}}"
    elif not expected:
        yield "an empty mapping is met by any JSON; write what it is to hold"
    yield from validate_patterns(expected)


def _looks_like_a_pattern(expected: dict[str, Any]) -> bool:
    """Whether its only key is nearly `regex`."""
    keys = list(expected)
    return len(keys) == 1 and bool(suggest_names(keys[0], ["regex"]))


def validate_patterns(expected: Any) -> Iterable[str]:
    """Which patterns somewhere in a value cannot be used."""
    if is_pattern(expected):
        try:
            compile_pattern(str(expected["regex"]))
        except InvalidPattern as invalid:
            yield f"the pattern {expected['regex']!r} cannot be used: {invalid}"
    elif isinstance(expected, dict | list):
        for element in expected.values() if isinstance(expected, dict) else expected:
            yield from validate_patterns(element)


EVALUATORS.register(
    "fields",
    Evaluator(
        summary="the JSON of the answer has these values; it may have more",
        select=select_mappings,
        evaluate=check_fields,
        validate=validate_mapping,
    ),
)
