"""Retry policy for outbound requests: whether a failed request is sent again, and when.

The policy is a pure decision. The caller supplies the number of failed attempts, the time already
waited and the random number of the jitter, and does the waiting itself.

Source: RFC 9110, section 10.2.3 (Retry-After); Brooker, "Exponential Backoff and Jitter" (AWS, 2015).
"""

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple

from mosaico.core.clock import utc_now

_DELAY_SECONDS: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?")
_MAX_DOUBLINGS: Final = 32  # 2^32 seconds exceed every cap; without a limit 2.0**n overflows


class Jitter(NamedTuple):
    """Range of the random factor of a wait."""

    lowest: float
    highest: float

    def factor(self, chance: float) -> float:
        """The factor for a random number `chance` in [0, 1]."""
        return self.lowest + (self.highest - self.lowest) * chance


# Clients that failed together spread over the whole wait. The sum of the waits is not guaranteed.
FULL_JITTER: Final = Jitter(0.0, 1.0)
# At least half of each wait is kept, so that all attempts together outlast a restart of the server.
EQUAL_JITTER: Final = Jitter(0.5, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialBackoff:
    """Waits that double from `first_s` up to `longest_s`."""

    first_s: float
    longest_s: float

    def wait_s(self, failed_attempts: int) -> float:
        """Seconds to wait after one failed attempt more than `failed_attempts`."""
        return min(self.first_s * 2.0 ** min(failed_attempts, _MAX_DOUBLINGS), self.longest_s)


@dataclass(frozen=True, slots=True)
class ScheduledBackoff:
    """Waits from a fixed table; the last entry repeats."""

    waits_s: tuple[float, ...]

    def wait_s(self, failed_attempts: int) -> float:
        """Seconds to wait after one failed attempt more than `failed_attempts`."""
        return self.waits_s[min(failed_attempts, len(self.waits_s) - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The retries of a failed request.

    `max_retries` bounds the number of retries, `max_total_wait_s` the sum of all waits and
    `max_retry_after_s` the part of a Retry-After that is respected. A Retry-After shorter than
    the backoff replaces it only if `retry_after_replaces_backoff`.
    """

    backoff: ExponentialBackoff | ScheduledBackoff
    jitter: Jitter = FULL_JITTER
    max_retries: float = math.inf
    max_total_wait_s: float = math.inf
    max_retry_after_s: float = math.inf
    retry_after_replaces_backoff: bool = True

    def next_wait_s(
        self,
        *,
        failed_attempts: int,
        chance: float,
        waited_s: float = 0.0,
        retry_after_s: float | None = None,
    ) -> float | None:
        """Seconds until the next attempt; None when the policy allows no further attempt.

        `failed_attempts` counts the failures before this one, `waited_s` the seconds waited so
        far; `chance` in [0, 1] is the random number of the jitter.
        """
        if failed_attempts >= self.max_retries:
            return None
        wait_s = self.backoff.wait_s(failed_attempts) * self.jitter.factor(chance)
        if retry_after_s is not None:
            requested_s = min(retry_after_s, self.max_retry_after_s)
            wait_s = requested_s if self.retry_after_replaces_backoff else max(wait_s, requested_s)
        # Not shortened to the rest: a wait below the requested one would only get another refusal.
        return wait_s if waited_s + wait_s <= self.max_total_wait_s else None


def parse_retry_after(header: str | None, now: datetime | None = None) -> float | None:
    """Seconds requested by a `Retry-After` header in either of its two forms.

    None when the header is missing, malformed, zero or in the past: the caller then uses its
    backoff, because an immediate retry would hit a busy server again.
    """
    text = (header or "").strip()
    if _DELAY_SECONDS.fullmatch(text):
        return float(text) or None
    try:
        retry_at = parsedate_to_datetime(text)
    except ValueError:
        return None
    # RFC 9110 defines a date without a zone (an obsolete form) as GMT.
    retry_at = retry_at if retry_at.tzinfo else retry_at.replace(tzinfo=UTC)
    seconds = (retry_at - (now or utc_now())).total_seconds()
    return seconds if seconds > 0 else None
