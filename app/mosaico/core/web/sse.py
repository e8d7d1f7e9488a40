"""Progress as server-sent events: one database connection wakes every open stream.

A service notifies a key inside its transaction; Postgres delivers the notification at the commit to
the one listening connection of each process, which wakes the streams of that key. A stream then
reads the state again, so that a lost notification does no harm.
Source: WHATWG HTML §9.2 (server-sent events).
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain

import anyio
import anyio.to_thread
import psycopg
import structlog
from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from psycopg import sql
from starlette.types import Receive, Scope, Send

from mosaico.core.engine import libpq_url
from mosaico.core.errors import Unavailable
from mosaico.core.postgres_notify import CHANNEL
from mosaico.core.problem_documents import TooManyRequests
from mosaico.core.row_limits import current_limit, limited_reader
from mosaico.core.web.event_feeds import (
    EncodedEvent,
    EventFeed,
    FeedReader,
    StreamOwner,
    StreamOwners,
)

log = structlog.stdlib.get_logger(__name__)

# Below the idle timeout of common proxies (60 s); the command line gives up after four of them.
HEARTBEAT_S = 15.0
# A shard writes many rows: their notifications become one event.
COALESCE_S = 0.1
FIRST_RECONNECT_S = 0.1
MAX_RECONNECT_S = 5.0
# Half of the two seconds within which a stream of a revoked key ends.
REVOKE_INTERVAL_S = 1.0
# A stream that does not end by itself waits for a snapshot, or for a client that does not read.
END_GRACE_S = 0.5
STREAMS_PER_OWNER = 100
STREAMS_PER_PROCESS = 1000
# The key of streams that every notification wakes.
EVERY_KEY = "*"
_RETRY_LATER = {"Retry-After": "10"}

# Not the generator that all threads share: whoever seeds that one wants its numbers.
_JITTER = random.Random()  # noqa: S311


class TooManyStreams(TooManyRequests):
    """Too many open event streams; close one, or read the resource instead."""


@dataclass(eq=False, slots=True, kw_only=True)
class EventSubscription:
    """An open stream: `wakeup` is set by each notification and cleared by the reader; `revoked` is set when
    its owner may no longer read it.
    """

    owner: StreamOwner
    wakeup: asyncio.Event = field(default_factory=asyncio.Event)
    revoked: asyncio.Event = field(default_factory=asyncio.Event)


class EventHub:
    """Wakes streams by key, over one listening connection for the whole process.

    It reconnects by itself and then wakes all streams, because notifications may have been lost.
    """

    def __init__(
        self,
        url: str,
        *,
        owners: StreamOwners,
        channel: str = CHANNEL,
        heartbeat_s: float = HEARTBEAT_S,
        coalesce_s: float = COALESCE_S,
    ) -> None:
        self.owners = owners
        self.reader = FeedReader()
        # A thread of its own: requests that occupy all others must not keep streams open.
        self._revoke_limiter = anyio.CapacityLimiter(1)
        self.heartbeat_s = heartbeat_s
        self.coalesce_s = coalesce_s
        self.listening = False
        self.closed = False
        self._url = url
        self._channel = channel
        self._subscribers: dict[str, set[EventSubscription]] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listen until the block ends, then end every stream."""
        tasks = [
            asyncio.create_task(self._listen_forever()),
            asyncio.create_task(self._revoke_forever()),
        ]
        try:
            yield
        finally:
            self.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @contextmanager
    def subscribe(self, key: str, owner: StreamOwner) -> Iterator[EventSubscription]:
        """An open stream of the key, or of `EVERY_KEY`. Raises `TooManyStreams`."""
        self._require_free_place(owner)
        subscription = EventSubscription(owner=owner)
        self._subscribers.setdefault(key, set()).add(subscription)
        try:
            yield subscription
        finally:
            # The last stream of a key removes it, so that keys of old runs do not pile up.
            waiting = self._subscribers[key]
            waiting.discard(subscription)
            if not waiting:
                del self._subscribers[key]

    def wake(self, key: str) -> None:
        """Wake the streams of a key, and those of every key."""
        for woken in {key, EVERY_KEY}:
            for subscription in self._subscribers.get(woken, ()):
                subscription.wakeup.set()

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

    def _subscriptions(self) -> Iterator[EventSubscription]:
        return chain.from_iterable(self._subscribers.values())

    def _require_free_place(self, owner: StreamOwner) -> None:
        if self.open_streams >= STREAMS_PER_PROCESS:
            raise TooManyStreams(
                f"this process has {STREAMS_PER_PROCESS} open event streams, the maximum of a "
                "process; read the resource instead, or try again later",
                headers=_RETRY_LATER,
            )
        owned = sum(stream.owner.key_id == owner.key_id for stream in self._subscriptions())
        if owned >= STREAMS_PER_OWNER:
            raise TooManyStreams(
                f"this API key has {STREAMS_PER_OWNER} open event streams, the maximum of an API "
                "key; close one, then try again",
                headers=_RETRY_LATER,
            )

    async def _revoke_forever(self) -> None:
        while not self.closed:
            await asyncio.sleep(REVOKE_INTERVAL_S)
            try:
                await self._close_revoked()
            except Unavailable:
                # Nobody can revoke a key meanwhile, and no stream gets news.
                pass
            except Exception:
                # The next check must come: without it streams would stay open for ever.
                log.exception("could not check the API keys of open event streams")

    async def _close_revoked(self) -> None:
        owners = {subscription.owner for subscription in self._subscriptions()}
        if not owners:
            return
        unusable = await anyio.to_thread.run_sync(
            self.owners.find_unusable, owners, limiter=self._revoke_limiter
        )
        for subscription in self._subscriptions():
            if subscription.owner in unusable:
                subscription.revoked.set()
                subscription.wakeup.set()

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
            await asyncio.sleep(delay_s * _JITTER.uniform(0.5, 1.0))
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


