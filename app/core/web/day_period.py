"""A period of days that a reader chose, in the zone of the reader."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from app.core.errors import Invalid


def period_of_days(
    first_day: str, last_day: str, zone: ZoneInfo
) -> tuple[datetime | None, datetime | None]:
    """Start and end of a period of days in the reader's zone, both included. Raises: `Invalid`."""
    try:
        first, last = (date.fromisoformat(day) if day else None for day in (first_day, last_day))
        # Not 24 hours later: days on which the clock changes are shorter or longer.
        following = last + timedelta(days=1) if last else None
        start, end = (
            datetime.combine(day, time(), zone).astimezone(UTC) if day else None
            for day in (first, following)
        )
    except (ValueError, OverflowError):
        raise Invalid("a period has dates such as 2026-11-23, from year 1 to 9999") from None
    return start, end
