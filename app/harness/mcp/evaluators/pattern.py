"""A pattern that is found somewhere in the answer, or with `expect_match: false` nowhere (RE2)."""

from collections.abc import Iterable
from typing import Any

from pydantic import JsonValue

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


def patterns(evaluator: Evaluator) -> list[JsonValue]:
    found = [item for item in expected_items(evaluator) if is_pattern(item)]
    if evaluator.regex is not None:
        found.append({"regex": evaluator.regex, "expect_match": evaluator.expect_match})
    return found


def matches(wanted: JsonValue, evidence: Evidence) -> Found:
    asked: Any = wanted
    is_found = compile_pattern(asked["regex"]).search(evidence.response) is not None
    is_wanted = asked.get("expect_match", True)
    return Found(is_found == is_wanted, "matched" if is_found else "not matched")


def flaws(wanted: JsonValue) -> Iterable[str]:
    asked: Any = wanted
    if not isinstance(asked["regex"], str) or not asked["regex"]:
        yield "regex must be a text that is not empty; quote it"
        return
    if not isinstance(asked.get("expect_match", True), bool):
        yield "expect_match must be true or false"
    try:
        compile_pattern(asked["regex"])
    except InvalidPattern as invalid:
        yield f"the pattern {asked['regex']!r} cannot be used: {invalid}"


EVALUATORS.register(
    "regex",
    Criterion(
        summary="this pattern is found in the answer; with expect_match: false it is not",
        wanted=patterns,
        find=matches,
        complaints=flaws,
    ),
)
