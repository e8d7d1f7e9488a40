"""Event streams: the states that they send, of which one call reads those of all that wait, and their owners."""

import asyncio
import contextvars
import hashlib
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import anyio
import anyio.to_thread
from fastapi import Request
from pydantic_core import to_json

from mosaico.core.errors import NotFound


class StreamOwner(NamedTuple):
    """The owner of a stream: an API key, or the browser session `session` of one; `only` are the benchmarks that it
    saw when the stream began, None for all.

    The limit of streams of a key counts those of its sessions, too.
    """

    key_id: str
    session: bytes | None = None
    only: tuple[str, ...] | None = None


class StreamOwners(Protocol):
    """Decides which owners may hold a stream open."""

    def owner_of(self, request: Request) -> StreamOwner:
        """The owner of the stream that a request opens."""
        ...

    def find_unusable(self, owners: AbstractSet[StreamOwner]) -> AbstractSet[StreamOwner]:
        """The owners whose streams must be closed; runs in a thread."""
        ...


# A thread of its own, with one connection while it reads: many streams must not delay requests. One is
# enough, because a call reads the states of all streams that began to wait during the call before.
READ_THREADS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSnapshot:
    """The state of a resource at one moment.

    `data` is JSON or a wire model. `final` ends the stream after it. Without an `id`, a digest of
    the content is the id, so that an unchanged snapshot is never sent twice.
    """

    event: str
    data: Any
    id: str | None = None
    final: bool = False


@dataclass(frozen=True, slots=True)
class EventFeed:
    """The resources that streams of one kind follow; feeds with the same name are read together.

    `read` returns the present states of some resources by key, without those that do not exist. It
    runs in a thread. `not_found` makes the error of a stream that is opened for one of these.
    """

    name: str
    read: Callable[[Sequence[str]], Mapping[str, EventSnapshot]] = field(compare=False)
    not_found: Callable[[str], NotFound] = field(default=lambda _key: NotFound(), compare=False)


@dataclass(frozen=True, slots=True)
class EncodedEvent:
    """A snapshot as an event stream sends it."""

    id: str
    message: bytes
    final: bool


class FeedReader:
    """Reads the states that streams wait for, one call after another.

    A call reads each resource once, for all its streams. So the cost grows with the resources that change
    and not with the streams, and where reading is slow the calls become larger instead of a queue longer.
    """

    def __init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(READ_THREADS)
        self._waiting: dict[EventFeed, dict[str, asyncio.Future[EncodedEvent | None]]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def read(self, feed: EventFeed, key: str) -> EncodedEvent | None:
        """The state of a resource now or later; None when it was deleted. Raises what the feed raises."""
        waiting = self._waiting.setdefault(feed, {})
        if key not in waiting:
            waiting[key] = asyncio.get_running_loop().create_future()
        if self._reading is None:
            # In an empty context: the task outlives the request that starts it.
            self._reading = asyncio.create_task(self._read_waiting(), context=contextvars.Context())
        # Shielded: a stream that ends must not take the state from the others.
        return await asyncio.shield(waiting[key])

    async def _read_waiting(self) -> None:
        while self._waiting:
            feed = next(iter(self._waiting))
            # Whoever asks from now on waits for the next call, which sees later changes.
            futures = self._waiting.pop(feed)
            try:
                events = await anyio.to_thread.run_sync(
                    _read_events, feed, list(futures), limiter=self._limiter
                )
            except Exception as error:  # noqa: BLE001 - the streams raise it
                for future in futures.values():
                    future.set_exception(error)
                    # Marks it as seen: its stream may have ended meanwhile.
                    future.exception()
            else:
                for key, future in futures.items():
                    future.set_result(events.get(key))
        self._reading = None


def _read_events(feed: EventFeed, keys: Sequence[str]) -> dict[str, EncodedEvent]:
    return {key: encode_event(snapshot) for key, snapshot in feed.read(keys).items()}


def encode_event(snapshot: EventSnapshot) -> EncodedEvent:
    """The bytes of an event. Source: WHATWG HTML §9.2.6."""
    data = to_json(snapshot.data, by_alias=True)
    event = snapshot.event.encode()
    identity = snapshot.id or hashlib.sha256(event + b" " + data).hexdigest()[:16]
    message = b"event: %b\nid: %b\ndata: %b\n\n" % (event, identity.encode(), data)
    return EncodedEvent(identity, message, snapshot.final)
