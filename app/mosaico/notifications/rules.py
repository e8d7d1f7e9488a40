"""Decisions about deliveries: retries, pauses and disabling of endpoints, parallel sending.

Source: Standard Webhooks 1.0 (retry schedule, disabling).
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from mosaico.core.http.retry import Jitter, RetryPolicy, ScheduledBackoff

DAY_S = 86_400.0
# Of an attempt in total, whatever its single steps take.
DEADLINE_S = 15.0
MAX_DETAIL_CHARS = 200

# The wait before each attempt, from the end of the previous one.
RETRY_WAITS_S = (0.0, 5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, DAY_S)
RETRY_POLICY: Final = RetryPolicy(
    backoff=ScheduledBackoff(RETRY_WAITS_S),
    jitter=Jitter(0.8, 1.2),
    max_retries=len(RETRY_WAITS_S),
    max_retry_after_s=DAY_S,
    # A server may ask for a longer wait than the schedule, never for more requests.
    retry_after_replaces_backoff=False,
)
# Five days of failures only, as Standard Webhooks recommends: a weekend's outage does not disable.
DISABLED_AFTER = timedelta(hours=120)
# Far below the deadline of 15 s: a few endpoints that take 10 s each would occupy all workers as
# well.
SLOW_AFTER_S = 2.0

# The pause of an endpoint by the number of its slow failed attempts in a row.
PAUSES_S = (0.0, 5.0, 300.0)
SLOW_LOCK = "notifications: slow"


class DeliveryStatus(StrEnum):
    """State of a delivery.

    PENDING: waits for an attempt. DELIVERED: the recipient accepted it. FAILED: a dead letter, no
    further attempt unless a person redelivers it. HELD: waits until its endpoint is enabled.
    """

    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"
    HELD = "HELD"


def retry_wait_s(attempts: int, retry_after_s: float | None, chance: float) -> float | None:
    """Seconds until the next attempt after `attempts` failed ones; None makes it a dead letter.

    `chance` in [0, 1] spreads the wait by ±20 %. The recipient's `Retry-After` is the minimum.
    """
    return RETRY_POLICY.next_wait_s(
        failed_attempts=attempts, chance=chance, retry_after_s=retry_after_s
    )


def should_disable(first_failed_at: datetime, now: datetime) -> bool:
    """Return whether an endpoint has failed for too long without a success."""
    return now - first_failed_at >= DISABLED_AFTER


def pause_s(slow_count: int) -> float:
    """Seconds without deliveries to an endpoint after `slow_count` slow failures in a row.

    Without a pause, every waiting message would cost a timeout and delay other slow endpoints.
    """
    return PAUSES_S[min(slow_count, len(PAUSES_S) - 1)]


def queue_lock(host: str, *, slow: bool) -> str:
    """The job lock of a delivery: deliveries with the same lock are sent one after the other.

    There is one lock per host, and one for all slow endpoints: these occupy one job of all
    workers and delay no other endpoint.
    """
    return SLOW_LOCK if slow else f"notifications: {host}"
