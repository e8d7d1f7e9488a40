"""One started server: what it offers, and calls of its tools.

A task of its own holds the SDK's session from start to end, since its scopes must be left where
they were entered; whoever calls may be any other.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import httpx2
import mcp_types
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from app.core.addresses import OutboundPolicy, networks_of
from app.core.errors import AppError
from app.harness.mcp.config import HttpServer, StdioServer
from app.harness.mcp.contents import contents_of, text_of
from app.harness.mcp.plan import PlannedServer
from app.harness.mcp.stdio import END_S, NotStarted, Program, StdioLink, running_program
from app.harness.mcp.types import ErrorKind, ServerFacts, ToolCall, ToolFacts
from app.harness.outbound import outbound_async_client

ANSWER_BYTES: Final = 16 * 1024 * 1024
REQUEST_S: Final = 3600.0  # over HTTP; tasks have limits of their own
PING_S: Final = 2.0
MAX_PAGES: Final = 100
CHARS_PER_TOKEN: Final = 4
SHOWN: Final = 300  # characters of what a server says
CLIENT: Final = mcp_types.Implementation(name="ot-bench", version="1")

# On a command line, servers are the choice of its user.
EVERY_SERVER: Final = OutboundPolicy(allowed=networks_of("0.0.0.0/0,::/0"))

# What goes wrong with a server is told in results; the SDK would print it besides.
for _name in ("mcp", "client"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)

# The SDK's tasks raise groups of whatever went wrong in them.
_BROKEN: Final = (
    ExceptionGroup,
    NotStarted,
    MCPError,
    AppError,
    httpx2.HTTPError,
    httpx2.InvalidURL,
    OSError,
    RuntimeError,
    ValueError,
)

Page = TypeVar("Page", bound=mcp_types.PaginatedResult)
Listing = Callable[..., Awaitable[Page]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What servers are started in: where programs are looked up, which addresses are called."""

    path: str
    policy: OutboundPolicy = field(default=EVERY_SERVER)


class ServerFailed(Exception):
    """A server does not start, or answers no more; the message names it."""

    def __init__(self, kind: ErrorKind, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail


class McpServer:
    """A server between its start and its end."""

    def __init__(self, server: PlannedServer, file: str, surroundings: Surroundings) -> None:
        self.name = server.name
        self.facts: ServerFacts
        self._file = file
        self._config = server.config
        self._surroundings = surroundings
        self._session: ClientSession
        self._link: StdioLink | None = None
        self._lost: str | None = None
        self._left_unanswered = False
        self._owner: asyncio.Task[None] | None = None
        self._leaving = asyncio.Event()

    @property
    def lost(self) -> bool:
        """Whether it answers no more."""
        return self._lost is not None

    async def start(self) -> None:
        """Start or reach it and hear what it offers, within its own timeout. Raises ServerFailed."""
        began = time.monotonic()
        started: asyncio.Future[ServerFacts] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._hold(started), name=f"server {self.name}")
        either: list[asyncio.Future[Any]] = [started, self._owner]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not started.done():
            started.cancel()
            raise ServerFailed(
                ErrorKind.SERVER_START, f"server {self.name!r} does not start: {self._lost}"
            )
        start_ms = 1000 * (time.monotonic() - began)
        self.facts = replace(started.result(), start_ms=start_ms)

    async def call(self, tool: str, arguments: dict[str, Any]) -> ToolCall:
        """Call a tool. Its errors are answers; raises ServerFailed when none comes any more."""
        if self.lost:
            raise self._died()
        began = time.monotonic()
        try:
            result = await self._session.call_tool(tool, arguments)
        except asyncio.CancelledError:
            self._left_unanswered = True
            raise
        except MCPError as error:
            if error.code == mcp_types.CONNECTION_CLOSED:
                await self._settle()
                raise self._died() from None
            said = f"MCP error {error.code}: {error.message}"
            return self._called(tool, arguments, _failed(said), began)
        except (ValidationError, RuntimeError) as error:  # a result that its schema forbids
            said = f"the result is not what it must be: {_first_line(error)}"
            return self._called(tool, arguments, _failed(said), began)
        return self._called(tool, arguments, result, began)

    async def hangs(self) -> bool:
        """Whether it does not even answer a ping, after a call that nobody waits for any more."""
        if self.lost or not self._left_unanswered:
            return False
        try:
            async with asyncio.timeout(PING_S):
                await self._session.send_ping()
        except TimeoutError:
            return True
        except (MCPError, ValidationError, RuntimeError):  # an answer of some kind, or its end
            pass
        self._left_unanswered = False
        return False

    async def stop(self, *, at_once: bool = False) -> None:
        """End it: politely, or at once because nobody waits for it any more."""
        if self._owner is None:
            return
        self._leaving.set()
        if at_once:
            self._abandon(self._owner)
        while not self._owner.done():
            await asyncio.wait([self._owner], timeout=2 * END_S)
            self._abandon(self._owner)

    def _abandon(self, owner: "asyncio.Task[None]") -> None:
        self._kill()
        owner.cancel()

    def _kill(self) -> None:
        if self._link is not None:
            self._link.kill()

    async def _hold(self, started: "asyncio.Future[ServerFacts]") -> None:
        try:
            async with self._connected() as session:
                self._session = session
                try:
                    async with asyncio.timeout(self._config.timeout):
                        facts = await _introduction(session, self._file, self.name)
                except (TimeoutError, MCPError, ValidationError, RuntimeError) as error:
                    self._lost = await self._reason(error)
                    self._kill()
                    return
                started.set_result(facts)
                await self._leaving.wait()
        except _BROKEN as error:
            self._lost = self._lost or await self._reason(error)
        finally:
            self._lost = self._lost or "it was stopped"

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[ClientSession]:
        match self._config:
            case StdioServer() as config:
                env = {"PATH": self._surroundings.path, **config.env}
                program = Program(command=config.command, args=config.args, env=env)
                async with (
                    running_program(program) as self._link,
                    ClientSession(self._link, self._link, client_info=CLIENT) as session,
                ):
                    yield session
            case HttpServer() as config:
                async with (
                    outbound_async_client(
                        timeout_s=REQUEST_S,
                        max_bytes=ANSWER_BYTES,
                        policy=self._surroundings.policy,
                    ) as http,
                ):
                    http.headers.update(config.headers)
                    async with (
                        streamable_http_client(config.url, http_client=http) as (reads, writes),
                        ClientSession(reads, writes, client_info=CLIENT) as session,
                    ):
                        yield session

    async def _settle(self) -> None:
        """Learn why the connection closed: from the program, or from the task that holds it."""
        if self._link is not None:
            self._lost = await self._link.why()
        elif self._owner is not None and not self.lost:
            await asyncio.wait([self._owner], timeout=END_S)
            self._lost = self._lost or "the connection was closed"

    async def _reason(self, error: BaseException) -> str:
        if isinstance(error, TimeoutError):
            return f"no answer within its timeout of {self._config.timeout:g} s"
        if self._link is not None and _is_closed(error):
            return await self._link.why()
        return next(iter(_reasons(error)))

    def _died(self) -> ServerFailed:
        return ServerFailed(ErrorKind.SERVER_DIED, f"server {self.name!r} is gone: {self._lost}")

    def _called(
        self,
        tool: str,
        arguments: dict[str, Any],
        result: mcp_types.CallToolResult,
        began: float,
    ) -> ToolCall:
        contents = contents_of(result)
        return ToolCall(
            server=self.name,
            tool=tool,
            arguments=arguments,
            text=text_of(contents),
            is_error=bool(result.is_error),
            duration_ms=1000 * (time.monotonic() - began),
            content=contents,
        )


