"""Clients of the load benchmark: requests in a loop, and event streams that stay open.

They speak HTTP on plain sockets in one process, so that the servers are measured and not the client.
A response that is not 2xx, an early end of a stream and a broken connection are errors.
"""

import asyncio
import itertools
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


class LoadRequest(NamedTuple):
    """A type of request; `clients` send it in a loop, and `next_bytes` gives each request."""

    name: str
    clients: int
    next_bytes: Callable[[], bytes]


class StreamRequest(NamedTuple):
    """An event stream of one run."""

    run_id: str
    request: bytes


@dataclass(slots=True)
class LoadResult:
    """Seconds of each request by type, seconds from a change to its event, and errors with counts."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    event_delays_s: list[float] = field(default_factory=list)
    open_streams: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, other: "LoadResult") -> None:
        for name, seconds in other.seconds.items():
            self.seconds.setdefault(name, []).extend(seconds)
        self.event_delays_s += other.event_delays_s
        self.open_streams = max(self.open_streams, other.open_streams)
        self.errors += other.errors


def build_request(
    method: str, path: str, token: str, body: bytes = b"", media_type: str = "application/json"
) -> bytes:
    """The bytes of one HTTP request."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: {media_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def apply_load(
    port: int,
    requests: Sequence[LoadRequest],
    streams: Sequence[StreamRequest],
    changed_at: Mapping[tuple[str, int], float],
    seconds: float,
) -> LoadResult:
    """Open all streams, then send all requests for some seconds.

    `changed_at` has the time at which the number of processed traces of a run got a value.
    """
    result = LoadResult(seconds={request.name: [] for request in requests})
    async with _open_streams(port, streams, changed_at, result):
        deadline = time.perf_counter() + seconds
        async with asyncio.TaskGroup() as clients:
            for request in itertools.chain.from_iterable([r] * r.clients for r in requests):
                clients.create_task(_send_until(deadline, port, request, result))
    return result


async def hold_streams(
    port: int,
    streams: Sequence[StreamRequest],
    changed_at: Mapping[tuple[str, int], float],
    seconds: float,
    sample: Callable[[], Sample],
) -> tuple[LoadResult, Sample, Sample]:
    """Keep all streams open for some seconds; with samples taken once they are open, and at the end."""
    result = LoadResult()
    async with _open_streams(port, streams, changed_at, result):
        opened = sample()
        await asyncio.sleep(seconds)
        return result, opened, sample()


async def _send_until(deadline: float, port: int, request: LoadRequest, result: LoadResult) -> None:
    """One client: a persistent connection that is opened again after an error."""
    while time.perf_counter() < deadline:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            while time.perf_counter() < deadline:
                started = time.perf_counter()
                writer.write(request.next_bytes())
                async with asyncio.timeout(TIMEOUT_S):
                    status = await _read_response(reader)
                result.seconds[request.name].append(time.perf_counter() - started)
                if not 200 <= status < 300:
                    result.errors[f"{request.name}: status {status}"] += 1
            writer.close()
        except (OSError, EOFError, TimeoutError) as error:
            result.errors[f"{request.name}: {type(error).__name__}"] += 1


async def _read_response(reader: asyncio.StreamReader) -> int:
    """The status of a response, whose body is read too."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
    await reader.readexactly(length)
    return int(head[9:12])


@asynccontextmanager
async def _open_streams(
    port: int,
    streams: Sequence[StreamRequest],
    changed_at: Mapping[tuple[str, int], float],
    result: LoadResult,
) -> AsyncIterator[None]:
    limit = asyncio.Semaphore(CONNECTING_AT_ONCE)
    opened = [asyncio.Event() for _ in streams]
    tasks = [
        asyncio.create_task(_follow(port, stream, changed_at, result, limit, first_event))
        for stream, first_event in zip(streams, opened, strict=True)
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
    changed_at: Mapping[tuple[str, int], float],
    result: LoadResult,
    limit: asyncio.Semaphore,
    first_event: asyncio.Event,
) -> None:
    """Read a stream until it ends; each event after the first one counts with its delay."""
    writer = None
    try:
        async with limit:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(stream.request)
            head = await reader.readuntil(b"\r\n\r\n")
            if head[9:12] != b"200":
                result.errors[f"stream: status {head[9:12].decode()}"] += 1
                return
            await _next_count(reader)
        first_event.set()
        while True:
            count = await _next_count(reader)
            changed = changed_at.get((stream.run_id, count))
            if changed is not None:
                result.event_delays_s.append(time.perf_counter() - changed)
    except (OSError, EOFError) as error:
        result.errors[f"stream: {type(error).__name__}"] += 1
    finally:
        first_event.set()
        if writer is not None:
            writer.close()


async def _next_count(reader: asyncio.StreamReader) -> int:
    """The number of processed traces in the next event; skips comments and chunk sizes."""
    while True:
        line = await reader.readuntil(b"\n")
        if line.startswith(EVENT_PREFIX):
            with suppress(ValueError):
                return int(json.loads(line.removeprefix(EVENT_PREFIX))["tracesProcessed"])
