"""Time zones: which there are, and where their clocks are put forward or back."""

import functools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from app.core.errors import ErrorItem, Invalid

SECOND = timedelta(seconds=1)

# No clock of the IANA set was ever changed there and back within so short a time, nor by as much.
QUIET = timedelta(days=2)


class UnknownZone(Invalid):
    """There is no such time zone; send an IANA name as Europe/Rome or UTC."""

    code = "unknown-zone"


class OffsetChange(NamedTuple):
    """The first instant (UTC, without zone) with another offset, and the offsets around it."""

    at: datetime
    before: timedelta
    after: timedelta


def find_zone(name: str) -> ZoneInfo:
    """The zone of an IANA name, links included; raises `UnknownZone`."""
    if name not in _names():
        raise UnknownZone(
            f"there is no time zone {name!r}; send an IANA name as Europe/Rome or UTC",
            errors=[ErrorItem(pointer="/timezone", detail="is not a name of the IANA set")],
        )
    return ZoneInfo(name)


def offset_at(instant: datetime, zone: tzinfo) -> timedelta:
    """How far the clocks are ahead of UTC at an instant (UTC, without zone)."""
    offset = instant.replace(tzinfo=UTC).astimezone(zone).utcoffset()
    assert offset is not None, "an aware instant has an offset"
    return offset


def first_change(start: datetime, end: datetime, zone: tzinfo) -> OffsetChange | None:
    """The change between two instants at most `QUIET` apart, `end` included."""
    before, after = offset_at(start, zone), offset_at(end, zone)
    if before == after:
        return None
    while end - start > SECOND:
        middle = start + (end - start) // 2 // SECOND * SECOND
        if offset_at(middle, zone) == before:
            start = middle
        else:
            end = middle
    return OffsetChange(end, before, offset_at(end, zone))


def changes_between(start: datetime, end: datetime, zone: tzinfo) -> Iterator[OffsetChange]:
    """Every change after `start` and not after `end`, in order."""
    while start < end:
        stop = min(start + QUIET, end)
        change = first_change(start, stop, zone)
        if change is not None:
            yield change
        start = change.at if change else stop


@functools.cache
def _names() -> frozenset[str]:
    return frozenset(available_timezones())
