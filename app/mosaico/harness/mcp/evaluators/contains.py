"""Evaluator `contains`: the answer contains a text, case-sensitive."""

from collections.abc import Iterable

from pydantic import JsonValue

from mosaico.harness.mcp.config import EvaluatorConfig
from mosaico.harness.mcp.evaluator_registry import (
    EVALUATORS,
    Evaluator,
    EvaluatorEvidence,
    EvaluatorResult,
    expected_items,
)


def select_texts(evaluator: EvaluatorConfig) -> list[JsonValue]:
    return [item for item in expected_items(evaluator) if isinstance(item, str)]


def check_contains(expected: JsonValue, evidence: EvaluatorEvidence) -> EvaluatorResult:
    if str(expected) in evidence.response:
        return EvaluatorResult(True, "found")
    return EvaluatorResult(False, "not found in the answer")


def validate_text(expected: JsonValue) -> Iterable[str]:
    if not str(expected).strip():
        yield "an empty text matches every answer; write the expected text"


EVALUATORS.register(
    "contains",
    Evaluator(
        summary="the answer contains this text",
        select=select_texts,
        evaluate=check_contains,
        validate=validate_text,
    ),
)
