"""Reads the facts of a server: its version, instructions, tools, prompts and resources."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import mcp_types
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError

from mosaico.harness.mcp.types import ServerFacts, ToolFacts

MAX_PAGES: Final = 100
CHARS_PER_TOKEN: Final = 4

Page = TypeVar("Page", bound=mcp_types.PaginatedResult)
FetchPage = Callable[..., Awaitable[Page]]


async def fetch_server_facts(session: ClientSession, file: str, name: str) -> ServerFacts:
    """The facts of a server. Raises MCPError, ValidationError, and ValueError for a tool schema with a
    non-finite number: it can neither be sent to a model nor stored.
    """
    handshake = await session.initialize()
    tools = await _fetch_pages(session.list_tools)
    prompts = await _fetch_pages(session.list_prompts)
    resources = await _fetch_pages(session.list_resources)
    return ServerFacts(
        file=file,
        name=name,
        version=handshake.server_info.version,
        instructions=handshake.instructions,
        tools=tuple(_tool_facts(tool) for page in tools for tool in page.tools),
        prompts=tuple(prompt.name for page in prompts for prompt in page.prompts),
        resources=tuple(str(resource.uri) for page in resources for resource in page.resources),
    )


async def _fetch_pages(fetch_page: FetchPage[Page]) -> list[Page]:
    """All pages of a list; none when the server does not support this list."""
    pages: list[Page] = []
    cursor: str | None = None
    while len(pages) < MAX_PAGES:
        params = mcp_types.PaginatedRequestParams(cursor=cursor) if cursor else None
        try:
            page = await fetch_page(params=params)
        except MCPError as error:
            if error.code == mcp_types.METHOD_NOT_FOUND:
                return pages
            raise
        pages.append(page)
        if page.next_cursor is None or page.next_cursor == cursor:
            return pages
        cursor = page.next_cursor
    return pages


def _tool_facts(tool: mcp_types.Tool) -> ToolFacts:
    description = tool.description or ""
    return ToolFacts(
        name=tool.name,
        description=description,
        input_schema=tool.input_schema,
        tokens=estimate_schema_tokens(tool.name, description, tool.input_schema),
    )


def estimate_schema_tokens(name: str, description: str, schema: dict[str, Any]) -> int:
    """Estimated tokens of a tool in each request: one token per four characters of its JSON."""
    document = {"name": name, "description": description, "input_schema": schema}
    try:
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        raise ValueError(f"the schema of {name!r} contains a non-finite number") from None
    return -(-len(text) // CHARS_PER_TOKEN)
