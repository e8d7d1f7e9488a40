"""IANA time zones and the instants at which their clocks change."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from mosaico.core.clock import zone_names
from mosaico.core.errors import ErrorItem, Invalid

SECOND = timedelta(seconds=1)

# In the IANA data, no clock was ever changed and changed back within this time, nor by this much:
# two equal offsets this close together have no change between them.
STABLE_SPAN = timedelta(days=2)


class UnknownTimeZone(Invalid):
    """The time zone is unknown; send an IANA name such as Europe/Rome, or UTC."""


class OffsetChange(NamedTuple):
    """The first instant (UTC, without zone) with a new offset, and the offsets around it."""

    at: datetime
    before: timedelta
    after: timedelta


def get_time_zone(name: str) -> ZoneInfo:
    """The zone of an IANA name, links included; raises `UnknownTimeZone`."""
    # A list of known names, because ZoneInfo(name) opens a file: it accepts names such as
    # `posixrules`, and fails in several ways for path-like ones.
    if name not in zone_names():
        raise UnknownTimeZone(
            f"the time zone {name!r} is unknown; send an IANA name such as Europe/Rome, or UTC",
            errors=[ErrorItem(pointer="/timezone", detail="is not an IANA time zone name")],
        )
    return ZoneInfo(name)


def offset_at(instant: datetime, zone: tzinfo) -> timedelta:
    """The offset from UTC of the clocks at an instant (UTC, without zone)."""
    offset = instant.replace(tzinfo=UTC).astimezone(zone).utcoffset()
    assert offset is not None, "an aware instant has an offset"
    return offset


def find_offset_change(start: datetime, end: datetime, zone: tzinfo) -> OffsetChange | None:
    """The change between two instants at most `STABLE_SPAN` apart, `end` included."""
    before, after = offset_at(start, zone), offset_at(end, zone)
    # Sufficient at this distance, see `STABLE_SPAN`.
    if before == after:
        return None
    while end - start > SECOND:
        # Whole seconds: clocks change at whole seconds, and the search ends when one second is
        # left.
        middle = start + (end - start) // 2 // SECOND * SECOND
        if offset_at(middle, zone) == before:
            start = middle
        else:
            end = middle
    return OffsetChange(end, before, offset_at(end, zone))


def iter_offset_changes(start: datetime, end: datetime, zone: tzinfo) -> Iterator[OffsetChange]:
    """Every change after `start` and not after `end`, in order."""
    while start < end:
        window_end = min(start + STABLE_SPAN, end)
        change = find_offset_change(start, window_end, zone)
        if change is not None:
            yield change
        start = change.at if change else window_end
