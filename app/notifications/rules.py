"""Decisions about deliveries: when the next try is, when an endpoint is given up.

Source: Standard Webhooks 1.0 (retry schedule, disabling).
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from app.core.http.retry import Jitter, RetryPolicy, ScheduledBackoff

DAY_S = 86_400.0

# Before each try, counted from the end of the one before.
SCHEDULE_S = (0.0, 5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, DAY_S)
RETRY_POLICY: Final = RetryPolicy(
    backoff=ScheduledBackoff(SCHEDULE_S),
    jitter=Jitter(0.8, 1.2),
    max_retries=len(SCHEDULE_S),
    max_retry_after_s=DAY_S,
    # A server may ask for a longer wait than the schedule, never for more requests.
    retry_after_replaces_backoff=False,
)
DISABLED_AFTER = timedelta(hours=120)
SLOW_S = 2.0

# After as many tries that took long and failed, one after the other.
RESTS_S = (0.0, 5.0, 300.0)
SLOW_LANE = "notifications: slow"


class DeliveryStatus(StrEnum):
    """`HELD` waits until its endpoint is enabled again; `FAILED` until somebody redelivers it."""

    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"
    HELD = "HELD"


def wait_s(attempts: int, told_s: float | None, chance: float) -> float | None:
    """Seconds until the next try after so many failed ones; None when there is none.

    `chance` in [0, 1] spreads a wait by ±20 %. What the other side asked for is not undercut.
    """
    return RETRY_POLICY.next_wait_s(failed_attempts=attempts, chance=chance, retry_after_s=told_s)


def is_given_up(failing_since: datetime, now: datetime) -> bool:
    """Whether an endpoint has only failed for too long."""
    return now - failing_since >= DISABLED_AFTER


def rest_s(slow_tries: int) -> float:
    """Seconds for which an endpoint is left alone after so many tries that took long and failed.

    Else each of the messages that wait for it would take its time, and that of other slow ones.
    """
    return RESTS_S[min(slow_tries, len(RESTS_S) - 1)]


def lane(host: str, *, slow: bool) -> str:
    """What is sent one after the other: all that goes to one host, and all that goes to slow
    endpoints, wherever they are. So these keep one job busy, and delay nobody else.
    """
    return SLOW_LANE if slow else f"notifications: {host}"
