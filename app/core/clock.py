"""The current time as an argument: code that depends on it takes a clock, which tests can set."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The current time in UTC, timezone-aware."""
    return datetime.now(UTC)
