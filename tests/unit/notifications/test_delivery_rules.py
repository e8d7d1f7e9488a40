"""Retries, pauses and dead letters of deliveries."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.notifications.rules import (
    RETRY_WAITS_S,
    queue_lock,
    retry_wait_s,
    should_disable,
)

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
UNCHANGED = 0.5  # the middle of the jitter


def test_retry_wait__schedule_of_standard_webhooks() -> None:
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
def test_retry_wait__jitter_is_at_most_20_percent(attempts: int, chance: float) -> None:
    wait = retry_wait_s(attempts, None, chance)
    assert wait is not None
    assert 0.8 * RETRY_WAITS_S[attempts] - 1e-9 <= wait <= 1.2 * RETRY_WAITS_S[attempts] + 1e-9


@pytest.mark.parametrize(
    # A server may not call for an attempt sooner than the schedule, nor put it off beyond a day.
    ("retry_after_s", "wait"),
    [(1.0, 5.0), (90.0, 90.0), (10.0**9, 86_400.0), (None, 5.0)],
)
def test_retry_wait__retry_after_is_minimum_up_to_one_day(
    retry_after_s: float | None, wait: float
) -> None:
    assert retry_wait_s(1, retry_after_s, UNCHANGED) == wait


def test_should_disable__after_120_hours_of_failures() -> None:
    assert not should_disable(NOW - timedelta(hours=119, minutes=59), NOW)
    assert should_disable(NOW - timedelta(hours=120), NOW)


def test_queue_lock__slow_endpoints_share_one_lock() -> None:
    assert queue_lock("a.example", slow=True) == queue_lock("b.example", slow=True)
    assert len({queue_lock(host, slow=False) for host in ("a.example", "b.example")}) == 2
    assert queue_lock("a.example", slow=False) != queue_lock("a.example", slow=True)
