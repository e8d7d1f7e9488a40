"""One started server: what it offers, and calls of its tools.

A task of its own holds the SDK's session from start to end, since its scopes must be left where
they were entered; whoever calls may be any other.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import httpx2
import mcp_types
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from app.core.errors import AppError
from app.core.http.client import MASK
from app.core.http.network_policy import OutboundPolicy, parse_networks
from app.harness.mcp.config import HttpServer, StdioServer
from app.harness.mcp.contents import contents_of, text_of
from app.harness.mcp.http_link import HttpLink
from app.harness.mcp.introductions import introduction
from app.harness.mcp.plan import PlannedServer
from app.harness.mcp.stdio import (
    END_S,
    LAST_WORDS_S,
    NotStarted,
    Program,
    StdioLink,
    running_program,
)
from app.harness.mcp.types import ErrorKind, McpToolCall, ServerFacts

PING_S: Final = 2.0
SHOWN: Final = 300  # characters of what a server says
SECRET_CHARS: Final = 8  # what is shorter is a word like any other
CLIENT: Final = mcp_types.Implementation(name="ot-bench", version="1")

# On a command line, servers are the choice of its user.
EVERY_SERVER: Final = OutboundPolicy(allowed=parse_networks("0.0.0.0/0,::/0"))

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What servers are started in: where programs are looked up, which addresses are called.

    `hidden` are secrets, which nothing that is told of a server may hold.
    """

    path: str
    hidden: frozenset[str] = field(default=frozenset(), repr=False)
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
        self._http: HttpLink | None = None
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
            raise self._failed(ErrorKind.SERVER_START, "does not start")
        start_ms = 1000 * (time.monotonic() - began)
        self.facts = replace(started.result(), start_ms=start_ms)

    async def call(self, tool: str, arguments: dict[str, Any]) -> McpToolCall:
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
            await self._settle(error, began)
            if self.lost:
                raise self._died() from None
            said = f"MCP error {error.code}: {error.message}"
            return self._called(tool, arguments, _failed(said), began)
        except (ValueError, RuntimeError) as error:  # a result that its schema forbids
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
                        facts = await introduction(session, self._file, self.name)
                except (TimeoutError, MCPError, ValueError, RuntimeError) as error:
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
                self._http = HttpLink(config, self._surroundings.policy)
                async with (
                    self._http.streams() as (reads, writes),
                    ClientSession(reads, writes, client_info=CLIENT) as session,
                ):
                    yield session

    async def _settle(self, error: MCPError, since: float) -> None:
        """Learn whether the server is lost, and why: from the program, or from the connection.

        Its own errors are answers, whatever number they bear.
        """
        if self._link is not None:
            if self._link.ended:
                self._lost = await self._link.why()
        elif self._http is not None:
            told = self._http.loss(error, since)
            if told is not None and _is_closed(error) and self._owner is not None:
                await asyncio.wait([self._owner], timeout=LAST_WORDS_S)
            self._lost = self._lost or told

    async def _reason(self, error: BaseException) -> str:
        if isinstance(error, TimeoutError):
            return f"no answer within its timeout of {self._config.timeout:g} s"
        if self._link is not None and _is_closed(error):
            return await self._link.why()
        told = self._http.loss(error) if self._http is not None else None
        return told or next(iter(_reasons(error)))

    def _died(self) -> ServerFailed:
        return self._failed(ErrorKind.SERVER_DIED, "is gone")

    def _failed(self, kind: ErrorKind, how: str) -> ServerFailed:
        """What became of it, without secrets and headers, should anybody have repeated them."""
        headers = self._config.headers if isinstance(self._config, HttpServer) else {}
        hidden = {*self._surroundings.hidden, *headers.values()}
        why = _masked(str(self._lost), hidden)
        return ServerFailed(kind, f"server {self.name!r} {how}: {why}")

    def _called(
        self,
        tool: str,
        arguments: dict[str, Any],
        result: mcp_types.CallToolResult,
        began: float,
    ) -> McpToolCall:
        contents = contents_of(result)
        return McpToolCall(
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


def _failed(text: str) -> mcp_types.CallToolResult:
    content: list[mcp_types.ContentBlock] = [mcp_types.TextContent(text=text)]
    return mcp_types.CallToolResult(content=content, is_error=True)


def _masked(text: str, hidden: Iterable[str]) -> str:
    """The text without these values, whole or word by word."""
    parts = {part for value in hidden for part in (value, *value.split())}
    for part in sorted(parts, key=len, reverse=True):
        if len(part) >= SECRET_CHARS:
            text = text.replace(part, MASK)
    return text


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
    elif isinstance(error, httpx2.ConnectError):
        yield f"it cannot be reached: {_first_line(error)}; start it, or correct its url"
    else:
        yield f"{type(error).__name__}: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        flaw = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, flaw['loc']))}: {flaw['msg']}"[:SHOWN]
    return (str(error).splitlines() or ["no reason given"])[0][:SHOWN]
