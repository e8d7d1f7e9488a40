"""The current time as an argument: code that depends on it takes a clock, which tests can set."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]

# Smaller differences are slewing, and the time that passes between the readings of two clocks.
CLOCK_JUMP_S = 0.5


def utc_now() -> datetime:
    """The current time in UTC, timezone-aware."""
    return datetime.now(UTC)


def wall_clock_offset_s() -> float:
    """The difference between the wall clock and the monotonic clock, which cannot be set."""
    return time.time() - time.monotonic()
