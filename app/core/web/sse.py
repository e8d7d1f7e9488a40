"""Progress as server-sent events: one database connection wakes every open stream.

A service notifies a key inside its transaction; Postgres delivers the notification at the commit to
the one listening connection of each process, which wakes the streams of that key. A stream then
takes a new snapshot, so that a lost notification does no harm.
Source: WHATWG HTML §9.2 (server-sent events).
"""

import asyncio
import hashlib
import json
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread
import psycopg
import structlog
from fastapi import Request
from fastapi.encoders import jsonable_encoder
from fastapi.responses import Response, StreamingResponse
from psycopg import sql
from starlette.types import Receive, Scope, Send

from app.core.db import libpq_url
from app.core.errors import Unavailable
from app.core.postgres_notify import CHANNEL

log = structlog.stdlib.get_logger(__name__)

# Below the idle timeout of common proxies (60 s); the command line gives up after four of them.
HEARTBEAT_S = 15.0
# A shard writes many rows: their notifications become one snapshot.
COALESCE_S = 0.1
FIRST_RECONNECT_S = 0.1
MAX_RECONNECT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSnapshot:
    """The state that a stream sends at one moment.

    `data` is JSON or a wire model. `final` ends the stream after it. Without an `id`, a digest of
    the content is the id, so that an unchanged snapshot is never sent twice.
    """

    event: str
    data: Any
    id: str | None = None
    final: bool = False


