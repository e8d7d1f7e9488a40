"""One call reads the states of all streams that wait."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from mosaico.core.errors import NotFound
from mosaico.core.web.event_feeds import EventFeed, EventSnapshot, FeedReader
from tests.support.waiting import LIVENESS_S


class Counters:
    """Counts the reads of each key; `calls` has the keys of each call. A call waits while `held`."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.began, self.released = threading.Event(), threading.Event()
        self.released.set()
        self.error: Exception | None = None
        self.feed = EventFeed("counter", self.read)

    def read(self, keys: Sequence[str]) -> dict[str, EventSnapshot]:
        self.calls.append(sorted(keys))
        self.began.set()
        assert self.released.wait(LIVENESS_S)
        if self.error is not None:
            raise self.error
        return {
            key: EventSnapshot(event="count", data=len(self.calls)) for key in keys if key != "gone"
        }


async def begun_call(reader: FeedReader, counters: Counters) -> "asyncio.Task[object]":
    """A call for the key `first` that has begun and waits."""
    counters.released.clear()
    first = asyncio.create_task(reader.read(counters.feed, "first"))
    await asyncio.to_thread(counters.began.wait, LIVENESS_S)
    return first


def test_feed__streams_that_wait_are_read_with_one_call() -> None:
    counters = Counters()

    async def follow() -> list[object]:
        reader = FeedReader()
        first = await begun_call(reader, counters)
        later = [
            asyncio.create_task(reader.read(counters.feed, key)) for key in ("a", "b", "a", "first")
        ]
        # The new tasks get their turn, and so wait before the first call ends.
        await asyncio.sleep(0)
        counters.released.set()
        return await asyncio.gather(first, *later)

    first, a, b, same_a, again = asyncio.run(follow())
    assert counters.calls == [["first"], ["a", "b", "first"]]
    assert a is same_a
    assert a == b
    # It began to wait during the first call, which may not have seen its change.
    assert again != first


def test_feed__a_deleted_resource_has_no_state() -> None:
    assert asyncio.run(FeedReader().read(Counters().feed, "gone")) is None


def test_feed__an_error_reaches_every_stream_and_the_next_call_is_made() -> None:
    counters = Counters()

    async def follow() -> list[object]:
        reader = FeedReader()
        counters.error = NotFound("it is gone; list what exists")
        failed = await asyncio.gather(
            *(reader.read(counters.feed, key) for key in "ab"), return_exceptions=True
        )
        counters.error = None
        return [*failed, await reader.read(counters.feed, "a")]

    first, second, event = asyncio.run(follow())
    assert isinstance(first, NotFound)
    assert isinstance(second, NotFound)
    assert event is not None


def test_feed__a_stream_that_ends_does_not_take_the_state_from_the_others() -> None:
    counters = Counters()

    async def follow() -> object:
        reader = FeedReader()
        ended = await begun_call(reader, counters)
        other = asyncio.create_task(reader.read(counters.feed, "other"))
        await asyncio.sleep(0)
        also_ended = asyncio.create_task(reader.read(counters.feed, "other"))
        await asyncio.sleep(0)
        ended.cancel()
        also_ended.cancel()
        counters.released.set()
        with pytest.raises(asyncio.CancelledError):
            await ended
        return await other

    assert asyncio.run(follow()) is not None


def test_feed__two_feeds_are_read_by_calls_of_their_own() -> None:
    first, second = Counters(), Counters()

    async def follow() -> None:
        reader = FeedReader()
        await asyncio.gather(
            reader.read(EventFeed("first", first.read), "a"),
            reader.read(EventFeed("second", second.read), "b"),
        )

    asyncio.run(follow())
    assert (first.calls, second.calls) == ([["a"]], [["b"]])
