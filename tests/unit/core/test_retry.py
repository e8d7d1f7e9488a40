"""Retry policy: waits, limits and the Retry-After header."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.core.clock import utc_now
from mosaico.core.http.retry import (
    ExponentialBackoff,
    RetryPolicy,
    parse_retry_after,
)

BACKOFF = ExponentialBackoff(first_s=2.0, longest_s=10.0)


def test_retry_policy__stops_after_the_last_retry() -> None:
    policy = RetryPolicy(backoff=BACKOFF, max_retries=2)
    waits = [policy.next_wait_s(failed_attempts=failures, chance=1) for failures in range(3)]
    assert waits == [2, 4, None]


def test_retry_policy__stops_when_the_total_wait_would_exceed_its_limit() -> None:
    policy = RetryPolicy(backoff=BACKOFF, max_total_wait_s=9.0)
    # 7 s and 2 s are exactly the limit of 9 s.
    assert policy.next_wait_s(failed_attempts=0, chance=1, waited_s=7.0) == 2
    assert policy.next_wait_s(failed_attempts=0, chance=1, waited_s=7.1) is None
    assert policy.next_wait_s(failed_attempts=0, chance=0, retry_after_s=9.5) is None


@pytest.mark.parametrize(
    ("replaces_backoff", "retry_after_s", "wait_s"),
    [(True, 1.0, 1.0), (True, 7.0, 7.0), (False, 1.0, 4.0), (False, 7.0, 7.0), (False, 99.0, 60.0)],
)
def test_retry_policy__retry_after_replaces_or_extends_the_backoff(
    replaces_backoff: bool, retry_after_s: float, wait_s: float
) -> None:
    policy = RetryPolicy(
        backoff=BACKOFF, max_retry_after_s=60.0, retry_after_replaces_backoff=replaces_backoff
    )
    assert policy.next_wait_s(failed_attempts=1, chance=1, retry_after_s=retry_after_s) == wait_s


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
            (ignored, None)
            # `float` of Python reads most of them; HTTP allows none.
            for ignored in ("0", "0.0", "-3", "1_0", "1e3", "nan", "inf", "soon", "")
        ),
        (None, None),
    ],
)
def test_parse_retry_after__accepts_seconds_and_dates(
    retry_after: str | None, seconds: float | None
) -> None:
    assert parse_retry_after(retry_after, NOW) == seconds


def test_parse_retry_after__compares_a_date_with_the_current_time() -> None:
    in_an_hour = format_datetime(utc_now() + timedelta(hours=1), usegmt=True)
    wait_s = parse_retry_after(in_an_hour)
    assert wait_s is not None
    assert 0 < wait_s <= 3600


@given(st.text())
def test_parse_retry_after__accepts_any_text(header: str) -> None:
    wait_s = parse_retry_after(header, NOW)
    assert wait_s is None or wait_s > 0
