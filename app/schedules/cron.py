"""Cron expressions of six fields, second first: when a schedule is due.

One rule explains all: an expression fires at every instant whose wall clock in the zone matches
the six fields, the two day fields both. Source: CronExpression of Spring Framework 7, with its
loose forms refused; see docs/schedules.md.
"""

import functools
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from enum import StrEnum
from typing import NamedTuple
from zoneinfo import ZoneInfo

from app.core.errors import ErrorItem, Invalid
from app.schedules.calendar import (
    ALL_DAYS,
    ALL_WEEKDAYS,
    Days,
    days_of_month,
    length_of_month,
    lowest,
    next_bit,
)
from app.schedules.zones import QUIET, SECOND, first_change, offset_at

MACROS = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

# After so many years the calendar repeats, weekdays included.
CALENDAR_YEARS = 400
LAST_YEAR = 9998
MOST_WEEKS = 5


class DstPolicy(StrEnum):
    """What happens to wall times that a change of the clocks skips or repeats.

    SPRING: a skipped time does not fire, a repeated one fires twice. ONCE, for expressions that
    name their minutes and hours one by one: a skipped time fires at the end of the gap, a repeated
    one the first time only.
    """

    SPRING = "SPRING"
    ONCE = "ONCE"


class InvalidCron(Invalid):
    """The cron expression is not valid; the message says where and what to write instead."""

    code = "invalid-cron"

    def __init__(self, message: str, remedy: str, *, start: int, end: int) -> None:
        self.column, self.message, self.remedy = start + 1, message, remedy
        detail = f"column {self.column}: {message}; {remedy}"
        item = ErrorItem(pointer="/cronExpression", detail=detail, span=(start, end))
        super().__init__("the cron expression is not valid; correct it", errors=[item])


@dataclass(frozen=True, slots=True, kw_only=True)
class CronExpression:
    """A parsed expression; its fields of numbers are sets of bits. `text` is its normal form."""

    text: str
    seconds: int
    minutes: int
    hours: int
    months: int
    days: Days

    @classmethod
    def parse(cls, text: str) -> "CronExpression":
        """Read an expression of six fields or a macro.

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

        Returns: an aware instant of whole seconds; None when nothing ever matches.
        Raises:  `ValueError` when `after` is not aware.
        """
        where = zone or after.tzinfo
        if where is None or after.utcoffset() is None:
            raise ValueError("`after` has no time zone; give an aware instant")
        once = policy is DstPolicy.ONCE and self.names_its_times
        try:
            start = after.astimezone(UTC).replace(tzinfo=None, microsecond=0) + SECOND
            found = _first_pass_from(self, start, where) if once else _from(self, start, where)
            return None if found is None else found.replace(tzinfo=UTC).astimezone(where)
        except OverflowError:  # the calendar of the machine ends with the year 9999
            return None

    @property
    def names_its_times(self) -> bool:
        """Whether minutes and hours are plain numbers: no `*`, step or range."""
        return not re.search(r"[*/-]", " ".join(self.text.split(" ")[1:3]))

    @property
    def never_items(self) -> list[str]:
        """Parts that parse and can never match: the sixth Monday of a month."""
        weekday_items = self.text.split(" ")[5].split(",")
        return [item for item in weekday_items if int(item.partition("#")[2] or 0) > MOST_WEEKS]

    def next_wall(self, wall: datetime) -> datetime | None:
        """The first wall time (without zone) that matches, `wall` itself included."""
        if self._fires_on(wall.date()):
            found = self._next_time(wall.hour, wall.minute, wall.second)
            if found is not None:
                return wall.replace(hour=found.hour, minute=found.minute, second=found.second)
        day = self._day_after(wall.date())
        first = self._next_time(0, 0, 0)
        return datetime(day.year, day.month, day.day, *first) if day and first else None  # noqa: DTZ001 - a wall time

    def _fires_on(self, day: date) -> bool:
        return bool(_month(self, day.year, day.month) >> day.day & 1)

    def _day_after(self, day: date) -> date | None:
        year, month, first = day.year, day.month, day.day + 1
        while year <= min(day.year + CALENDAR_YEARS, LAST_YEAR):
            found = next_bit(_month(self, year, month), first)
            if found is not None:
                return date(year, month, found)
            year, month, first = (year + 1, 1, 1) if month == 12 else (year, month + 1, 1)  # noqa: PLR2004
        return None

    def _next_time(self, hour: int, minute: int, second: int) -> "_Time | None":
        first_minute, first_second = lowest(self.minutes), lowest(self.seconds)
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1:
                found = next_bit(self.seconds, second)
                if found is not None:
                    return _Time(hour, minute, found)
            found = next_bit(self.minutes, minute + 1)
            if found is not None:
                return _Time(hour, found, first_second)
        found = next_bit(self.hours, hour + 1)
        return None if found is None else _Time(found, first_minute, first_second)

    def __str__(self) -> str:
        return self.text


