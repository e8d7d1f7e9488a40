"""One running MCP server: start, tool calls, detection of a lost connection, stop.

The SDK's session uses cancel scopes that must be exited by the task that entered them. A dedicated
task therefore owns the session from start to end; other tasks may call tools.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import httpx2
import mcp_types
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from pydantic import ValidationError

from mosaico.core.errors import AppError
from mosaico.core.masking import secret_masker
from mosaico.core.network_policy import ALLOW_ALL_ADDRESSES, OutboundPolicy
from mosaico.harness.mcp.config import HttpServer, ReadyCheck, StdioServer
from mosaico.harness.mcp.plan import PlannedServer
from mosaico.harness.mcp.servers.http import HttpConnection, is_closed
from mosaico.harness.mcp.servers.info import fetch_server_facts, fetch_tools
from mosaico.harness.mcp.servers.replies import reply_callbacks
from mosaico.harness.mcp.servers.stdio import (
    EXIT_REPORT_WAIT_S,
    SIGTERM_GRACE_S,
    ProgramStartError,
    ServerProgram,
    StdioConnection,
    running_program,
)
from mosaico.harness.mcp.tool_content import (
    describe_contents,
    parse_contents,
    parse_result,
    render_text,
)
from mosaico.harness.mcp.types import ErrorKind, McpToolCall, ServerFacts
from mosaico.harness.text_search import compile_pattern
from mosaico.harness.validation_messages import describe_errors

PING_TIMEOUT_S: Final = 2.0
READY_POLL_S: Final = 0.2
MAX_REASON_CHARS: Final = 300  # of one reason of a failure
URL_ELICITATION_REQUIRED: Final = -32042  # MCP specification 2025-11-25
CLIENT_INFO: Final = mcp_types.Implementation(name="ot-bench", version="1")

# Results report the errors of servers; without this the SDK would print them as well.
for _name in ("mcp", "client"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)

# The task groups of the SDK wrap any of these errors in exception groups.
_CONNECTION_ERRORS: Final = (
    ExceptionGroup,
    ProgramStartError,
    MCPError,
    AppError,
    httpx2.HTTPError,
    httpx2.InvalidURL,
    OSError,
    RuntimeError,
    ValueError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEnvironment:
    """The surroundings of servers: the PATH of programs, the permitted addresses.

    `secret_values` are masked in every message about a server.
    """

    path: str
    secret_values: frozenset[str] = field(default=frozenset(), repr=False)
    policy: OutboundPolicy = field(default=ALLOW_ALL_ADDRESSES)


class ServerError(Exception):
    """A server did not start, or its connection was lost; the message names the server."""

    def __init__(self, kind: ErrorKind, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail


class McpServer:
    """A server from its start to its stop."""

    def __init__(self, server: PlannedServer, file: str, environment: ServerEnvironment) -> None:
        self.name = server.name
        self.facts: ServerFacts
        self._file = file
        self._config = server.config
        self._environment = environment
        self._session: ClientSession
        self._dispatcher: JSONRPCDispatcher[Any]
        self._has_changed_tools = False
        self._stdio: StdioConnection | None = None
        self._http: HttpConnection | None = None
        self._loss: str | None = None
        self._last_answer: str | None = None  # while the server is not ready
        self._has_unanswered_call = False
        self._session_task: asyncio.Task[None] | None = None
        self._stop_requested = asyncio.Event()

    @property
    def is_lost(self) -> bool:
        """Return whether the connection to the server is lost."""
        return self._loss is not None

    async def start(self) -> None:
        """Start or connect to the server and list its tools, within its timeout. Raises ServerError."""
        start_time = time.monotonic()
        started: asyncio.Future[ServerFacts] = asyncio.get_running_loop().create_future()
        self._session_task = asyncio.create_task(
            self._run_session(started), name=f"server {self.name}"
        )
        waited_for: list[asyncio.Future[Any]] = [started, self._session_task]
        await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
        if not started.done():
            # The session ended first; the facts are no longer needed.
            started.cancel()
            raise self._server_error(ErrorKind.SERVER_START, "does not start")
        start_ms = 1000 * (time.monotonic() - start_time)
        self.facts = replace(started.result(), start_ms=start_ms)

    async def call(self, tool: str, arguments: dict[str, Any]) -> McpToolCall:
        """Call a tool; an error of the tool is a result. Raises ServerError when the server is lost."""
        if self.is_lost:
            raise self._died_error()
        start_time = time.monotonic()
        try:
            answer = await self._send("tools/call", {"name": tool, "arguments": arguments})
            result = parse_result(answer)
        except asyncio.CancelledError:
            # The cancelled call may still occupy the server: `is_hanging` finds out.
            self._has_unanswered_call = True
            raise
        except MCPError as error:
            await self._detect_loss(error, start_time)
            if self.is_lost:
                raise self._died_error() from None
            if error.code == URL_ELICITATION_REQUIRED:
                reason = f"{tool} needs somebody who opens a URL: {error.message}"
                raise ServerError(
                    ErrorKind.CONFIGURATION, f"server {self.name!r}: {reason}"
                ) from None
            message = f"MCP error {error.code}: {error.message}"
            return self._tool_call(tool, arguments, _error_result(message), start_time)
        except (ValueError, RuntimeError) as error:  # a result that violates the schema
            message = f"the tool returned an invalid result: {_first_line(error)}"
            return self._tool_call(tool, arguments, _error_result(message), start_time)
        return self._tool_call(tool, arguments, result, start_time)

    async def list_changed_tools(self) -> bool:
        """List the tools again if the server said that they changed; returns whether it did.

        Raises ServerError.
        """
        if not self._has_changed_tools:
            return False
        self._has_changed_tools = False
        start_time = time.monotonic()
        try:
            tools, _ = await fetch_tools(self._send)
        except (MCPError, ValueError) as error:
            if isinstance(error, MCPError):
                await self._detect_loss(error, start_time)
            self._loss = self._loss or next(iter(_iter_reasons(error)))
            raise self._died_error() from None
        self.facts = replace(self.facts, tools=tools)
        return True

    async def is_hanging(self) -> bool:
        """Return whether the server ignores a ping after a call was cancelled; it may still work on
        the call.
        """
        if self.is_lost or not self._has_unanswered_call:
            return False
        try:
            async with asyncio.timeout(PING_TIMEOUT_S):
                await self._session.send_ping()
        except TimeoutError:
            return True
        except (MCPError, ValidationError, RuntimeError):  # it responded, or the connection is lost
            pass
        self._has_unanswered_call = False
        return False

    async def stop(self, *, immediately: bool = False) -> None:
        """Stop the server gracefully, or kill it `immediately`."""
        if self._session_task is None:
            return
        self._stop_requested.set()
        if immediately:
            self._kill_and_cancel(self._session_task)
        # A graceful stop that takes too long becomes a kill; repeat until the session task has ended.
        while not self._session_task.done():
            await asyncio.wait([self._session_task], timeout=2 * SIGTERM_GRACE_S)
            self._kill_and_cancel(self._session_task)

    def _kill_and_cancel(self, owner: "asyncio.Task[None]") -> None:
        self._kill()
        owner.cancel()

    def _kill(self) -> None:
        if self._stdio is not None:
            self._stdio.kill()

    async def _run_session(self, started: "asyncio.Future[ServerFacts]") -> None:
        try:
            async with self._connected() as session:
                self._session = session
                try:
                    async with asyncio.timeout(self._config.timeout):
                        handshake = await session.initialize()
                        if self._config.ready is not None:
                            await self._wait_until_ready(self._config.ready)
                        facts = await fetch_server_facts(
                            handshake, self._send, self._file, self.name
                        )
                except (TimeoutError, MCPError, ValueError, RuntimeError) as error:
                    self._loss = await self._loss_reason(error)
                    self._kill()
                    return
                started.set_result(facts)
                await self._stop_requested.wait()
        # All of them mean that the server is lost: an error of the attempt, not of the harness.
        except _CONNECTION_ERRORS as error:
            self._loss = self._loss or await self._loss_reason(error)
        finally:
            self._loss = self._loss or "it was stopped"

    async def _wait_until_ready(self, check: ReadyCheck) -> None:
        """Repeat the call until its result matches; the timeout of the start ends it.

        A server that is not ready may refuse the call. Raises MCPError when it is lost.
        """
        pattern = compile_pattern(check.regex)
        call = {"name": check.tool, "arguments": check.arguments}
        while True:
            try:
                answer = await self._send("tools/call", call)
                self._last_answer = render_text(parse_contents(parse_result(answer)))
                if pattern.search(self._last_answer):
                    return
            except MCPError as error:
                if is_closed(error) or (self._http and self._http.loss_reason(error)):
                    raise
                self._last_answer = f"MCP error {error.code}: {error.message}"
            await asyncio.sleep(READY_POLL_S)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[ClientSession]:
        match self._config:
            case StdioServer() as config:
                env = {"PATH": self._environment.path, **config.env}
                program = ServerProgram(command=config.command, args=config.args, env=env)
                async with (
                    running_program(program) as self._stdio,
                    self._opened_session(self._stdio, self._stdio) as session,
                ):
                    yield session
            case HttpServer() as config:
                self._http = HttpConnection(config, self._environment.policy)
                async with (
                    self._http.streams() as (reads, writes),
                    self._opened_session(reads, writes) as session,
                ):
                    yield session

    def _opened_session(self, reads: Any, writes: Any) -> ClientSession:
        self._dispatcher = JSONRPCDispatcher(reads, writes)
        return ClientSession(
            dispatcher=self._dispatcher,
            client_info=CLIENT_INFO,
            message_handler=self._note_message,
            **reply_callbacks(self._config),
        )

    async def _send(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result as the server wrote it: the SDK refuses a whole answer for one flaw."""
        return await self._dispatcher.send_raw_request(method, params)

    async def _note_message(self, message: object) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._has_changed_tools = True

    async def _detect_loss(self, error: MCPError, since: float) -> None:
        """Record whether and why the server is lost, from its process or from its connection.

        The error code alone does not decide: a server may use any code for its own errors.
        """
        if self._stdio is not None:
            if self._stdio.is_ended:
                self._loss = await self._stdio.describe_end()
        elif self._http is not None:
            reason = self._http.loss_reason(error, since)
            # Wait for the end of the session task: its own error may name the cause more exactly.
            if reason is not None and is_closed(error) and self._session_task is not None:
                await asyncio.wait([self._session_task], timeout=EXIT_REPORT_WAIT_S)
            self._loss = self._loss or reason

    async def _loss_reason(self, error: BaseException) -> str:
        if isinstance(error, TimeoutError):
            limit = f"within its timeout of {self._config.timeout:g} s"
            if self._last_answer is None:
                return f"no answer {limit}"
            return f"not ready {limit}; its last answer: {self._last_answer[:MAX_REASON_CHARS]}"
        if self._stdio is not None and self._stdio.is_ended and is_closed(error):
            return await self._stdio.describe_end()
        reason = self._http.loss_reason(error) if self._http is not None else None
        return reason or next(iter(_iter_reasons(error)))

    def _died_error(self) -> ServerError:
        return self._server_error(ErrorKind.SERVER_DIED, "is gone")

    def _server_error(self, kind: ErrorKind, event: str) -> ServerError:
        """An error with its reason, in which secrets and header values are masked."""
        headers = self._config.headers if isinstance(self._config, HttpServer) else {}
        secret_values = {*self._environment.secret_values, *headers.values()}
        reason = secret_masker(secret_values)(str(self._loss))
        return ServerError(kind, f"server {self.name!r} {event}: {reason}")

    def _tool_call(
        self,
        tool: str,
        arguments: dict[str, Any],
        result: mcp_types.CallToolResult,
        start_time: float,
    ) -> McpToolCall:
        contents = parse_contents(result)
        return McpToolCall(
            server=self.name,
            tool=tool,
            arguments=arguments,
            text=render_text(contents),
            is_error=bool(result.is_error),
            duration_ms=1000 * (time.monotonic() - start_time),
            content=describe_contents(contents),
        )


