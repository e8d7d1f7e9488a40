"""Servers that are programs of this machine: their process, what they say, and their end.

The SDK's own way of starting them hands over variables of the host; here a program gets what it is
given, and nothing else. Source: MCP specification 2025-11-25, transports, stdio.
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
from types import TracebackType
from typing import Final, Self

import anyio
import mcp_types
from mcp.shared.message import SessionMessage

from app.harness.mcp.reaper import REAPER

LINE_BYTES: Final = 16 * 1024 * 1024
NOISE_BYTES: Final = 1024 * 1024
NOISE_LINE_BYTES: Final = 64  # what a short line counts for: each is looked at
TAIL_BYTES: Final = 8 * 1024
SHOWN: Final = 120  # characters of what cannot be read

ASKED_S: Final = 0.5  # for a server whose input was closed, before it gets SIGTERM
END_S: Final = 2.0  # for all of it, before SIGKILL
LAST_WORDS_S: Final = 1.0  # between the end of its output and its own
POLL_S: Final = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is started: `env` is its whole environment, PATH included."""

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None


class NotStarted(Exception):
    """A program could not be started; the message says why."""


class StdioLink:
    """The two streams of a program, as the SDK's session wants them.

    What is no message on its output is passed over, up to a limit: many servers log there.
    `broken` says why the program is not listened to any more, `ended` that the session is over.
    """

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.broken: str | None = None
        self.ended = False
        self._process = process
        self._output = asyncio.StreamReader(limit=LINE_BYTES)
        self._errors = _Tail()
        self._input: asyncio.StreamWriter | None = None
        self._transports: list[asyncio.BaseTransport] = []
        self._noise = 0

    async def connect(self) -> None:
        """Attach the pipes to the running loop."""
        loop, process = asyncio.get_running_loop(), self._process
        protocol = asyncio.StreamReaderProtocol(self._output)
        output, _ = await loop.connect_read_pipe(lambda: protocol, process.stdout)
        self._transports.append(output)
        errors, _ = await loop.connect_read_pipe(lambda: self._errors, process.stderr)
        self._transports.append(errors)
        flow = asyncio.StreamReaderProtocol(asyncio.StreamReader())
        writing, _ = await loop.connect_write_pipe(lambda: flow, process.stdin)
        self._input = asyncio.StreamWriter(writing, flow, None, loop)

    async def receive(self) -> SessionMessage:
        """The next message of the program. Raises anyio.EndOfStream when none comes any more."""
        while self.broken is None:
            try:
                line = await self._output.readuntil(b"\n")
            except asyncio.LimitOverrunError:
                self.give_up(f"it wrote a line of more than {LINE_BYTES} bytes")
                break
            except (asyncio.IncompleteReadError, OSError):
                break
            message = self._read(line)
            if message is not None:
                return message
        self.ended = True
        raise anyio.EndOfStream

    async def send(self, item: SessionMessage) -> None:
        """Hand one message to the program. Raises anyio.BrokenResourceError when it reads no more.

        Nobody waits until it is read: who asks waits for the answer, within limits of its own.
        """
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        if self._input is None or self._input.is_closing():
            self.ended = True
            raise anyio.BrokenResourceError
        self._input.write(text.encode() + b"\n")

    async def aclose(self) -> None:
        """The session closes its streams; the pipes are closed with the program."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def why(self) -> str:
        """What is known of a program that answers no more."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await self._errors.ended.wait()
                await self._ended(time.monotonic() + LAST_WORDS_S)
        code = self._code() if self._has_ended() else None
        said = " ".join(self._errors.text().split())[-SHOWN * 4 :]
        told = f"; it said: {said}" if said else ""
        if self.broken is not None:
            return f"{self.broken}{told}"
        how = "it closed its output" if code is None else _ending(code)
        return f"{how}{told}"

    def give_up(self, reason: str) -> None:
        """Listen no more, and kill the program."""
        self.broken = reason
        self.kill()

    def kill(self) -> None:
        """Kill it and all that it started, at once."""
        self._signal(signal.SIGKILL)

    async def end(self) -> None:
        """See the program end: asked, told, and killed after two seconds; then nothing is left."""
        if self._input is not None:
            self._input.close()
        began = time.monotonic()
        if not await self._ended(began + ASKED_S):
            self._signal(signal.SIGTERM)
            await self._ended(began + END_S)
        self._signal(signal.SIGKILL)
        if await self._ended(began + END_S + END_S):
            self._code()
        REAPER.forget(self._process.pid)
        await self._close_pipes()

    async def _close_pipes(self) -> None:
        process = self._process
        assert process.stdin
        assert process.stdout
        assert process.stderr
        for transport in self._transports:
            transport.close()
        await asyncio.sleep(0)  # the loop lets go of what is closed in its next round
        if self._input is not None and not process.stdin.closed:  # nobody read what was written
            self._input.transport.abort()
            await asyncio.sleep(0)
        for pipe in (process.stdin, process.stdout, process.stderr):
            with suppress(OSError):
                pipe.close()

    async def _ended(self, deadline: float) -> bool:
        while not self._has_ended():
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(POLL_S)
        return True

    def _has_ended(self) -> bool:
        """Whether the program is gone; its number stays taken, so that its group can be killed."""
        if self._process.returncode is not None:
            return True
        seen = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, seen) is not None

    def _code(self) -> int:
        """What a program ended with, after the last of what it started."""
        self._signal(signal.SIGKILL)
        return self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is not None:  # its number may be a stranger's by now
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _read(self, line: bytes) -> SessionMessage | None:
        try:
            return SessionMessage(
                mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            )
        except ValueError:
            shown = line[:SHOWN].decode("utf-8", "replace").strip()
        self._noise += max(len(line), NOISE_LINE_BYTES)
        if b'"jsonrpc"' in line:
            self.give_up(f"it wrote a message that cannot be read: {shown!r}")
        elif self._noise > NOISE_BYTES:
            self.give_up(f"it wrote more than {NOISE_BYTES} bytes that are no messages: {shown!r}")
        return None


@asynccontextmanager
async def running_program(program: Program) -> AsyncIterator[StdioLink]:
    """A program that runs as long as the block, and all that it starts.

    It leads a group of processes of its own, so that Ctrl-C is ours to handle. An error or a cancel
    kills it at once. Raises: NotStarted.
    """
    link = StdioLink(_spawn(program))
    in_peace = False
    try:
        await link.connect()
        yield link
        in_peace = True
    finally:
        if not in_peace:
            link.kill()
        with anyio.CancelScope(shield=True):
            await link.end()


def _spawn(program: Program) -> "subprocess.Popen[bytes]":
    try:
        process = subprocess.Popen(  # noqa: S603 - the program is the user's
            [program.command, *program.args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(program.env),
            cwd=program.folder,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise NotStarted(f"{program.command!r} cannot be started: {reason}") from None
    REAPER.watch(process.pid)
    return process


def _ending(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    with suppress(ValueError):
        return f"it was ended by {signal.Signals(-code).name}"
    return f"it was ended by signal {-code}"


class _Tail(asyncio.Protocol):
    """Keeps the last of what a program says on its standard error."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self._kept = b""

    def data_received(self, data: bytes) -> None:
        self._kept = (self._kept + data)[-TAIL_BYTES:]

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the signature
        self.ended.set()

    def text(self) -> str:
        return self._kept.decode("utf-8", "replace")
