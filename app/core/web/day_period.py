"""A period that a reader chose: days in the zone of the reader, or instants."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from app.core.errors import Invalid

DAY_CHARS: Final = len("2026-11-23")


def period_of_days(
    first_day: str, last_day: str, zone: ZoneInfo
) -> tuple[datetime | None, datetime | None]:
    """Start and end of a period of days in the reader's zone, both included. A limit may also be an instant, as in
    the API; that of the end is not included. Raises: `Invalid`.
    """
    try:
        return _read_limit(first_day, zone, 0), _read_limit(last_day, zone, 1)
    except (ValueError, OverflowError):
        raise Invalid("a period has dates such as 2026-11-23, from year 1 to 9999") from None


def _read_limit(text: str, zone: ZoneInfo, days_after: int) -> datetime | None:
    if not text:
        return None
    if len(text) > DAY_CHARS:
        instant = datetime.fromisoformat(text)
        if instant.tzinfo is None:
            raise ValueError("an instant has an offset")
        return instant.astimezone(UTC)
    # Not 24 hours later: days on which the clock changes are shorter or longer.
    day = date.fromisoformat(text) + timedelta(days=days_after)
    return datetime.combine(day, time(), zone).astimezone(UTC)
