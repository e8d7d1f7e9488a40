"""The current time as an argument, which tests can set, and the names of time zones."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from zoneinfo import available_timezones

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The current time in UTC, timezone-aware."""
    return datetime.now(UTC)


@cache
def zone_names() -> frozenset[str]:
    """The names that mean the same zone on each machine."""
    # `localtime` is the zone of the machine, and `Factory` means that none was chosen.
    return frozenset(available_timezones()) - {"localtime", "Factory"} | {"UTC"}
