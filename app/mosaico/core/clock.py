"""The current time as an argument, which tests can set, and the names of time zones."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from zoneinfo import available_timezones

Clock = Callable[[], datetime]

# Smaller differences are slewing, and the time that passes between the readings of two clocks.
CLOCK_JUMP_S = 0.5


def utc_now() -> datetime:
    """The current time in UTC, timezone-aware."""
    return datetime.now(UTC)


def wall_clock_offset_s() -> float:
    """The difference between the wall clock and the monotonic clock, which cannot be set."""
    return time.time() - time.monotonic()


@cache
def zone_names() -> frozenset[str]:
    """The names that mean the same zone on each machine."""
    # `localtime` is the zone of the machine, and `Factory` means that none was chosen.
    return frozenset(available_timezones()) - {"localtime", "Factory"} | {"UTC"}
