"""Evaluator `regex`: an RE2 pattern matches in the answer, or with `expect_match: false` does not."""

from collections.abc import Iterable
from typing import Any

from pydantic import JsonValue

from mosaico.harness.mcp.config import EvaluatorConfig
from mosaico.harness.mcp.evaluator_registry import (
    EVALUATORS,
    Evaluator,
    EvaluatorEvidence,
    EvaluatorResult,
    expected_items,
    is_pattern,
)
from mosaico.harness.text_search import InvalidPattern, compile_pattern


def select_patterns(evaluator: EvaluatorConfig) -> list[JsonValue]:
    selected = [item for item in expected_items(evaluator) if is_pattern(item)]
    if evaluator.regex is not None:
        selected.append({"regex": evaluator.regex, "expect_match": evaluator.expect_match})
    return selected


def check_pattern(expected: JsonValue, evidence: EvaluatorEvidence) -> EvaluatorResult:
    pattern: Any = expected
    is_found = compile_pattern(pattern["regex"]).search(evidence.response) is not None
    is_wanted = pattern.get("expect_match", True)
    return EvaluatorResult(is_found == is_wanted, "matched" if is_found else "not matched")


def validate_pattern(expected: JsonValue) -> Iterable[str]:
    pattern: Any = expected
    if not isinstance(pattern["regex"], str) or not pattern["regex"]:
        yield "regex must be a text that is not empty; write a pattern in quotes"
        return
    if not isinstance(pattern.get("expect_match", True), bool):
        yield "expect_match must be true or false"
    try:
        compile_pattern(pattern["regex"])
    except InvalidPattern as invalid:
        yield f"the pattern {pattern['regex']!r} is invalid: {invalid}"


EVALUATORS.register(
    "regex",
    Evaluator(
        summary="this pattern matches in the answer; with expect_match: false it does not",
        select=select_patterns,
        evaluate=check_pattern,
        validate=validate_pattern,
    ),
)