class EventHub:
    """Wakes streams by key, over one listening connection for the whole process.

    It reconnects by itself and then wakes all streams, because notifications may have been lost.
    """

    def __init__(
        self,
        url: str,
        *,
        channel: str = CHANNEL,
        heartbeat_s: float = HEARTBEAT_S,
        coalesce_s: float = COALESCE_S,
    ) -> None:
        self.heartbeat_s = heartbeat_s
        self.coalesce_s = coalesce_s
        self.listening = False
        self.closed = False
        self._url = url
        self._channel = channel
        self._subscribers: dict[str, set[asyncio.Event]] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listen until the block ends, then end every stream."""
        listener = asyncio.create_task(self._listen_forever())
        try:
            yield
        finally:
            self.close()
            listener.cancel()
            with suppress(asyncio.CancelledError):
                await listener

    @contextmanager
    def subscribe(self, key: str) -> Iterator[asyncio.Event]:
        """An event that is set by each notification of the key; the reader clears it."""
        wakeup = asyncio.Event()
        self._subscribers.setdefault(key, set()).add(wakeup)
        try:
            yield wakeup
        finally:
            # The last stream of a key removes it, so that keys of old runs do not pile up.
            waiting = self._subscribers[key]
            waiting.discard(wakeup)
            if not waiting:
                del self._subscribers[key]

    def wake(self, key: str) -> None:
        """Wake the streams of a key."""
        for wakeup in self._subscribers.get(key, ()):
            wakeup.set()

    def wake_all(self) -> None:
        """Wake every stream."""
        for key in self._subscribers:
            self.wake(key)

    def close(self) -> None:
        """End every open stream, so that a stopping server does not wait for them."""
        self.closed = True
        self.wake_all()

    @property
    def open_streams(self) -> int:
        """Number of open streams."""
        return sum(len(waiting) for waiting in self._subscribers.values())

    async def _listen_forever(self) -> None:
        delay_s = FIRST_RECONNECT_S
        while not self.closed:
            try:
                await self._listen()
            except (psycopg.Error, OSError) as error:
                if self.listening:
                    log.warning("lost the event connection", cause=type(error).__name__)
                    delay_s = FIRST_RECONNECT_S
                self.listening = False
            # Jitter, so that all processes do not reconnect to a restarted database at the same
            # moment.
            await asyncio.sleep(delay_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
            delay_s = min(2 * delay_s, MAX_RECONNECT_S)

    async def _listen(self) -> None:
        connection = await psycopg.AsyncConnection.connect(
            libpq_url(self._url),
            autocommit=True,
            connect_timeout=5,
            # A listener only receives: without keep-alives it would not notice a connection that is
            # gone.
            keepalives_idle=10,
            application_name="mosaico-events",
        )
        async with connection:
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
            self.listening = True
            self.wake_all()
            async for notification in connection.notifies():
                self.wake(notification.payload)


def stream_events(
    request: Request, hub: EventHub, key: str, snapshot: Callable[[], EventSnapshot | None]
) -> StreamingResponse:
    """Server-sent events that follow one resource until a snapshot is final.

    `snapshot` runs in a thread: at the start, after each notification of the key and at each
    heartbeat. None means that the resource was deleted and ends the stream. A client that
    reconnects with `Last-Event-ID` does not get the same event again; one that has received the
    final event gets 204, which stops the reconnects of a browser. An error of the first snapshot
    becomes the response.
    """
    return _EventStream(hub, key, snapshot, request.headers.get("last-event-id"))


class _EventStream(StreamingResponse):
    media_type = "text/event-stream"

    def __init__(
        self,
        hub: EventHub,
        key: str,
        snapshot: Callable[[], EventSnapshot | None],
        last_id: str | None,
    ) -> None:
        # nginx would otherwise collect events until its buffer is full.
        super().__init__(self._events(), headers={"X-Accel-Buffering": "no"})
        self._hub = hub
        self._key = key
        self._snapshot = snapshot
        self._last_id = last_id
        self._first: EventSnapshot | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Subscribed before the first snapshot: a change between the two would be missed.
        with self._hub.subscribe(self._key) as wakeup:
            self._wakeup = wakeup
            self._first = await self._take_snapshot()
            if self._first is None or self._is_final_event_known(self._first):
                await Response(status_code=204)(scope, receive, send)
            else:
                await self._stream_until_disconnect(receive, send)

    async def _stream_until_disconnect(self, receive: Receive, send: Send) -> None:
        async with anyio.create_task_group() as both:

            async def follow() -> None:
                with suppress(OSError):
                    await self.stream_response(send)
                both.cancel_scope.cancel()

            both.start_soon(follow)
            await self.listen_for_disconnect(receive)
            both.cancel_scope.cancel()

    async def _events(self) -> AsyncIterator[bytes]:
        snapshot = self._first
        while snapshot is not None and not self._hub.closed:
            yield self._encode_event(snapshot)
            if snapshot.final:
                return
            await self._wait_for_change()
            snapshot = await self._retake_snapshot(snapshot)

    async def _wait_for_change(self) -> None:
        with anyio.move_on_after(self._hub.heartbeat_s):
            await self._wakeup.wait()
            await asyncio.sleep(self._hub.coalesce_s)
        # Before the snapshot: a change during it sets the event again and causes another snapshot.
        self._wakeup.clear()

    async def _retake_snapshot(self, previous: EventSnapshot) -> EventSnapshot | None:
        """A new snapshot; the previous one while the database is unavailable."""
        if self._hub.closed:
            return None
        try:
            return await self._take_snapshot()
        except Unavailable:
            return previous

    async def _take_snapshot(self) -> EventSnapshot | None:
        return await anyio.to_thread.run_sync(self._snapshot)

    def _encode_event(self, snapshot: EventSnapshot) -> bytes:
        data = _json(snapshot.data)
        identity = _event_id(snapshot, data)
        if identity == self._last_id:
            # An unchanged snapshot becomes a comment, which keeps proxies from closing the
            # connection.
            return b": still here\n\n"
        self._last_id = identity
        return f"event: {snapshot.event}\nid: {identity}\ndata: {data}\n\n".encode()

    def _is_final_event_known(self, snapshot: EventSnapshot) -> bool:
        return snapshot.final and _event_id(snapshot, _json(snapshot.data)) == self._last_id


def _json(data: Any) -> str:
    return json.dumps(jsonable_encoder(data), ensure_ascii=False, separators=(",", ":"))


def _event_id(snapshot: EventSnapshot, data: str) -> str:
    if snapshot.id is not None:
        return snapshot.id
    return hashlib.sha256(f"{snapshot.event} {data}".encode()).hexdigest()[:16]
