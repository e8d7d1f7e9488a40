"""Cron expressions of six fields, second first: the instants at which a schedule is due.

An expression fires at every instant whose wall clock in the zone matches all six fields, including
both day fields. Meaning: CronExpression of Spring Framework 7; see docs/cron.md.
"""

import calendar
import functools
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from enum import StrEnum
from typing import NamedTuple
from zoneinfo import ZoneInfo

from mosaico.schedules.cron_parser import DayRule, parse_fields
from mosaico.schedules.time_zones import SECOND, STABLE_SPAN, find_offset_change, offset_at

# The Gregorian calendar repeats after 400 years, weekdays included: what has no match by then has
# none at all.
CALENDAR_YEARS = 400
# A date of year 9999 overflows when it is converted between zones.
LAST_YEAR = 9998
MAX_WEEKS_OF_MONTH = 5
DECEMBER = 12
SUNDAY, SATURDAY = 0, 6


class DstPolicy(StrEnum):
    """Handling of wall times that a change of the clocks skips or repeats.

    SPRING: a skipped time does not fire, a repeated time fires twice. ONCE: a skipped time fires
    at the end of the gap, a repeated time fires at its first occurrence only; this applies to
    expressions whose minutes and hours are plain numbers.
    """

    SPRING = "SPRING"
    ONCE = "ONCE"


@dataclass(frozen=True, slots=True, kw_only=True)
class CronExpression:
    """A parsed expression; number fields are sets of bits, `text` is the normal form."""

    text: str
    seconds: int
    minutes: int
    hours: int
    months: int
    days: DayRule

    @classmethod
    def parse(cls, text: str) -> "CronExpression":
        """Parse an expression of six fields or a macro.

        Raises: `InvalidCron` with `column` (from 1), `message` and `remedy`.
        """
        return _parse(text)

    def next(
        self,
        after: datetime,
        zone: ZoneInfo | None = None,
        *,
        policy: DstPolicy = DstPolicy.SPRING,
    ) -> datetime | None:
        """The first instant strictly after `after` that fires, in `zone` or the zone of `after`.

        Returns: an aware instant of whole seconds; None when no later instant matches.
        Raises:  `ValueError` when `after` is not aware.
        """
        target_zone = zone or after.tzinfo
        if target_zone is None or after.utcoffset() is None:
            raise ValueError("`after` has no time zone; pass an aware instant")
        fires_once = policy is DstPolicy.ONCE and self.has_fixed_times
        search = _find_first_occurrence if fires_once else _find_instant
        try:
            # The whole second after `after`: this alone guarantees next(x) > x. A scheduler that
            # got the same instant again would fire it forever.
            start = after.astimezone(UTC).replace(tzinfo=None, microsecond=0) + SECOND
            instant = search(self, start, target_zone)
            # The searches calculate with UTC instants without zone, because Python compares and
            # adds aware times of one zone by their wall clocks, which is wrong at a change of the
            # clocks.
            return instant and instant.replace(tzinfo=UTC).astimezone(target_zone)
        except OverflowError:  # Python's calendar ends with the year 9999
            return None

    @property
    def has_fixed_times(self) -> bool:
        """Return whether minutes and hours are plain numbers: no `*`, step or range."""
        return not re.search(r"[*/-]", " ".join(self.text.split(" ")[1:3]))

    @property
    def impossible_items(self) -> list[str]:
        """Items that are valid syntax and never match, such as the sixth Monday of a month."""
        # Spring accepts `MON#6` and never fires; the bare parser does as well, so that the text of
        # old schedules can still be read. Creating a schedule rejects these items.
        items = self.text.split(" ")[5].split(",")
        return [item for item in items if int(item.partition("#")[2] or 0) > MAX_WEEKS_OF_MONTH]

    def next_wall_time(self, wall: datetime) -> datetime | None:
        """The first wall time (without zone) that matches, `wall` itself included."""
        if self._fires_on(wall.date()):
            time = self._next_time(wall.hour, wall.minute, wall.second)
            if time is not None:
                return wall.replace(hour=time.hour, minute=time.minute, second=time.second)
        # No time is left on this day: on a later day the search starts at the first time of a day.
        day = self._next_day(wall.date())
        first_time = self._next_time(0, 0, 0)
        if day is None or first_time is None:
            return None
        return datetime(day.year, day.month, day.day, *first_time)  # noqa: DTZ001 - a wall time

    def _fires_on(self, day: date) -> bool:
        return bool(_month_bits(self, day.year, day.month) >> day.day & 1)

    def _next_day(self, day: date) -> date | None:
        """The first matching day after `day`."""
        year, month, first = day.year, day.month, day.day + 1
        # A bound is needed because 30 February parses and has no match. 29 February on a given
        # weekday can be 40 years away, so a bound of a few years would miss valid dates.
        while year <= min(day.year + CALENDAR_YEARS, LAST_YEAR):
            match = next_bit(_month_bits(self, year, month), first)
            if match is not None:
                return date(year, month, match)
            year, month, first = (year + 1, 1, 1) if month == DECEMBER else (year, month + 1, 1)
        return None

    def _next_time(self, hour: int, minute: int, second: int) -> "_TimeOfDay | None":
        """The first matching time of a day, from the given one on."""
        # As with an odometer: when a unit moves forward, all smaller units restart at their first
        # value.
        first_minute, first_second = lowest_bit(self.minutes), lowest_bit(self.seconds)
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1:
                next_second = next_bit(self.seconds, second)
                if next_second is not None:
                    return _TimeOfDay(hour, minute, next_second)
            next_minute = next_bit(self.minutes, minute + 1)
            if next_minute is not None:
                return _TimeOfDay(hour, next_minute, first_second)
        next_hour = next_bit(self.hours, hour + 1)
        return None if next_hour is None else _TimeOfDay(next_hour, first_minute, first_second)

    def __str__(self) -> str:
        return self.text