@asynccontextmanager
async def started_servers(
    servers: Sequence[PlannedServer], file: str, surroundings: Surroundings
) -> AsyncIterator[list[McpServer]]:
    """Servers that start together and run as long as the block; an error ends them at once.

    Raises: ServerFailed.
    """
    started = [McpServer(each, file, surroundings) for each in servers]
    in_peace = False
    try:
        await asyncio.gather(*(each.start() for each in started))
        yield started
        in_peace = True
    finally:
        await asyncio.gather(*(each.stop(at_once=not in_peace) for each in started))


def schema_tokens(name: str, description: str, schema: dict[str, Any]) -> int:
    """About how many tokens a tool takes of every request: four characters of its JSON are one."""
    document = {"name": name, "description": description, "input_schema": schema}
    chars = len(json.dumps(document, ensure_ascii=False, separators=(",", ":")))
    return -(-chars // CHARS_PER_TOKEN)


async def _introduction(session: ClientSession, file: str, name: str) -> ServerFacts:
    hello = await session.initialize()
    tools = await _listed(session.list_tools)
    prompts = await _listed(session.list_prompts)
    resources = await _listed(session.list_resources)
    return ServerFacts(
        file=file,
        name=name,
        version=hello.server_info.version,
        instructions=hello.instructions,
        tools=tuple(_tool(tool) for page in tools for tool in page.tools),
        prompts=tuple(prompt.name for page in prompts for prompt in page.prompts),
        resources=tuple(str(each.uri) for page in resources for each in page.resources),
    )


async def _listed(listing: Listing[Page]) -> list[Page]:
    """Every page of a list; none from a server that does not know of such."""
    pages: list[Page] = []
    cursor: str | None = None
    while len(pages) < MAX_PAGES:
        params = mcp_types.PaginatedRequestParams(cursor=cursor) if cursor else None
        try:
            page = await listing(params=params)
        except MCPError as error:
            if error.code == mcp_types.METHOD_NOT_FOUND:
                return pages
            raise
        pages.append(page)
        if page.next_cursor is None or page.next_cursor == cursor:
            return pages
        cursor = page.next_cursor
    return pages


def _tool(tool: mcp_types.Tool) -> ToolFacts:
    description = tool.description or ""
    return ToolFacts(
        name=tool.name,
        description=description,
        input_schema=tool.input_schema,
        tokens=schema_tokens(tool.name, description, tool.input_schema),
    )


def _failed(text: str) -> mcp_types.CallToolResult:
    content: list[mcp_types.ContentBlock] = [mcp_types.TextContent(text=text)]
    return mcp_types.CallToolResult(content=content, is_error=True)


def _is_closed(error: BaseException) -> bool:
    return isinstance(error, MCPError) and error.code == mcp_types.CONNECTION_CLOSED


def _reasons(error: BaseException) -> Iterator[str]:
    """What the errors of a group say, the first of them first."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _reasons(each)
    elif isinstance(error, AppError):
        yield error.detail[:SHOWN]
    elif isinstance(error, NotStarted | MCPError):
        yield str(error)[:SHOWN]
    else:
        yield f"{type(error).__name__}: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        flaw = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, flaw['loc']))}: {flaw['msg']}"[:SHOWN]
    return (str(error).splitlines() or ["no reason given"])[0][:SHOWN]
