"""A client of the SDK for `mosaico mcp`: its real process over standard input and output, or over HTTP."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import anyio
import httpx2
import mcp_types
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

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
    *options: str,
    folder: Path,
    key: str | None = None,
    mode: Mode = "auto",
) -> T:
    """Run a script against the process of `mosaico mcp`, which a client starts in `folder`."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "mosaico.cli", "mcp", *options],
        env=environment_of(service, key),
        cwd=folder,
    )
    return _run(lambda: stdio_client(parameters), script, mode)


@contextlib.contextmanager
def http_server(service: Service, *options: str, folder: Path) -> Iterator[str]:
    """The URL of a process of `mosaico mcp --http`, which has the key of an admin for itself."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "mosaico.cli", "mcp", "--http", str(port), *options],
        env={**os.environ, **environment_of(service)},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def is_listening() -> bool:
        assert process.poll() is None
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    try:
        until(is_listening, what="the server listens")
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait(LIVENESS_S)


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
