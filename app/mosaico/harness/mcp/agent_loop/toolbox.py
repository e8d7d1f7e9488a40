"""The tools of the servers of an attempt, under the names that the model uses."""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from mosaico.core.text import count_noun
from mosaico.harness.mcp.tool_schema import model_schema
from mosaico.harness.mcp.types import McpToolCall, ServerFacts, ToolFacts
from mosaico.llm.conversation import Tool

SEPARATOR: Final = "__"
MAX_NAME_CHARS: Final = 64  # maximum length that providers accept
_INVALID_NAME_CHARACTER: Final = re.compile(r"[^A-Za-z0-9_-]")


class ToolServer(Protocol):
    """A running server whose tools can be called."""

    name: str
    facts: ServerFacts

    async def call(self, tool: str, arguments: dict[str, Any]) -> McpToolCall: ...

    async def list_changed_tools(self) -> bool: ...


class ToolRoute(NamedTuple):
    """The server and tool of a name."""

    server: ToolServer
    tool: str


class Toolbox:
    """Finds tools by name. With several configured servers a name is `server__tool`, even when only one
    of them has tools: names must not depend on which servers have tools.
    """

    def __init__(self, servers: Sequence[ToolServer]) -> None:
        self._routes: dict[str, ToolRoute] = {}
        self.tools: list[Tool] = []
        for server in servers:
            for tool in server.facts.tools:
                self._add(server, tool, is_qualified=len(servers) > 1)

    def find(self, name: str) -> ToolRoute | None:
        return self._routes.get(name)

    def names(self) -> list[str]:
        return list(self._routes)

    def find_for_direct_call(self, name: str) -> ToolRoute | None:
        """The tool that a direct task names: as a model would, as `server/tool`, or as its own name
        if only one server has it.
        """
        routes = [
            route
            for route in self._routes.values()
            if name in (route.tool, f"{route.server.name}/{route.tool}")
        ]
        return self.find(name) or (routes[0] if len(routes) == 1 else None)

    def describe_unknown(self, name: str) -> str:
        """Return the error for an unknown tool name, with the available names."""
        return f"unknown tool {name!r}; available tools: {', '.join(self.names()) or 'none'}"

    def _add(self, server: ToolServer, tool: ToolFacts, *, is_qualified: bool) -> None:
        qualified_name = f"{server.name}{SEPARATOR}{tool.name}" if is_qualified else tool.name
        name = self._unique_name(_INVALID_NAME_CHARACTER.sub("_", qualified_name)[:MAX_NAME_CHARS])
        description = f"[{server.name}] {tool.description}" if is_qualified else tool.description
        self._routes[name] = ToolRoute(server, tool.name)
        schema = model_schema(tool.input_schema).schema
        self.tools.append(Tool(name=name, description=description, schema=schema))

    def _unique_name(self, name: str) -> str:
        """The name, with a number appended when another tool already has it."""
        unique_name, number = name, 1
        while unique_name in self._routes:
            number += 1
            unique_name = f"{name[: MAX_NAME_CHARS - 4]}_{number}"
        return unique_name


def rejected_call(server: str, tool: str, arguments: dict[str, Any], reason: str) -> McpToolCall:
    """A call that was not sent to a server; the caller receives the reason."""
    return McpToolCall(
        server=server, tool=tool, arguments=arguments, text=reason, is_error=True, duration_ms=0.0
    )


def system_message(system_prompt: str | None, servers: Sequence[ServerFacts]) -> str:
    """The system message: the system prompt of the file, then the instructions of the servers."""
    parts = [system_prompt] if system_prompt else []
    for server in servers:
        if server.instructions:
            parts.append(f"Instructions of {server.name}:\n{server.instructions}")
        if server.prompts:
            parts.append(f"Prompts of {server.name}: {', '.join(server.prompts)}")
        if server.resources:
            parts.append(f"Resources of {server.name}: {', '.join(server.resources)}")
    if servers:
        tools = sum(len(server.tools) for server in servers)
        parts.append(
            f"You have {count_noun(tools, 'tool')} of {count_noun(len(servers), 'server')}."
        )
    return "\n\n".join(parts)
