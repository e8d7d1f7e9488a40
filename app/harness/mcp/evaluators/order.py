"""Tools that were called one after the other; others may have been called between them."""

from collections.abc import Iterable

from pydantic import JsonValue

from app.harness.mcp.evaluating import EVALUATORS, Criterion, Evidence, Found, named_check
from app.harness.mcp.trajectory import is_call_of, name_flaws, tool_names


def in_order(wanted: JsonValue, evidence: Evidence) -> Found:
    calls = iter(evidence.tool_calls)
    before = "the start"
    for name in tool_names(wanted):
        if not any(is_call_of(name, call) for call in calls):  # goes on where the last one stood
            return Found(False, f"no call of {name} after {before}")
        before = name
    return Found(True, "called in this order")


def flaws(wanted: JsonValue) -> Iterable[str]:
    yield from name_flaws(wanted, least=2)


EVALUATORS.register(
    "order",
    Criterion(
        summary="these tools were called one after the other",
        wanted=named_check("order"),
        find=in_order,
        complaints=flaws,
    ),
)
