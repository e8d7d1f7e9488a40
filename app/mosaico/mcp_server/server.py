"""The MCP server: lists the tools, calls them, and says what went wrong. Which service a call asks is a parameter."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import version
from typing import Any, Final, TypeAlias

import mcp_types
from anyio import to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema

from mosaico.core.errors import AppError, without_request
from mosaico.mcp_server.answers import ToolAnswer, document_of, text_of
from mosaico.mcp_server.arguments import Arguments
from mosaico.mcp_server.envelope import RULE, TEXT_CHARS, enclose
from mosaico.mcp_server.lookup import ServiceView, ToolRefusal, UnknownName
from mosaico.mcp_server.tool_table import ServerTool

# The service as the sender of a request sees it; `headers` are those of HTTP, empty for stdio.
OpenView: TypeAlias = Callable[[Mapping[str, str]], AbstractContextManager[ServiceView]]
RequestContext: TypeAlias = ServerRequestContext[Any, Any]

INSTRUCTIONS: Final = (
    "MOSAICO says whether AI agents got better or worse, night by night. To find the cause of a drop: `what_got_worse`,"
    " then `why` with the run of the change, then `show_trace` with an item of it. Verdicts are statistical: REGRESSED is"
    " proved; INCONCLUSIVE and NO_EVIDENCE do not say that nothing changed. Names are accepted instead of IDs. Give"
    f" people the links in `page`.\n\n{RULE}"
)


def build_server(tools: Sequence[ServerTool[Any]], open_view: OpenView) -> Server[Any]:
    """The server of these tools; each call opens the service with the key of its request."""
    by_name = {tool.name: tool for tool in tools}
    descriptions = [_describe(tool) for tool in tools]

    async def list_tools(
        _: RequestContext, __: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        return mcp_types.ListToolsResult(tools=descriptions)

    async def call_tool(
        context: RequestContext, params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult:
        headers = context.request.headers if context.request is not None else {}

        def call() -> ToolAnswer:
            tool = by_name.get(params.name)
            if tool is None:
                raise UnknownName(
                    f"no tool is called {enclose(params.name)}; the tools are {', '.join(by_name)}"
                )
            return _call(tool, params.arguments or {}, open_view, headers)

        try:
            # The client of the service is synchronous, and a gate computes for seconds.
            answer = await to_thread.run_sync(call)
        except AppError as error:
            return _failure(_describe_error(error))
        return mcp_types.CallToolResult(
            content=[mcp_types.TextContent(text=text_of(answer))],
            structured_content=document_of(answer),
        )

    return Server(
        "mosaico",
        title="MOSAICO",
        version=version("mosaico"),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _call(
    tool: ServerTool[Any],
    arguments: Mapping[str, Any],
    open_view: OpenView,
    headers: Mapping[str, str],
) -> ToolAnswer:
    try:
        parsed: Arguments = tool.arguments.model_validate(arguments)
    except ValidationError as error:
        raise ToolRefusal(_describe_arguments(tool, error)) from None
    with open_view(headers) as view:
        return tool.call(view, parsed)


def _describe_arguments(tool: ServerTool[Any], error: ValidationError) -> str:
    flaws = [
        f"{enclose('.'.join(map(str, item['loc'])))}: {item['msg']}" for item in error.errors()
    ]
    names = ", ".join(tool.arguments.model_fields)
    return f"wrong arguments of {tool.name}: {'; '.join(flaws[:5])}. It takes {names}."


def _describe_error(error: AppError) -> str:
    """What went wrong and what to do. The service's own words may contain names that others chose."""
    if isinstance(error, ToolRefusal):
        return error.detail
    lines = [enclose(without_request(str(error)), 2 * TEXT_CHARS)]
    lines += [
        f"{label}: {enclose(str(error.extra[label]))}"
        for label in ("cause", "hint")
        if label in error.extra
    ]
    return f"{error.error_code}: " + "\n".join(lines)


def _failure(text: str) -> mcp_types.CallToolResult:
    return mcp_types.CallToolResult(content=[mcp_types.TextContent(text=text)], is_error=True)


class _UntitledSchema(GenerateJsonSchema):
    """A schema without the titles of fields, which repeat their names: every client sends it to its model."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002 - of no field
        return False


def _describe(tool: ServerTool[Any]) -> mcp_types.Tool:
    return mcp_types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.arguments.model_json_schema(schema_generator=_UntitledSchema),
        output_schema=tool.answer.model_json_schema(schema_generator=_UntitledSchema),
        annotations=mcp_types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.is_read_only,
            destructive_hint=False,
            idempotent_hint=tool.is_read_only,
            open_world_hint=not tool.is_local,
        ),
    )
