"""What all requests with one key share."""

import pytest

from app.traces.sources.langfuse.background import Abandoned
from app.traces.sources.langfuse.limits import IN_FLIGHT, Limiter, limiter_for


class Clock:
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
    raise Abandoned


def test_nobody_asks_before_the_time_that_the_server_named() -> None:
    clock = Clock()
    limiter = Limiter(clock)
    with limiter.turn(clock.pause):
        assert clock.pauses == []
    limiter.hold(7.0)
    limiter.hold(3.0)  # a shorter wait does not shorten the longer one
    with limiter.turn(clock.pause):
        assert clock.pauses == [7.0]
    with limiter.turn(clock.pause):
        assert clock.pauses == [7.0]


def test_a_ninth_request_waits_and_can_be_abandoned_meanwhile() -> None:
    limiter = Limiter()
    turns = [limiter.turn(abandon) for _ in range(IN_FLIGHT)]
    for turn in turns:
        turn.__enter__()
    with pytest.raises(Abandoned), limiter.turn(abandon):
        pass
    turns[0].__exit__(None, None, None)
    with limiter.turn(abandon):
        pass


def test_a_turn_ends_with_an_error_too() -> None:
    limiter = Limiter()
    for _ in range(IN_FLIGHT + 1):
        with pytest.raises(ZeroDivisionError), limiter.turn(abandon):
            raise ZeroDivisionError


def test_there_is_one_limiter_for_a_server_and_a_key() -> None:
    one = limiter_for("https://a.example", "pk-1")
    assert limiter_for("https://a.example", "pk-1") is one
    assert limiter_for("https://a.example", "pk-2") is not one
    assert limiter_for("https://b.example", "pk-1") is not one