def stream_events(request: Request, hub: EventHub, feed: EventFeed, key: str) -> "EventStream":
    """Server-sent events that follow one resource of a feed until its state is final; the route has the
    response class `EventStream`.

    The state is read at the start, after each notification of the key and at each heartbeat; a
    resource that was deleted ends the stream. A client that reconnects with `Last-Event-ID` does not
    get the same event again; one that has received the final event gets 204, which stops the
    reconnects of a browser. An error of the first read becomes the response, and so do the error of a
    resource that does not exist and `TooManyStreams`. The stream ends within two seconds after its API
    key or its browser session has ended.
    """
    owner, visible = hub.owners.owner_of(request), current_limit()
    if visible is not None:
        # Read together only with streams of the same limit.
        feed = EventFeed(f"{feed.name} {visible}", limited_reader(feed.read), feed.not_found)
    return _FollowedResource(hub, feed, key, owner, request.headers.get("last-event-id"))


class EventStream(StreamingResponse):
    """The response class of a route of server-sent events, see `stream_events`."""

    media_type = "text/event-stream"


class _FollowedResource(EventStream):
    def __init__(
        self,
        hub: EventHub,
        feed: EventFeed,
        key: str,
        owner: StreamOwner,
        last_id: str | None,
    ) -> None:
        # nginx would otherwise collect events until its buffer is full.
        super().__init__(self._events(), headers={"X-Accel-Buffering": "no"})
        self._hub = hub
        self._feed = feed
        self._key = key
        self._owner = owner
        self._last_id = last_id
        self._first: EncodedEvent | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Subscribed before the first read: a change between the two would be missed.
        with self._hub.subscribe(self._key, self._owner) as subscription:
            self._subscription = subscription
            self._first = await self._read()
            if self._first is None:
                raise self._feed.not_found(self._key)
            if self._first.final and self._first.id == self._last_id:
                await Response(status_code=204)(scope, receive, send)
            else:
                await self._stream_until_disconnect(receive, send)

    async def _stream_until_disconnect(self, receive: Receive, send: Send) -> None:
        async with anyio.create_task_group() as tasks:

            async def follow() -> None:
                with suppress(OSError):
                    await self.stream_response(send)
                tasks.cancel_scope.cancel()

            async def end_when_revoked() -> None:
                await self._subscription.revoked.wait()
                await asyncio.sleep(END_GRACE_S)
                # First: what is being read or sent must not reach the client any more.
                tasks.cancel_scope.cancel()
                # The server raises an error if the stream has just ended by itself.
                with (
                    suppress(OSError, RuntimeError),
                    anyio.move_on_after(END_GRACE_S / 2, shield=True),
                ):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})

            tasks.start_soon(follow)
            tasks.start_soon(end_when_revoked)
            await self.listen_for_disconnect(receive)
            tasks.cancel_scope.cancel()

    async def _events(self) -> AsyncIterator[bytes]:
        event = self._first
        while event is not None and not self._must_end():
            yield self._message(event)
            if event.final:
                return
            await self._wait_for_change()
            event = await self._read_again(event)

    async def _wait_for_change(self) -> None:
        with anyio.move_on_after(self._hub.heartbeat_s):
            await self._subscription.wakeup.wait()
            await asyncio.sleep(self._hub.coalesce_s)
        # Before the read: a change during it sets the event again and causes another read.
        self._subscription.wakeup.clear()

    def _must_end(self) -> bool:
        return self._hub.closed or self._subscription.revoked.is_set()

    async def _read_again(self, previous: EncodedEvent) -> EncodedEvent | None:
        """The present event; the previous one while the database is unavailable."""
        if self._must_end():
            return None
        try:
            return await self._read()
        except Unavailable:
            return previous

    async def _read(self) -> EncodedEvent | None:
        return await self._hub.reader.read(self._feed, self._key)

    def _message(self, event: EncodedEvent) -> bytes:
        if event.id == self._last_id:
            # An unchanged state becomes a comment, which keeps proxies from closing the connection.
            return b": still here\n\n"
        self._last_id = event.id
        return event.message
