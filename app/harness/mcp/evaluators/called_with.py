"""A tool that was called with these arguments at least once; it may have been given more."""

from collections.abc import Iterable
from typing import Any

from pydantic import JsonValue

from app.harness.mcp.evaluating import EVALUATORS, Criterion, Evidence, Found, named_check
from app.harness.mcp.evaluators.fields import difference, pattern_flaws
from app.harness.mcp.trajectory import is_call_of


def called_with(wanted: JsonValue, evidence: Evidence) -> Found:
    asked: Any = wanted
    tool, arguments = asked["tool"], asked["arguments"]
    calls = [call for call in evidence.tool_calls if is_call_of(tool, call)]
    differences = [difference(arguments, call.arguments) for call in calls]
    if not differences:
        return Found(False, f"never called: {tool}")
    if None in differences:
        return Found(True, "called with these arguments")
    return Found(False, f"in the last call {differences[-1]}")


def flaws(wanted: JsonValue) -> Iterable[str]:
    if not isinstance(wanted, dict) or wanted.keys() != {"tool", "arguments"}:
        yield "called_with is written {tool: …, arguments: {…}}"
    elif not isinstance(wanted["tool"], str) or not isinstance(wanted["arguments"], dict):
        yield "called_with has the name of a tool and a mapping of arguments"
    else:
        yield from pattern_flaws(wanted["arguments"])


EVALUATORS.register(
    "called_with",
    Criterion(
        summary="this tool was called with these arguments; it may have been given more",
        wanted=named_check("called_with"),
        find=called_with,
        complaints=flaws,
    ),
)
