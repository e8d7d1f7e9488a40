"""When a delivery is tried again, and when nobody tries any more."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.notifications.rules import RETRY_WAITS_S, pause_s, queue_lock, retry_wait_s, should_disable

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
UNCHANGED = 0.5  # the middle of the jitter


def test_the_waits_are_those_of_standard_webhooks() -> None:
    # 0, 5 s, 5 m, 30 m, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h
    hours = [2, 5, 10, 14, 20, 24]
    assert [retry_wait_s(attempts, None, UNCHANGED) for attempts in range(10)] == [
        0,
        5,
        5 * 60,
        30 * 60,
        *(hour * 3600 for hour in hours),
    ]
    assert retry_wait_s(10, None, UNCHANGED) is None


@given(st.integers(0, len(RETRY_WAITS_S) - 1), st.floats(0, 1))
def test_a_wait_is_spread_by_a_fifth_at_most(attempts: int, chance: float) -> None:
    wait = retry_wait_s(attempts, None, chance)
    assert wait is not None
    assert 0.8 * RETRY_WAITS_S[attempts] - 1e-9 <= wait <= 1.2 * RETRY_WAITS_S[attempts] + 1e-9


@pytest.mark.parametrize(
    ("told", "wait"), [(1.0, 5.0), (90.0, 90.0), (10.0**9, 86_400.0), (None, 5.0)]
)
def test_what_the_other_side_asks_for_is_not_undercut_and_capped_at_a_day(
    told: float | None, wait: float
) -> None:
    assert retry_wait_s(1, told, UNCHANGED) == wait


def test_an_endpoint_is_given_up_after_120_hours_of_failures() -> None:
    assert not should_disable(NOW - timedelta(hours=119, minutes=59), NOW)
    assert should_disable(NOW - timedelta(hours=120), NOW)


def test_all_that_is_slow_shares_one_lane_and_nothing_else_does() -> None:
    assert queue_lock("a.example", slow=True) == queue_lock("b.example", slow=True)
    assert len({queue_lock(host, slow=False) for host in ("a.example", "b.example")}) == 2
    assert queue_lock("a.example", slow=False) != queue_lock("a.example", slow=True)


def test_who_hangs_again_and_again_rests_for_five_minutes() -> None:
    assert [pause_s(tries) for tries in range(5)] == [0, 5, 300, 300, 300]
