"""Standard input and output: the client starts this process, and ends it by closing its input."""

from functools import partial
from pathlib import Path
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from mosaico.mcp_server.caller_views import view_of_process
from mosaico.mcp_server.server import build_server
from mosaico.mcp_server.tool_table import tool_of_files, tools_of_service


def serve_stdio(url: str, folder: Path, *, allow_runs: bool) -> None:
    """Serve until standard input ends, with the key of this process; files are those below `folder`."""
    anyio.run(_serve, server_of_process(url, folder, allow_runs=allow_runs))


def server_of_process(url: str, folder: Path, *, allow_runs: bool) -> Server[Any]:
    """The server of all tools, with the key of this process."""
    tools = [*tools_of_service(allow_runs=allow_runs), tool_of_files(folder)]
    return build_server(tools, partial(view_of_process, url))


async def _serve(server: Server[Any]) -> None:
    async with stdio_server() as (requests, responses):
        await server.run(requests, responses, server.create_initialization_options())
