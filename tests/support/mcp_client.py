"""A client of the SDK for `mosaico mcp`: in the process of the test, or its real process over standard input and output
or HTTP.
"""

import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar
from unittest.mock import patch

import anyio
import httpx2
import mcp_types
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from mosaico.mcp_server.caller_views import view_of_request
from mosaico.mcp_server.http_transport import PATH, HttpAddress, allowed_hosts, http_app
from mosaico.mcp_server.server import build_server
from mosaico.mcp_server.stdio_transport import server_of_process
from mosaico.mcp_server.tool_table import tools_of_service
from tests.support.http import serving
from tests.support.processes import forked_programs, start_command
from tests.support.serve import free_port
from tests.support.service import Service
from tests.support.waiting import LIVENESS_S, until

T = TypeVar("T")
APP = Path(__file__).resolve().parents[2] / "app"


@dataclass(slots=True)
class ToolCaller:
    """Calls tools and keeps what came back: the calls in order, and all texts that a model would read."""

    client: Client
    calls: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    async def result(self, tool: str, **arguments: Any) -> mcp_types.CallToolResult:
        self.calls.append(tool)
        result = await self.client.call_tool(tool, arguments)
        self.texts.append(text_of(result))
        return result

    async def answer(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of a call that succeeds."""
        result = await self.result(tool, **arguments)
        assert not result.is_error, self.texts[-1]
        assert isinstance(result.structured_content, dict)
        return result.structured_content

    async def error(self, tool: str, **arguments: Any) -> str:
        """The text of a call that fails."""
        result = await self.result(tool, **arguments)
        assert result.is_error, self.texts[-1]
        return self.texts[-1]


Script = Callable[[ToolCaller], Awaitable[T]]
# `auto` asks for the modern protocol, `legacy` begins with a handshake.
Mode = Literal["auto", "legacy"]


def text_of(result: mcp_types.CallToolResult) -> str:
    return "\n".join(
        block.text for block in result.content if isinstance(block, mcp_types.TextContent)
    )


def key_of(service: Service) -> str:
    return service.client.headers["Authorization"].removeprefix("Bearer ")


def environment_of(service: Service, key: str | None = None) -> dict[str, str]:
    """The variables of a server that asks the service, by default with the key of an admin."""
    return {
        "MOSAICO_URL": str(service.client.base_url).rstrip("/"),
        "MOSAICO_API_KEY": key or key_of(service),
        "PYTHONPATH": str(APP),
    }


def over_stdio(
    service: Service,
    script: Script[T],
    *,
    folder: Path,
    mode: Mode = "auto",
) -> T:
    """Run a script against the process of `mosaico mcp`, which a client starts in `folder`."""
    parameters = StdioServerParameters(
        command=f"{forked_programs()}/mosaico",
        args=["mcp"],
        env=environment_of(service),
        cwd=folder,
    )
    return _run(lambda: stdio_client(parameters), script, mode)


def in_process(
    service: Service,
    script: Script[T],
    *,
    folder: Path,
    key: str | None = None,
    allow_runs: bool = False,
) -> T:
    """Run a script against the server that `mosaico mcp` starts in `folder`."""
    environment = environment_of(service, key)
    server = server_of_process(environment["MOSAICO_URL"], folder, allow_runs=allow_runs)
    with patch.dict(os.environ, environment):
        return _run(lambda: server, script, "auto")


@contextlib.contextmanager
def http_app_in_process(service: Service, *named_hosts: str) -> Iterator[str]:
    """The URL of the app that `mosaico mcp --http` serves, in a process that has the key of an admin."""
    environment = environment_of(service)
    view = partial(view_of_request, environment["MOSAICO_URL"])
    server = build_server(tools_of_service(allow_runs=False), view)
    hosts = allowed_hosts(HttpAddress("127.0.0.1", 0), named_hosts)
    app = http_app(server, hosts)
    with patch.dict(os.environ, environment), serving(app, lifespan=True) as client:
        yield f"{str(client.base_url).rstrip('/')}{PATH}"


@contextlib.contextmanager
def http_server(service: Service, folder: Path) -> Iterator[str]:
    """The URL of a process of `mosaico mcp --http`, which has the key of an admin for itself."""
    port = free_port()
    server = start_command(["mcp", "--http", str(port)], folder, **environment_of(service))

    def is_listening() -> bool:
        assert server.is_running, server.log
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    try:
        until(is_listening, what="the server listens")
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.kill()


def over_http(url: str, script: Script[T], *, key: str, mode: Mode = "auto") -> T:
    """Run a script against a server over HTTP; every request has this key."""

    @contextlib.asynccontextmanager
    async def connect() -> Any:
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=LIVENESS_S, trust_env=False) as http,
            streamable_http_client(url, http_client=http) as streams,
        ):
            yield streams

    return _run(connect, script, mode)


def _run(connect: Callable[[], Any], script: Script[T], mode: Mode) -> T:
    async def main() -> T:
        with anyio.fail_after(LIVENESS_S):
            async with Client(connect(), mode=mode) as client:
                return await script(ToolCaller(client))

    return anyio.run(main)