class _TimeOfDay(NamedTuple):
    hour: int
    minute: int
    second: int


# Schedules keep their text for years, and a tick parses it again for each group of due schedules:
# the cache makes that free. An expression is immutable, so callers can share it.
@functools.lru_cache(maxsize=4096)
def _parse(text: str) -> CronExpression:
    return CronExpression(**parse_fields(text)._asdict())


def _month_bits(expression: CronExpression, year: int, month: int) -> int:
    """The days of a month that fire, as bits."""
    if not expression.months >> month & 1:
        return 0
    # Cron counts days of the week from Sunday, Python from Monday.
    first_weekday, length = calendar.monthrange(year, month)
    return matching_days(expression.days, (first_weekday + 1) % 7, length)


@functools.lru_cache(maxsize=8192)
def matching_days(rule: DayRule, first_weekday: int, length: int) -> int:
    """The matching days, as bits, of a month of `length` days that starts on `first_weekday`.

    Sunday is 0. A month is fully described by these two numbers, so that the cache serves all
    years.
    """

    def weekday_of(day: int) -> int:
        return (first_weekday + day - 1) % 7

    by_day_of_month = rule.days
    for distance in rule.before_last:
        # `L-30` has no day in a short month. Bit 0 is not a day of any month and drops out below; with
        # Spring's rule the search would stop advancing there.
        by_day_of_month |= 1 << max(length - distance, 0)
    if rule.last_workday:
        # Back to Friday if the month ends on a weekend.
        by_day_of_month |= 1 << length - {SUNDAY: 2, SATURDAY: 1}.get(weekday_of(length), 0)
    for day in rule.nearest:
        # Plain rule instead of Spring's: a month without day n is skipped, also next to other day
        # rules.
        if day <= length:
            by_day_of_month |= 1 << _nearest_workday(day, weekday_of(day))
    by_weekday = 0
    for day in range(1, length + 1):
        weekday, occurrence = weekday_of(day), (day + 6) // 7
        # The last one of a weekday is the one without another 7 days later in the same month.
        is_last = day + 7 > length and rule.last_weekdays >> weekday & 1
        if rule.weekdays >> weekday & 1 or is_last or (weekday, occurrence) in rule.nth:
            by_weekday |= 1 << day
    # `by_weekday` has real days only: bit 0, and days after the end of the month, drop out here.
    return by_day_of_month & by_weekday


