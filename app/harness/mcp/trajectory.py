"""What evaluators of calls share: the names that files give to tools."""

from collections.abc import Iterable

from pydantic import JsonValue

from app.harness.mcp.types import McpToolCall


def is_call_of(name: str, call: McpToolCall) -> bool:
    """Whether a call is meant by `tool`, or by `server/tool`."""
    return name in (call.tool, f"{call.server}/{call.tool}")


def tool_names(wanted: JsonValue) -> list[str]:
    """One name, or several."""
    listed = wanted if isinstance(wanted, list) else [wanted]
    return [name for name in listed if isinstance(name, str)]


def name_flaws(wanted: JsonValue, *, least: int = 1) -> Iterable[str]:
    """What is wrong where so many names of tools are to stand."""
    listed = wanted if isinstance(wanted, list) else [wanted]
    if len(listed) < least or not all(isinstance(name, str) and name for name in listed):
        yield f"write the names of at least {least} tools, as `tool` or `server/tool`"
