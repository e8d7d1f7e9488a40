"""Waiting for turns at a server, and for the time that it named."""

from datetime import timedelta
from email.utils import format_datetime

import pytest

from app.core.clock import utc_now
from app.core.waiting import IN_FLIGHT, Abandoned, Turns, seconds_to_wait, turns_at


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
    turns = Turns(clock)
    with turns.turn(clock.pause):
        assert clock.pauses == []
    turns.hold(7.0)
    turns.hold(3.0)  # a shorter wait does not shorten the longer one
    with turns.turn(clock.pause):
        assert clock.pauses == [7.0]
    with turns.turn(clock.pause):
        assert clock.pauses == [7.0]


def test_a_ninth_request_waits_and_can_be_abandoned_meanwhile() -> None:
    turns = Turns()
    taken = [turns.turn(abandon) for _ in range(IN_FLIGHT)]
    for turn in taken:
        turn.__enter__()
    with pytest.raises(Abandoned), turns.turn(abandon):
        pass
    taken[0].__exit__(None, None, None)
    with turns.turn(abandon):
        pass


def test_a_turn_ends_with_an_error_too() -> None:
    turns = Turns()
    for _ in range(IN_FLIGHT + 1):
        with pytest.raises(ZeroDivisionError), turns.turn(abandon):
            raise ZeroDivisionError


def test_whoever_asks_one_server_takes_the_same_turns() -> None:
    assert turns_at("https://a.example") is turns_at("https://a.example")
    assert turns_at("https://a.example") is not turns_at("https://b.example")


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [("7", 7.0), (" 0.5 ", 0.5), ("0", None), ("-3", None), ("", None), ("soon", None),
     ("nan", None), ("inf", None), ("Sun, 22 Nov 2020 10:00:00 GMT", None)],
)  # fmt: skip
def test_a_server_names_its_time_in_seconds(retry_after: str, seconds: float | None) -> None:
    assert seconds_to_wait(retry_after) == seconds


def test_a_server_may_name_a_date_instead() -> None:
    in_an_hour = format_datetime(utc_now() + timedelta(hours=1), usegmt=True)
    assert seconds_to_wait(in_an_hour) == pytest.approx(3600, abs=30)
