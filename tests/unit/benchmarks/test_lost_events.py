"""The load benchmark counts the events that a client must have received and did not."""

import asyncio
from collections.abc import Sequence

import pytest

from benchmarks import load_clients
from benchmarks.load_clients import (
    LOST_EVENT,
    FollowedStream,
    LoadResult,
    StreamRequest,
    count_lost_events,
)

# Three changes of one run and one of another, with the times at which they were made.
CHANGED_AT = {("live-1", 1): 0.0, ("live-1", 2): 1.0, ("live-1", 3): 2.0, ("live-2", 1): 0.5}


def count_lost(*streams: tuple[str, Sequence[int]], late: int | None = None) -> LoadResult:
    """The result of streams of these runs with these events; one more arrives during the wait."""

    async def count() -> LoadResult:
        result, followed = LoadResult(), []
        for run_id, counts in streams:
            followed.append(FollowedStream(StreamRequest(run_id, b""), counts=list(counts)))
        if late is not None:
            asyncio.get_running_loop().call_soon(followed[0].add_event, late)
        await count_lost_events(followed, CHANGED_AT, result)
        return result

    return asyncio.run(count())


def test_lost_events__each_change_after_the_start_of_a_stream_has_an_event() -> None:
    # The second client opened its stream after the first change, the third one after all of them.
    result = count_lost(
        ("live-1", [0, 1, 2, 3]), ("live-1", [1, 2, 3]), ("live-1", [3]), ("live-2", [0, 1])
    )

    assert (result.expected_events, result.lost_events) == (3 + 2 + 0 + 1, 0)
    assert not result.errors


def test_lost_events__are_errors() -> None:
    result = count_lost(("live-1", [0, 1, 3]), ("live-1", [0, 3]), ("live-2", [0, 1]))

    assert (result.expected_events, result.lost_events) == (3 + 3 + 1, 1 + 2)
    assert result.errors == {LOST_EVENT: 3}


def test_lost_events__of_a_stream_that_was_not_opened_are_not_expected() -> None:
    assert count_lost(("live-1", [])).expected_events == 0


def test_lost_events__the_last_event_may_be_late() -> None:
    assert count_lost(("live-1", [0, 1, 2]), late=3).lost_events == 0


def test_lost_events__the_last_event_that_never_arrives_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load_clients, "LAST_EVENTS_WITHIN_S", 0.01)

    assert count_lost(("live-1", [0, 1, 2])).lost_events == 1
