"""MCP servers as local processes: start, the stream for the SDK's session, stderr, and termination.

The SDK's `stdio_client` adds variables of the host to the environment of a server, which could leak
secrets; here a server gets its configured environment only. Source: MCP specification 2025-11-25,
transports, stdio.
"""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
import mcp_types
from anyio.abc import ObjectStream
from mcp.shared.message import SessionMessage

from mosaico.harness.mcp.servers.process_reaper import REAPER

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
MAX_NOISE_BYTES: Final = 1024 * 1024
MIN_NOISE_LINE_BYTES: Final = 64  # minimum cost of a line: parsing an empty line takes time as well
STDERR_TAIL_BYTES: Final = 8 * 1024
MAX_QUOTED_CHARS: Final = 120  # of an invalid line

STDIN_CLOSE_GRACE_S: Final = 0.5  # between closing stdin and SIGTERM
SIGTERM_GRACE_S: Final = 2.0  # from closing stdin to SIGKILL
EXIT_REPORT_WAIT_S: Final = 1.0  # between the end of the output and the exit of the process
EXIT_POLL_S: Final = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProgram:
    """The command line of a server; `env` is its complete environment, including PATH."""

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None


class ProgramStartError(Exception):
    """A program could not be started; the message gives the reason."""


class StdioConnection(ObjectStream[SessionMessage]):
    """The messages of a process, as the stream that the SDK's session reads and writes.

    Lines of the output that are not messages are skipped up to a limit: many servers log to stdout.
    `broken_reason` is set when the output was rejected, `is_ended` when the session is over.
    """

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.broken_reason: str | None = None
        self.is_ended = False
        self._process = process
        self._stdin: asyncio.WriteTransport | None = None
        self._stdout = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        self._stderr = _StderrTail()
        self._transports: list[asyncio.BaseTransport] = []
        self._noise_bytes = 0

    async def connect(self) -> None:
        """Attach the pipes of the process to the event loop."""
        loop, process = asyncio.get_running_loop(), self._process
        protocol = asyncio.StreamReaderProtocol(self._stdout)
        output, _ = await loop.connect_read_pipe(lambda: protocol, process.stdout)
        self._transports.append(output)
        errors, _ = await loop.connect_read_pipe(lambda: self._stderr, process.stderr)
        self._transports.append(errors)
        self._stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
        self._transports.append(self._stdin)

    async def receive(self) -> SessionMessage:
        """The next message of the server. Raises anyio.EndOfStream at the end of its output."""
        while self.broken_reason is None:
            try:
                line = await self._stdout.readuntil(b"\n")
            except asyncio.LimitOverrunError:
                self.reject(f"it wrote a line longer than {MAX_LINE_BYTES} bytes")
                break
            except (asyncio.IncompleteReadError, OSError):
                break
            message = self._parse_line(line)
            if message is not None:
                return message
        self.is_ended = True
        raise anyio.EndOfStream

    async def send(self, item: SessionMessage) -> None:
        """Send one message to the server. Raises anyio.BrokenResourceError when stdin is closed.

        It does not wait for the server to read: the caller waits for the response with a timeout.
        """
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        if self._stdin is None or self._stdin.is_closing():
            self.is_ended = True
            raise anyio.BrokenResourceError
        # Buffered: a server that does not read would block the session for ever, while each call has
        # its own timeout.
        self._stdin.write(text.encode() + b"\n")

    async def send_eof(self) -> None:
        """Close the input of the server."""
        if self._stdin is not None:
            self._stdin.close()

    async def aclose(self) -> None:
        """Called by the session; `terminate` closes the pipes when the process ends."""

    async def describe_end(self) -> str:
        """Return the reason why the server no longer responds: its exit code or invalid output, and
        the end of stderr.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(EXIT_REPORT_WAIT_S):
                await self._stderr.ended.wait()
                await self._wait_for_exit(time.monotonic() + EXIT_REPORT_WAIT_S)
        # Only after it has exited: reaping waits.
        exit_code = self._reap() if self._has_exited() else None
        last_output = " ".join(self._stderr.text().split())[-MAX_QUOTED_CHARS * 4 :]
        quoted_output = f"; its stderr ends with: {last_output}" if last_output else ""
        if self.broken_reason is not None:
            return f"{self.broken_reason}{quoted_output}"
        ending = "it closed its output" if exit_code is None else _describe_exit_code(exit_code)
        return f"{ending}{quoted_output}"

    def reject(self, reason: str) -> None:
        """Stop reading the output, and kill the process group."""
        self.broken_reason = reason
        self.kill()

    def kill(self) -> None:
        """Kill the process group at once."""
        self._signal_group(signal.SIGKILL)

    async def terminate(self) -> None:
        """End the process group: close stdin, then SIGTERM, and SIGKILL two seconds after the start."""
        # The MCP specification ends a server by closing its input; most servers exit then.
        await self.send_eof()
        start_time = time.monotonic()
        if not await self._wait_for_exit(start_time + STDIN_CLOSE_GRACE_S):
            self._signal_group(signal.SIGTERM)
            await self._wait_for_exit(start_time + SIGTERM_GRACE_S)
        # Also after a regular exit: what the server has started may still run.
        self._signal_group(signal.SIGKILL)
        if await self._wait_for_exit(start_time + SIGTERM_GRACE_S + SIGTERM_GRACE_S):
            self._reap()
        REAPER.unwatch(self._process.pid)
        await self._close_pipes()

    async def _close_pipes(self) -> None:
        if self._stdin is not None and self._stdin.get_write_buffer_size():
            self._stdin.abort()  # unread input would delay the close
        for transport in self._transports:
            transport.close()
        await asyncio.sleep(0)  # transports close in the next iteration of the event loop
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with suppress(OSError):  # a cancelled start has not attached all of them
                    pipe.close()

    async def _wait_for_exit(self, deadline: float) -> bool:
        while not self._has_exited():
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(EXIT_POLL_S)
        return True

    def _has_exited(self) -> bool:
        """Return whether the process has exited. It is not reaped: its pid keeps the process group
        addressable.
        """
        if self._process.returncode is not None:
            return True
        # WNOWAIT leaves the process as a zombie. Once it is reaped, its number can go to another
        # process, and a signal to its group would reach that process.
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, options) is not None

    def _reap(self) -> int:
        """Kill the rest of the process group, then reap the process and return its exit code."""
        self._signal_group(signal.SIGKILL)
        return self._process.wait()

    def _signal_group(self, number: signal.Signals) -> None:
        if self._process.returncode is not None:  # a reaped pid may belong to another process
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _parse_line(self, line: bytes) -> SessionMessage | None:
        try:
            return SessionMessage(
                mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            )
        except ValueError:
            quoted = line[:MAX_QUOTED_CHARS].decode("utf-8", "replace").strip()
        # Limited: a program that prints without end would keep the session busy.
        self._noise_bytes += max(len(line), MIN_NOISE_LINE_BYTES)
        # A broken message, not a log line: the response that it should be would never arrive.
        if b'"jsonrpc"' in line:
            self.reject(f"it wrote an invalid message: {quoted!r}")
        elif self._noise_bytes > MAX_NOISE_BYTES:
            self.reject(
                f"it wrote more than {MAX_NOISE_BYTES} bytes that are not messages: {quoted!r}"
            )
        return None


@asynccontextmanager
async def running_program(program: ServerProgram) -> AsyncIterator[StdioConnection]:
    """Run a program during the block.

    It leads its own session and process group: Ctrl-C reaches this process only, and a signal to the
    group also ends its children. An error or a cancellation kills it at once.
    Raises: ProgramStartError.
    """
    connection = StdioConnection(_spawn(program))
    completed = False
    try:
        await connection.connect()
        yield connection
        completed = True
    finally:
        if not completed:
            connection.kill()
        # A cancellation must not interrupt the termination, or processes would stay behind.
        with anyio.CancelScope(shield=True):
            await connection.terminate()


def _spawn(program: ServerProgram) -> "subprocess.Popen[bytes]":
    try:
        process = subprocess.Popen(  # noqa: S603 - the program is the user's
            [program.command, *program.args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Nothing of our own environment: it holds the API keys of the models.
            env=dict(program.env),
            cwd=program.folder,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ProgramStartError(f"{program.command!r} cannot be started: {reason}") from None
    REAPER.watch(process.pid)
    return process


def _describe_exit_code(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    with suppress(ValueError):
        return f"it was ended by {signal.Signals(-code).name}"
    return f"it was ended by signal {-code}"


class _StderrTail(asyncio.Protocol):
    """Keeps the last bytes of stderr."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self._tail = b""

    def data_received(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-STDERR_TAIL_BYTES:]

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the signature
        self.ended.set()

    def text(self) -> str:
        return self._tail.decode("utf-8", "replace")
