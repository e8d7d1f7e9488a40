"""Clients of the load benchmark: requests in a loop, and event streams that stay open.

They speak HTTP on plain sockets in one process, so that the servers are measured and not the client.
A response that is not 2xx, an early end of a stream, a broken connection and a lost event are errors. Each
client knows from the changes of its run which events it must have received.
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
# After the last change a busy server may still have events to send.
LAST_EVENTS_WITHIN_S: Final = 60.0
LOST_EVENT: Final = "stream: lost event"

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
class FollowedStream:
    """An open stream and the numbers of processed traces in its events; the first one is that of its start."""

    request: StreamRequest
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    counts: list[int] = field(default_factory=list)
    received: asyncio.Event = field(default_factory=asyncio.Event)

    def add_event(self, count: int) -> None:
        self.counts.append(count)
        self.received.set()

    async def wait_for_count(self, count: int) -> None:
        """Wait for an event with this number or a later one."""
        while self.counts and self.counts[-1] < count:
            self.received.clear()
            await self.received.wait()

    def expected_counts(self, changed_at: Mapping[tuple[str, int], float]) -> set[int]:
        """The changes of the run after the start of the stream: each has an event of its own."""
        if not self.counts:
            return set()
        run_id, first = self.request.run_id, self.counts[0]
        return {count for changed_id, count in changed_at if changed_id == run_id and count > first}


@dataclass(slots=True)
class LoadResult:
    """Seconds of each request by type, seconds from a change to its event, and errors with counts."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    event_delays_s: list[float] = field(default_factory=list)
    open_streams: int = 0
    expected_events: int = 0
    lost_events: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, other: "LoadResult") -> None:
        for name, seconds in other.seconds.items():
            self.seconds.setdefault(name, []).extend(seconds)
        self.event_delays_s += other.event_delays_s
        self.open_streams = max(self.open_streams, other.open_streams)
        self.expected_events += other.expected_events
        self.lost_events += other.lost_events
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
    stop_changes: Callable[[], None] = lambda: None,
) -> LoadResult:
    """Open all streams, then send all requests for some seconds.

    `changed_at` has the time at which the number of processed traces of a run got a value;
    `stop_changes` returns when it gets no more. Then each change must have its event.
    """
    result = LoadResult(seconds={request.name: [] for request in requests})
    async with _open_streams(port, streams, changed_at, result) as followed:
        deadline = time.perf_counter() + seconds
        async with asyncio.TaskGroup() as clients:
            for request in itertools.chain.from_iterable([r] * r.clients for r in requests):
                clients.create_task(_send_until(deadline, port, request, result))
        await asyncio.to_thread(stop_changes)
        await count_lost_events(followed, changed_at, result)
    return result


async def count_lost_events(
    streams: Sequence[FollowedStream],
    changed_at: Mapping[tuple[str, int], float],
    result: LoadResult,
) -> None:
    """Wait until each client has its last event, or for `LAST_EVENTS_WITHIN_S`; count those without one."""
    expected = [stream.expected_counts(changed_at) for stream in streams]
    with suppress(TimeoutError):
        async with asyncio.timeout(LAST_EVENTS_WITHIN_S):
            for stream, counts in zip(streams, expected, strict=True):
                await stream.wait_for_count(max(counts, default=0))
    result.expected_events = sum(map(len, expected))
    result.lost_events = sum(
        len(counts.difference(stream.counts))
        for stream, counts in zip(streams, expected, strict=True)
    )
    if result.lost_events:
        result.errors[LOST_EVENT] += result.lost_events


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
) -> AsyncIterator[list[FollowedStream]]:
    limit = asyncio.Semaphore(CONNECTING_AT_ONCE)
    followed = [FollowedStream(stream) for stream in streams]
    tasks = [
        asyncio.create_task(_follow(port, stream, changed_at, result, limit)) for stream in followed
    ]
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await asyncio.gather(*(stream.opened.wait() for stream in followed))
        result.open_streams = len(streams) - sum(task.done() for task in tasks)
        yield followed
        ended = sum(task.done() for task in tasks)
        if ended:
            result.errors["stream ended early"] += ended
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(
    port: int,
    stream: FollowedStream,
    changed_at: Mapping[tuple[str, int], float],
    result: LoadResult,
    limit: asyncio.Semaphore,
) -> None:
    """Read a stream until it ends; each event after the first one counts with its delay."""
    writer = None
    try:
        async with limit:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(stream.request.request)
            head = await reader.readuntil(b"\r\n\r\n")
            if head[9:12] != b"200":
                result.errors[f"stream: status {head[9:12].decode()}"] += 1
                return
            stream.add_event(await _next_count(reader))
        stream.opened.set()
        while True:
            count = await _next_count(reader)
            stream.add_event(count)
            changed = changed_at.get((stream.request.run_id, count))
            if changed is not None:
                result.event_delays_s.append(time.perf_counter() - changed)
    except (OSError, EOFError) as error:
        result.errors[f"stream: {type(error).__name__}"] += 1
    finally:
        stream.opened.set()
        if writer is not None:
            writer.close()


async def _next_count(reader: asyncio.StreamReader) -> int:
    """The number of processed traces in the next event; skips comments and chunk sizes."""
    while True:
        line = await reader.readuntil(b"\n")
        if line.startswith(EVENT_PREFIX):
            with suppress(ValueError):
                return int(json.loads(line.removeprefix(EVENT_PREFIX))["tracesProcessed"])
