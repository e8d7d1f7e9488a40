"""Evaluator `literal`: the answer contains `true`, `false` or `null` as a separate word."""

import json
import re

from pydantic import JsonValue

from mosaico.harness.mcp.config import EvaluatorConfig
from mosaico.harness.mcp.evaluator_registry import (
    EVALUATORS,
    Evaluator,
    EvaluatorEvidence,
    EvaluatorResult,
    expected_items,
)


def select_literals(evaluator: EvaluatorConfig) -> list[JsonValue]:
    return [item for item in expected_items(evaluator) if isinstance(item, bool) or item is None]


def check_literal(expected: JsonValue, evidence: EvaluatorEvidence) -> EvaluatorResult:
    if re.search(rf"\b{json.dumps(expected)}\b", evidence.response):
        return EvaluatorResult(True, "found")
    return EvaluatorResult(False, "not found in the answer")


EVALUATORS.register(
    "literal",
    Evaluator(
        summary="the answer contains true, false or null as JSON writes them",
        select=select_literals,
        evaluate=check_literal,
    ),
)