@asynccontextmanager
async def running_servers(
    servers: Sequence[PlannedServer], file: str, environment: ServerEnvironment
) -> AsyncIterator[list[McpServer]]:
    """Start servers together and stop them after the block; after an error they are killed.

    Raises: ServerError.
    """
    running = [McpServer(server, file, environment) for server in servers]
    completed = False
    try:
        await asyncio.gather(*(server.start() for server in running))
        yield running
        completed = True
    finally:
        await asyncio.gather(*(server.stop(immediately=not completed) for server in running))


def _error_result(text: str) -> mcp_types.CallToolResult:
    content: list[mcp_types.ContentBlock] = [mcp_types.TextContent(text=text)]
    return mcp_types.CallToolResult(content=content, is_error=True)


def _iter_reasons(error: BaseException) -> Iterator[str]:
    """The messages of an error, or of all errors of an exception group, in order."""
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _iter_reasons(member)
    elif isinstance(error, AppError):
        yield error.detail[:MAX_REASON_CHARS]
    elif isinstance(error, MCPError):
        yield f"it refused the session: MCP error {error.code}: {error.message}"[:MAX_REASON_CHARS]
    elif isinstance(error, ProgramStartError):
        yield str(error)[:MAX_REASON_CHARS]
    elif isinstance(error, httpx2.ConnectError):
        yield f"connection failed: {_first_line(error)}; start the server, or correct its url"
    elif isinstance(error, ValidationError):
        yield f"its answer is invalid: {_first_line(error)}"
    else:
        yield f"{type(error).__name__}: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        flaw = next(describe_errors(error.errors(include_url=False, include_input=False)))
        return flaw.located_text()[:MAX_REASON_CHARS]
    return (str(error).splitlines() or ["no reason given"])[0][:MAX_REASON_CHARS]
