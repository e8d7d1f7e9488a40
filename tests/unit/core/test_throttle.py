"""Waiting for turns at a server, and for the time that it named."""

import pytest

from mosaico.core.http.throttle import MAX_IN_FLIGHT, Cancelled, Throttle, get_throttle


class ThrottleClock:
    """A time that passes only while somebody pauses."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def abandon(_: float) -> None:
    raise Cancelled


def test_throttle__waits_until_the_time_of_retry_after() -> None:
    clock = ThrottleClock()
    turns = Throttle(clock)
    with turns.slot(clock.pause):
        assert clock.pauses == []
    turns.delay_requests(7.0)
    turns.delay_requests(3.0)  # a shorter wait does not shorten the longer one
    with turns.slot(clock.pause):
        assert clock.pauses == [7.0]
    with turns.slot(clock.pause):
        assert clock.pauses == [7.0]


def test_throttle__ninth_request_waits_and_can_be_cancelled() -> None:
    turns = Throttle()
    slots = [turns.slot(abandon) for _ in range(MAX_IN_FLIGHT)]
    for turn in slots:
        turn.__enter__()
    with pytest.raises(Cancelled), turns.slot(abandon):
        pass
    slots[0].__exit__(None, None, None)
    with turns.slot(abandon):
        pass


def test_throttle__is_shared_per_server() -> None:
    assert get_throttle("https://a.example") is get_throttle("https://a.example")
    assert get_throttle("https://a.example") is not get_throttle("https://b.example")
