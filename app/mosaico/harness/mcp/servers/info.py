"""Reads the facts of a server: its version, instructions, tools, prompts and resources.

A list is read item by item: one invalid tool must not hide the others. What is left out or changed
is a remark of the facts.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import mcp_types
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ValidationError

from mosaico.core.text import count_noun
from mosaico.harness.mcp.tool_schema import model_schema
from mosaico.harness.mcp.types import ServerFacts, ToolFacts
from mosaico.harness.validation_messages import describe_errors

MAX_PAGES: Final = 100
CHARS_PER_TOKEN: Final = 4

Item = TypeVar("Item", bound=BaseModel)
SendRequest = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Sends a request and returns its result as the server wrote it. Raises MCPError."""


@dataclass(slots=True)
class _Listed(Generic[Item]):
    """The items of a list by their names or addresses, and what is wrong with the list."""

    items: dict[str, Item] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


async def fetch_server_facts(
    handshake: mcp_types.InitializeResult, send: SendRequest, file: str, name: str
) -> ServerFacts:
    """The facts of a server. Raises MCPError, ValidationError, and ValueError for an answer that is
    no list.
    """
    tools, tool_remarks = await fetch_tools(send)
    prompts = await _fetch_list(send, "prompts", "name", mcp_types.Prompt)
    resources = await _fetch_list(send, "resources", "uri", mcp_types.Resource)
    return ServerFacts(
        file=file,
        name=name,
        version=handshake.server_info.version,
        instructions=handshake.instructions,
        tools=tools,
        prompts=tuple(prompts.items),
        resources=tuple(resources.items),
        remarks=(*tool_remarks, *prompts.remarks, *resources.remarks),
    )


async def fetch_tools(send: SendRequest) -> tuple[tuple[ToolFacts, ...], tuple[str, ...]]:
    """The tools of a server and the remarks about them. Raises MCPError and ValueError."""
    listed = await _fetch_list(send, "tools", "name", mcp_types.Tool)
    tools: list[ToolFacts] = []
    for tool in listed.items.values():
        try:
            tools.append(_tool_facts(tool))
        except ValueError as flaw:
            listed.remarks.append(f"the tool {tool.name!r} is left out: {flaw}")
            continue
        changes = "; ".join(model_schema(tool.input_schema).changes)
        if changes:
            listed.remarks.append(f"the schema of {tool.name!r} is changed for models: {changes}")
    return tuple(tools), tuple(listed.remarks)


async def _fetch_list(
    send: SendRequest, kind: str, key: str, item_type: type[Item]
) -> _Listed[Item]:
    """All items of a list over its pages; none when the server does not support this list.

    A list that repeats a cursor or its items ends there: some servers never end theirs.
    """
    listed: _Listed[Item] = _Listed()
    cursors: set[str] = set()
    params: dict[str, Any] = {}
    for _ in range(MAX_PAGES):
        try:
            page = await send(f"{kind}/list", params)
        except MCPError as error:
            if error.code == mcp_types.METHOD_NOT_FOUND:
                return listed
            raise
        added = _add_items(listed, page, kind, key, item_type)
        cursor = page.get("nextCursor")
        if cursor is None:
            return listed
        if cursor in cursors or added == 0:
            count = len(listed.items)
            listed.remarks.append(f"its list of {kind} repeats itself and is ended after {count}")
            return listed
        cursors.add(cursor)
        params = {"cursor": cursor}
    listed.remarks.append(
        f"its list of {kind} has more than {count_noun(MAX_PAGES, 'page')}:"
        f" only the first {len(listed.items)} are used"
    )
    return listed


def _add_items(
    listed: _Listed[Item], page: dict[str, Any], kind: str, key: str, item_type: type[Item]
) -> int | None:
    """Add the items of a page; returns the number of new ones, None for an empty page."""
    values = page.get(kind)
    if not isinstance(values, list):
        raise ValueError(f"its answer to {kind}/list has no list {kind!r}")  # noqa: TRY004 - caught as one
    added = 0
    for value in values:
        name = str(value.get(key)) if isinstance(value, dict) else repr(value)
        if name in listed.items:
            continue
        try:
            listed.items[name] = item_type.model_validate(value, by_name=False)
            added += 1
        except ValidationError as error:
            flaw = next(describe_errors(error.errors(include_url=False, include_input=False)))
            remark = f"the {kind.removesuffix('s')} {name!r} is left out: {flaw.text}"
            if remark not in listed.remarks:
                listed.remarks.append(remark)
                added += 1
    return added if values else None


def _tool_facts(tool: mcp_types.Tool) -> ToolFacts:
    description = tool.description or ""
    return ToolFacts(
        name=tool.name,
        description=description,
        input_schema=tool.input_schema,
        tokens=estimate_schema_tokens(tool.name, description, tool.input_schema),
    )


def estimate_schema_tokens(name: str, description: str, schema: dict[str, Any]) -> int:
    """Estimated tokens of a tool in each request: one token per four characters of its JSON.

    Raises ValueError for a non-finite number: it can neither be sent to a model nor stored.
    """
    document = {"name": name, "description": description, "input_schema": schema}
    try:
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        raise ValueError("its schema contains a non-finite number") from None
    return -(-len(text) // CHARS_PER_TOKEN)
