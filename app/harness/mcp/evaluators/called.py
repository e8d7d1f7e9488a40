"""Tools that were called, whatever they answered and in whichever order."""

from pydantic import JsonValue

from app.harness.mcp.evaluating import EVALUATORS, Criterion, Evidence, Found, named_check
from app.harness.mcp.trajectory import is_call_of, name_flaws, tool_names


def all_called(wanted: JsonValue, evidence: Evidence) -> Found:
    missing = [
        name
        for name in tool_names(wanted)
        if not any(is_call_of(name, call) for call in evidence.tool_calls)
    ]
    return Found(not missing, f"never called: {', '.join(missing)}" if missing else "called")


EVALUATORS.register(
    "called",
    Criterion(
        summary="these tools were called",
        wanted=named_check("called"),
        find=all_called,
        complaints=name_flaws,
    ),
)
