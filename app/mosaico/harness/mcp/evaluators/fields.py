"""Evaluator `fields`: a JSON object in the answer includes the expected values."""

from collections.abc import Iterable
from typing import Any

from pydantic import JsonValue

from mosaico.core.registry import suggest_names
from mosaico.harness.mcp.config import EvaluatorConfig
from mosaico.harness.mcp.evaluator_registry import (
    EVALUATORS,
    Evaluator,
    EvaluatorEvidence,
    EvaluatorResult,
    expected_items,
    is_pattern,
)
from mosaico.harness.text_search import InvalidPattern, compile_pattern, objects_in


def select_mappings(evaluator: EvaluatorConfig) -> list[JsonValue]:
    return [
        item
        for item in expected_items(evaluator)
        if isinstance(item, dict | list) and not is_pattern(item)
    ]


def check_fields(expected: JsonValue, evidence: EvaluatorEvidence) -> EvaluatorResult:
    """Passes when one JSON object in the answer matches; else reports the first object's difference."""
    differences = [find_difference(expected, actual) for actual in objects_in(evidence.response)]
    if not differences:
        return EvaluatorResult(False, "the answer contains no JSON object")
    if None in differences:
        return EvaluatorResult(True, "all values match")
    return EvaluatorResult(False, differences[0] or "")


def find_difference(expected: Any, actual: Any, path: str = "") -> str | None:
    """The first difference, with its path; None when `actual` includes everything expected."""
    if is_pattern(expected):
        return _pattern_difference(expected, actual, path)
    if isinstance(expected, dict):
        return _mapping_difference(expected, actual, path)
    if isinstance(expected, list):
        if not isinstance(actual, list) or len(actual) != len(expected):
            return f"{path} is not a list of {len(expected)} elements"
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
        return f"{path} is not a mapping"
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
        yield "a list inside the list of expected values is not supported; write its elements"
    elif isinstance(expected, dict) and _looks_like_a_pattern(expected):
        yield f"write a pattern as {{regex: …}}, not {{{next(iter(expected))}: …}}"
    elif not expected:
        yield "an empty mapping matches every JSON object; write the expected keys"
    yield from validate_patterns(expected)


def _looks_like_a_pattern(expected: dict[str, Any]) -> bool:
    """Return whether the only key of a mapping resembles `regex`."""
    keys = list(expected)
    return len(keys) == 1 and bool(suggest_names(keys[0], ["regex"]))


def validate_patterns(expected: Any) -> Iterable[str]:
    """The errors of all patterns inside a value."""
    if is_pattern(expected):
        try:
            compile_pattern(str(expected["regex"]))
        except InvalidPattern as invalid:
            yield f"the pattern {expected['regex']!r} is invalid: {invalid}"
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
