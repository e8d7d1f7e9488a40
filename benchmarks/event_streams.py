"""Clients that hold event streams open and time their events.

They speak HTTP on plain sockets in one process, so that the server is measured and not the client. A response
that is not 200, an early end of a stream and a broken connection are errors.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

EVENT_PREFIX: Final = b"data: "
CONNECTING_AT_ONCE: Final = 50
# Generous: other programs may load the machine, too.
TIMEOUT_S: Final = 300.0

Sample = TypeVar("Sample")
# The time at which the number of processed traces of a run got a value.
ChangeTimes = Mapping[tuple[str, int], float]


class StreamRequest(NamedTuple):
    """The event stream of one run, with the key that opens it."""

    run_id: str
    token: str

    def to_bytes(self) -> bytes:
        return (
            f"GET /api/v1/benchmark-runs/{self.run_id}/events HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {self.token}\r\n\r\n"
        ).encode()


@dataclass(slots=True)
class StreamResult:
    """The streams that were open at once, the seconds from a change to its event, and errors with counts."""

    open_streams: int = 0
    event_delays_s: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)


async def hold_streams(
    port: int,
    streams: Sequence[StreamRequest],
    changed_at: ChangeTimes,
    seconds: float,
    sample: Callable[[], Sample],
) -> tuple[StreamResult, Sample, Sample]:
    """Keep all streams open for some seconds; with samples taken once they are open, and at the end."""
    result = StreamResult()
    async with _open_streams(port, streams, changed_at, result):
        opened = sample()
        await asyncio.sleep(seconds)
        return result, opened, sample()


@asynccontextmanager
async def _open_streams(
    port: int, streams: Sequence[StreamRequest], changed_at: ChangeTimes, result: StreamResult
) -> AsyncIterator[None]:
    limit = asyncio.Semaphore(CONNECTING_AT_ONCE)
    opened = [asyncio.Event() for _ in streams]
    tasks = [
        asyncio.create_task(_follow(port, stream, event, changed_at, result, limit))
        for stream, event in zip(streams, opened, strict=True)
    ]
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await asyncio.gather(*(event.wait() for event in opened))
        result.open_streams = len(streams) - sum(task.done() for task in tasks)
        yield
        ended = sum(task.done() for task in tasks)
        if ended:
            result.errors["stream ended early"] += ended
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(
    port: int,
    stream: StreamRequest,
    opened: asyncio.Event,
    changed_at: ChangeTimes,
    result: StreamResult,
    limit: asyncio.Semaphore,
) -> None:
    """Read a stream until it ends; each event after the first one counts with its delay."""
    writer = None
    try:
        async with limit:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(stream.to_bytes())
            head = await reader.readuntil(b"\r\n\r\n")
            if head[9:12] != b"200":
                result.errors[f"stream: status {head[9:12].decode()}"] += 1
                return
            await _next_count(reader)
        opened.set()
        while True:
            changed = changed_at.get((stream.run_id, await _next_count(reader)))
            if changed is not None:
                result.event_delays_s.append(time.perf_counter() - changed)
    except (OSError, EOFError) as error:
        result.errors[f"stream: {type(error).__name__}"] += 1
    finally:
        opened.set()
        if writer is not None:
            writer.close()


async def _next_count(reader: asyncio.StreamReader) -> int:
    """The number of processed traces in the next event; skips comments and chunk sizes."""
    while True:
        line = await reader.readuntil(b"\n")
        if line.startswith(EVENT_PREFIX):
            with suppress(ValueError):
                return int(json.loads(line.removeprefix(EVENT_PREFIX))["tracesProcessed"])
