"""A text that the answer contains, upper and lower case told apart."""

from collections.abc import Iterable

from pydantic import JsonValue

from app.harness.mcp.config import Evaluator
from app.harness.mcp.evaluating import EVALUATORS, Criterion, Evidence, Found, expected_items


def texts(evaluator: Evaluator) -> list[JsonValue]:
    return [item for item in expected_items(evaluator) if isinstance(item, str)]


def contains(wanted: JsonValue, evidence: Evidence) -> Found:
    if str(wanted) in evidence.response:
        return Found(True, "found")
    return Found(False, "not found in the answer")


def flaws(wanted: JsonValue) -> Iterable[str]:
    if not str(wanted).strip():
        yield "an empty text is found in any answer; write what is expected"


EVALUATORS.register(
    "contains",
    Criterion(
        summary="the answer contains this text",
        wanted=texts,
        find=contains,
        complaints=flaws,
    ),
)
