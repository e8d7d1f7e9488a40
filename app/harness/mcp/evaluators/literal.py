"""The words of JSON, `true`, `false` and `null`, standing in the answer by themselves."""

import json
import re

from pydantic import JsonValue

from app.harness.mcp.config import Evaluator
from app.harness.mcp.evaluating import EVALUATORS, Criterion, Evidence, Found, expected_items


def words(evaluator: Evaluator) -> list[JsonValue]:
    return [item for item in expected_items(evaluator) if isinstance(item, bool) or item is None]


def holds_word(wanted: JsonValue, evidence: Evidence) -> Found:
    if re.search(rf"\b{json.dumps(wanted)}\b", evidence.response):
        return Found(True, "found")
    return Found(False, "not found in the answer")


EVALUATORS.register(
    "literal",
    Criterion(
        summary="the answer contains true, false or null as JSON writes them",
        wanted=words,
        find=holds_word,
    ),
)