class _Time(NamedTuple):
    hour: int
    minute: int
    second: int


class _Token(NamedTuple):
    """A piece of the expression and where it begins."""

    text: str
    start: int

    def wrong(self, message: str, remedy: str) -> InvalidCron:
        return InvalidCron(message, remedy, start=self.start, end=self.start + len(self.text))


class _Field(NamedTuple):
    """What a field is called, what numbers it takes, and the names of some of them."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()


SECOND_FIELD = _Field("second", 0, 59)
MINUTE_FIELD = _Field("minute", 0, 59)
HOUR_FIELD = _Field("hour", 0, 23)
DAY_FIELD = _Field("day of month", 1, 31)
MONTH_FIELD = _Field("month", 1, 12, MONTHS)
WEEKDAY_FIELD = _Field("day of week", 0, 7, WEEKDAYS)
FIELDS = (SECOND_FIELD, MINUTE_FIELD, HOUR_FIELD, DAY_FIELD, MONTH_FIELD, WEEKDAY_FIELD)

_NUMBER = re.compile(r"[0-9]+")
_BEFORE_LAST = re.compile(r"L(?:-([0-9]+))?")
_NEAREST = re.compile(r"([0-9]+)W")
_NTH = re.compile(r"([^#]+)#([0-9]+)")


@functools.lru_cache(maxsize=4096)
def _parse(text: str) -> CronExpression:
    tokens = [_Token(found[0], found.start()) for found in re.finditer(r"[^ ]+", text)]
    if len(tokens) == 1 and tokens[0].text.startswith("@"):
        return _parse(_expanded(tokens[0]))
    if len(tokens) != len(FIELDS):
        start = tokens[6].start if len(tokens) > len(FIELDS) else 0
        raise InvalidCron(
            f"there are {len(tokens)} fields instead of six",
            "write second, minute, hour, day of month, month and day of week, with blanks between",
            start=start,
            end=len(text),
        )
    second, minute, hour, day, month, weekday = tokens
    return CronExpression(
        text=" ".join(
            [*(each.text for each in tokens[:4]), month.text.upper(), weekday.text.upper()]
        ),
        seconds=_bits(second, SECOND_FIELD),
        minutes=_bits(minute, MINUTE_FIELD),
        hours=_bits(hour, HOUR_FIELD),
        months=_bits(month, MONTH_FIELD),
        days=_days(day, weekday),
    )


def _expanded(macro: _Token) -> str:
    expanded = MACROS.get(macro.text.lower()) if macro.text.isascii() else None
    if expanded is None:
        known = ", ".join(MACROS)
        raise macro.wrong(f"there is no macro {_quoted(macro)}", f"those there are: {known}")
    return expanded


def _bits(token: _Token, field: _Field) -> int:
    bits = 0
    for item in _items(token):
        bits |= _item_bits(item, field)
    return bits


def _days(day: _Token, weekday: _Token) -> Days:
    days, before_last, last_workday, nearest = 0, [], False, []
    for item in [] if day.text == "?" else _items(day):
        if item.text == "LW":
            last_workday = True
        elif found := _BEFORE_LAST.fullmatch(item.text):
            before_last.append(_number(item, found[1] or "0", 1 if found[1] else 0, 30))
        elif found := _NEAREST.fullmatch(item.text):
            nearest.append(_number(item, found[1], 1, 31))
        else:
            days |= _item_bits(item, DAY_FIELD)
    weekdays, last_weekdays, nth = 0, 0, []
    for item in [] if weekday.text == "?" else _items(weekday):
        if found := _NTH.fullmatch(item.text):
            nth.append((_weekday(item, found[1]) % 7, _number(item, found[2], 1, 99)))
        elif item.text[-1] in "Ll" and len(item.text) > 1:
            last_weekdays |= 1 << _weekday(item, item.text[:-1]) % 7
        else:
            bits = _item_bits(item, WEEKDAY_FIELD)
            weekdays |= (bits | bits >> 7) & 0b1111111
    return Days(
        days if day.text != "?" else ALL_DAYS,
        tuple(before_last),
        last_workday,
        tuple(nearest),
        weekdays if weekday.text != "?" else ALL_WEEKDAYS,
        last_weekdays,
        tuple(nth),
    )


def _items(token: _Token) -> list[_Token]:
    """What stands between the commas of a field."""
    items, start = [], token.start
    for text in token.text.split(","):
        item = _Token(text, start)
        if not text:
            raise item.wrong("nothing stands between two commas", "leave one of them out")
        items.append(item)
        start += len(text) + 1
    return items


def _item_bits(item: _Token, field: _Field) -> int:
    span, slash, step_text = item.text.partition("/")
    step = _number(item, step_text, 1, None) if slash else 1
    if span == "*":
        # A step over all days of the week starts at Monday.
        low, high = max(field.low, 1 if field is WEEKDAY_FIELD else 0), field.high
    else:
        first, dash, last = span.partition("-")
        low = _value(item, first, field)
        high = _value(item, last, field) if dash else (field.high if slash else low)
        if dash and field is WEEKDAY_FIELD and low == 7 and high != 7:  # noqa: PLR2004 - Sunday
            low = 0
        if high < low or (dash and field is WEEKDAY_FIELD and low == 7):  # noqa: PLR2004
            raise item.wrong(
                f"the range {span!r} of the {field.name} does not rise",
                f"write the smaller first, or two items: {last},{first}",
            )
    return sum(1 << value for value in range(low, high + 1, step))


def _value(item: _Token, text: str, field: _Field) -> int:
    if text.isascii() and text.upper() in field.names:
        position = field.names.index(text.upper())
        if field is WEEKDAY_FIELD:
            return position or 7
        return position + 1
    if not _NUMBER.fullmatch(text):
        raise item.wrong(f"{_quoted(item)} is no {field.name}", _remedy(field))
    return _number(item, text, field.low, field.high, field)


def _weekday(item: _Token, text: str) -> int:
    return _value(item, text, WEEKDAY_FIELD)


def _number(
    item: _Token, text: str, low: int, high: int | None, field: _Field | None = None
) -> int:
    what = field.name if field else "number"
    if not _NUMBER.fullmatch(text):
        raise item.wrong(f"{_quoted(item)} has no whole number where one belongs", "write digits")
    value = int(text) if len(text) <= 9 else 10**9  # noqa: PLR2004 - beyond every field
    if value < low or (high is not None and value > high):
        bounds = f"{low} to {high}" if high is not None else f"{low} or more"
        raise item.wrong(f"the {what} {text[:20]} is out of range", f"write {bounds}")
    return value


def _remedy(field: _Field) -> str:
    remedy = f"write *, or numbers from {field.low} to {field.high}"
    if field.names:
        remedy += f" or {field.names[0]} to {field.names[-1]}"
    if field is DAY_FIELD:
        return f"{remedy}, or L, L-3, LW or 15W in capitals, or ? alone"
    if field is WEEKDAY_FIELD:
        return f"{remedy}, or FRIL, MON#2, or ? alone"
    return remedy


def _quoted(token: _Token) -> str:
    return repr(token.text if len(token.text) <= 20 else f"{token.text[:20]}…")  # noqa: PLR2004


def _month(expression: CronExpression, year: int, month: int) -> int:
    """The days of a month that fire, as bits."""
    if not expression.months >> month & 1:
        return 0
    weekday = date(year, month, 1).isoweekday() % 7
    return days_of_month(expression.days, weekday, length_of_month(year, month))


def _from(expression: CronExpression, start: datetime, zone: tzinfo) -> datetime | None:
    """The first matching instant, `start` included; both in UTC, without zone.

    Between two changes of the clocks an instant and its wall time differ by one number, so the
    search goes from change to change. Far from both ends of a long wait there is nothing to find:
    the wall times there lie between those at the ends, however the clocks change.
    """
    while True:
        offset = offset_at(start, zone)
        wall = expression.next_wall(start + offset)
        if wall is None:
            return None
        found = wall - offset
        change = first_change(start, min(found, start + QUIET), zone)
        if change is not None:
            start = change.at
        elif found <= start + QUIET:
            return found
        else:
            start = max(start + QUIET, found - QUIET)


def _first_pass_from(expression: CronExpression, start: datetime, zone: tzinfo) -> datetime | None:
    """The same for the policy ONCE: each wall time counts when the clocks first reach it."""
    wall = start - SECOND + offset_at(start - SECOND, zone)
    while True:
        found = expression.next_wall(wall + SECOND)
        if found is None:
            return None
        instant = _first_reached(found, zone)
        if instant >= start:
            return instant
        wall = found


def _first_reached(wall: datetime, zone: tzinfo) -> datetime:
    """When the clocks first show a wall time, or jump over it."""
    before, after = (wall.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    assert before is not None and after is not None, "a zone knows every wall time"  # noqa: PT018
    instant = wall - before
    if instant + offset_at(instant, zone) == wall:
        return instant
    gap = first_change(wall - after, instant, zone)
    assert gap is not None, "a wall time that does not exist lies at a change"
    return gap.at
