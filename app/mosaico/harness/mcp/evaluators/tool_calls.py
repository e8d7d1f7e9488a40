"""Evaluators of tool calls: which tools were called, in which order, with which arguments."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from pydantic import JsonValue

from mosaico.harness.mcp.evaluator_registry import (
    EVALUATORS,
    Evaluator,
    EvaluatorEvidence,
    EvaluatorResult,
    select_check,
)
from mosaico.harness.mcp.evaluators.fields import find_difference, validate_patterns
from mosaico.harness.mcp.types import McpToolCall


def check_called(expected: JsonValue, evidence: EvaluatorEvidence) -> EvaluatorResult:
    missing = [
        name
        for name in _tool_names(expected)
        if not any(_is_call_of(name, call) for call in evidence.tool_calls)
    ]
    return EvaluatorResult(
        not missing, f"never called: {', '.join(missing)}" if missing else "called"
    )


def check_order(expected: JsonValue, evidence: EvaluatorEvidence) -> EvaluatorResult:
    # One iterator for all names: the search for a tool continues after the call of the tool before.
    calls = iter(evidence.tool_calls)
    previous = "the start"
    for name in _tool_names(expected):
        if not any(_is_call_of(name, call) for call in calls):
            return EvaluatorResult(False, f"no call of {name} after {previous}")
        previous = name
    return EvaluatorResult(True, "called in this order")


def check_called_with(expected: JsonValue, evidence: EvaluatorEvidence) -> EvaluatorResult:
    condition: Any = expected
    tool, arguments = condition["tool"], condition["arguments"]
    calls = [call for call in evidence.tool_calls if _is_call_of(tool, call)]
    differences = [find_difference(arguments, call.arguments) for call in calls]
    if not differences:
        return EvaluatorResult(False, f"never called: {tool}")
    if None in differences:
        return EvaluatorResult(True, "called with these arguments")
    return EvaluatorResult(False, f"in the last call {differences[-1]}")


def validate_called_with(expected: JsonValue) -> Iterable[str]:
    if not isinstance(expected, dict) or expected.keys() != {"tool", "arguments"}:
        yield "called_with must be written as {tool: …, arguments: {…}}"
    elif not isinstance(expected["tool"], str) or not isinstance(expected["arguments"], dict):
        yield "called_with needs the name of a tool and a mapping of arguments"
    else:
        yield from validate_patterns(expected["arguments"])


def _is_call_of(name: str, call: McpToolCall) -> bool:
    """Return whether `name`, a `tool` or a `server/tool`, names the tool of this call."""
    return name in (call.tool, f"{call.server}/{call.tool}")


def _tool_names(expected: JsonValue) -> list[str]:
    names = expected if isinstance(expected, list) else [expected]
    return [name for name in names if isinstance(name, str)]


def _validate_names(expected: JsonValue, *, minimum: int) -> Iterable[str]:
    names = expected if isinstance(expected, list) else [expected]
    if len(names) < minimum or not all(isinstance(name, str) and name for name in names):
        yield f"write the names of at least {minimum} tools, as `tool` or `server/tool`"


EVALUATORS.register(
    "called",
    Evaluator(
        summary="these tools were called",
        select=select_check("called"),
        evaluate=check_called,
        validate=partial(_validate_names, minimum=1),
    ),
)
EVALUATORS.register(
    "order",
    Evaluator(
        summary="these tools were called in this order; other calls may be between them",
        select=select_check("order"),
        evaluate=check_order,
        validate=partial(_validate_names, minimum=2),
    ),
)
EVALUATORS.register(
    "called_with",
    Evaluator(
        summary="this tool was called with these arguments; it may have been given more",
        select=select_check("called_with"),
        evaluate=check_called_with,
        validate=validate_called_with,
    ),
)
