"""Dates and times that a reader types: in forms, in the time zone that is chosen beside them, and the days of a period."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, date, datetime, time, timedelta
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from mosaico.core.errors import Invalid
from mosaico.core.web.forms.fields import Choices
from mosaico.core.web.forms.sent_fields import FormFields
from mosaico.core.web.page_text import find_zone

# The prefix of the choice of a time zone. It is sent with the time: the zone of the reader may change meanwhile.
ZONE: Final = "zone:"
UTC_ZONE: Final = ZoneInfo("UTC")
FIRST_YEAR: Final = 1970


class LocalTime(NamedTuple):
    """A date and time as an input shows it, and the name of its zone."""

    text: str
    zone: str


@dataclass(frozen=True, slots=True)
class FormZones:
    """The zone of the reader, and those that a sent form has chosen, by the name of the input."""

    reader: ZoneInfo
    by_input: Mapping[str, ZoneInfo]

    def show(self, name: str, value: Any) -> LocalTime:
        """An instant of the API in the zone of its input; what is not an instant stays as it was typed."""
        zone, instant = self.by_input.get(name, self.reader), read_instant(value)
        if instant is None:
            return LocalTime(str(value or ""), zone.key)
        local = instant.astimezone(zone)
        # A time that comes twice would be read as the earlier one.
        if local.utcoffset() != local.replace(fold=0).utcoffset():
            local, zone = instant.astimezone(UTC), UTC_ZONE
        return LocalTime(local.strftime("%Y-%m-%dT%H:%M"), zone.key)

    def choices(self, zone: str) -> Choices:
        """The zones that a reader can choose, with the present one."""
        return [(key, key) for key in dict.fromkeys((zone, self.reader.key, UTC_ZONE.key))]


def read_instant(value: Any) -> datetime | None:
    """The instant that a document has as a text; None for another text."""
    try:
        instant = datetime.fromisoformat(str(value or ""))
    except ValueError:
        return None
    return instant if instant.tzinfo is not None else None


def zone_of(fields: FormFields, name: str) -> ZoneInfo:
    """The zone that a form sent for a date and time; UTC without one, as in the API."""
    return find_zone(fields.text(ZONE + name)) or UTC_ZONE


def zones_of(fields: FormFields) -> dict[str, ZoneInfo]:
    """The zones that a form sent, by the name of the input."""
    names = [field.removeprefix(ZONE) for field in fields if field.startswith(ZONE)]
    return {name: zone_of(fields, name) for name in names}


def read_local_time(text: str, zone: ZoneInfo) -> str:
    """The instant of a date and time for the API. Raises: `ValueError` with a message for the reader."""
    try:
        typed = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("is not a date and time; write it as 2027-01-31T12:00") from None
    if not FIRST_YEAR <= typed.year < MAXYEAR:
        raise ValueError("is outside of the supported years; choose another time")
    if typed.tzinfo is not None:
        return typed.isoformat()
    instant = typed.replace(tzinfo=zone).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None) != typed:
        raise ValueError(
            f"does not exist in {zone.key}, where the clocks go forward; choose another"
        )
    return instant.isoformat()


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