def _nearest_workday(day: int, weekday: int) -> int:
    """The day from Monday to Friday nearest to a day, never in the previous month.

    The Monday after a Sunday that ends the month is not in the month: `matching_days` drops it.
    """
    if weekday == SATURDAY:
        # The Friday before the 1st is in the previous month, so the nearest workday is Monday the
        # 3rd.
        return day - 1 if day > 1 else day + 2
    return day + 1 if weekday == SUNDAY else day


def lowest_bit(bits: int) -> int:
    # In two's complement `-bits` shares only the lowest set bit with `bits`.
    return (bits & -bits).bit_length() - 1


def next_bit(bits: int, start: int) -> int | None:
    """The first set bit at `start` or above."""
    remaining = bits >> start
    return start + lowest_bit(remaining) if remaining else None


def _find_instant(expression: CronExpression, start: datetime, zone: tzinfo) -> datetime | None:
    """The first matching instant, `start` included; both in UTC, without zone.

    Between two changes of the clocks, an instant and its wall time differ by a constant, so the
    search moves from change to change. In the middle of a long wait no change needs a look: all
    wall times there lie between the wall times at both ends, and those do not match.
    """
    while True:
        offset = offset_at(start, zone)
        wall = expression.next_wall_time(start + offset)
        if wall is None:
            return None
        candidate = wall - offset
        # The candidate was computed with the offset at `start`. If the clocks change before it,
        # that offset is wrong from the change on: search again from there. This one rule gives the
        # gap (the wall time is jumped over) and the overlap (the repeated wall time matches twice).
        change = find_offset_change(start, min(candidate, start + STABLE_SPAN), zone)
        if change is not None:
            start = change.at
        elif candidate <= start + STABLE_SPAN:
            return candidate
        else:
            # Far from the candidate no change matters, see the docstring; only the days before it
            # are searched.
            start = max(start + STABLE_SPAN, candidate - STABLE_SPAN)


def _find_first_occurrence(
    expression: CronExpression, start: datetime, zone: tzinfo
) -> datetime | None:
    """The same for the policy ONCE: each wall time fires when the clocks first reach it."""
    # One second earlier, so that a gap which ends exactly at `start` is still seen: the times
    # inside the gap fire at its end.
    previous = start - SECOND
    wall = previous + offset_at(previous, zone)
    while True:
        next_wall = expression.next_wall_time(wall + SECOND)
        if next_wall is None:
            return None
        instant = _first_occurrence(next_wall, zone)
        # In the second pass of an overlap the wall clock is behind `start`: its times fired in the
        # first pass and are not repeated.
        if instant >= start:
            return instant
        wall = next_wall


def _first_occurrence(wall: datetime, zone: tzinfo) -> datetime:
    """The instant when the clocks first show a wall time, or jump over it."""
    # PEP 495: for a repeated time fold 0 is the first pass; for a skipped time fold 0 has the
    # offset before the gap and fold 1 the offset after it.
    before, after = (wall.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    assert before is not None and after is not None, "a zone knows every wall time"  # noqa: PT018
    instant = wall - before
    # Round trip: a wall time that does not come back was skipped by the clocks.
    if instant + offset_at(instant, zone) == wall:
        return instant
    gap = find_offset_change(wall - after, instant, zone)
    assert gap is not None, "a wall time that does not exist lies at a change"
    return gap.at
