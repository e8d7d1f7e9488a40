"""Waiting for turns at a server, and for the time that it named."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.clock import utc_now
from app.core.http.throttle import IN_FLIGHT, Cancelled, Throttle, seconds_to_wait, turns_at


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
    raise Cancelled


def test_nobody_asks_before_the_time_that_the_server_named() -> None:
    clock = Clock()
    turns = Throttle(clock)
    with turns.turn(clock.pause):
        assert clock.pauses == []
    turns.hold(7.0)
    turns.hold(3.0)  # a shorter wait does not shorten the longer one
    with turns.turn(clock.pause):
        assert clock.pauses == [7.0]
    with turns.turn(clock.pause):
        assert clock.pauses == [7.0]


def test_a_ninth_request_waits_and_can_be_abandoned_meanwhile() -> None:
    turns = Throttle()
    taken = [turns.turn(abandon) for _ in range(IN_FLIGHT)]
    for turn in taken:
        turn.__enter__()
    with pytest.raises(Cancelled), turns.turn(abandon):
        pass
    taken[0].__exit__(None, None, None)
    with turns.turn(abandon):
        pass


def test_a_turn_ends_with_an_error_too() -> None:
    turns = Throttle()
    for _ in range(IN_FLIGHT + 1):
        with pytest.raises(ZeroDivisionError), turns.turn(abandon):
            raise ZeroDivisionError


def test_whoever_asks_one_server_takes_the_same_turns() -> None:
    assert turns_at("https://a.example") is turns_at("https://a.example")
    assert turns_at("https://a.example") is not turns_at("https://b.example")


NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        ("120", 120.0),
        (" 0.5 ", 0.5),
        ("Sun, 22 Nov 2026 12:02:00 GMT", 120.0),
        ("Sun, 22 Nov 2026 12:02:00 -0000", 120.0),
        ("Sun, 22 Nov 2026 14:02:00 +0200", 120.0),
        ("Sun, 22 Nov 2026 11:00:00 GMT", None),
        *(
            (nothing, None)
            for nothing in ("0", "0.0", "-3", "1_0", "1e3", "nan", "inf", "soon", "")
        ),
        (None, None),
    ],
)
def test_a_server_names_its_time_as_seconds_or_as_a_date(
    retry_after: str | None, seconds: float | None
) -> None:
    assert seconds_to_wait(retry_after, NOW) == seconds


def test_a_date_is_compared_with_the_time_that_it_is() -> None:
    in_an_hour = format_datetime(utc_now() + timedelta(hours=1), usegmt=True)
    found = seconds_to_wait(in_an_hour)
    assert found is not None
    assert 0 < found <= 3600


@given(st.text())
def test_no_retry_after_is_too_strange(header: str) -> None:
    told = seconds_to_wait(header, NOW)
    assert told is None or told > 0
