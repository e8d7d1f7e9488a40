"""The days of a month that a cron expression names, as sets of bits."""

import functools
from typing import NamedTuple

ALL_DAYS = (1 << 32) - 2
ALL_WEEKDAYS = 0b1111111


class Days(NamedTuple):
    """Which days of a month fire. Days are bits 1 to 31, weekdays bits 0 (Sunday) to 6.

    Of the day of month: `days`, so many `before_last`, the `last_workday`, those `nearest` to a
    day. Of the week: `weekdays`, the `last_weekdays` of the month, the `nth` of one.
    """

    days: int
    before_last: tuple[int, ...]
    last_workday: bool
    nearest: tuple[int, ...]
    weekdays: int
    last_weekdays: int
    nth: tuple[tuple[int, int], ...]


def length_of_month(year: int, month: int) -> int:
    if month == 2:  # noqa: PLR2004 - February
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


@functools.lru_cache(maxsize=8192)
def days_of_month(rule: Days, first_weekday: int, length: int) -> int:
    """The days of a month that begins on a weekday (0 is Sunday) and has so many days."""

    def weekday(day: int) -> int:
        return (first_weekday + day - 1) % 7

    of_month = rule.days
    for before in rule.before_last:
        of_month |= 1 << max(length - before, 0)
    if rule.last_workday:
        of_month |= 1 << length - {0: 2, 6: 1}.get(weekday(length), 0)
    for day in rule.nearest:
        if day <= length:
            of_month |= 1 << _nearest_workday(day, weekday(day))
    of_week = 0
    for day in range(1, length + 1):
        is_last, nth = day + 7 > length, (weekday(day), (day + 6) // 7)
        plain = rule.weekdays >> weekday(day) & 1
        if plain or (is_last and rule.last_weekdays >> weekday(day) & 1) or nth in rule.nth:
            of_week |= 1 << day
    return of_month & of_week  # days before the first and after the last are not `of_week`


def _nearest_workday(day: int, weekday: int) -> int:
    """Monday to Friday nearest to a day, never in the month before."""
    if weekday == 6:  # noqa: PLR2004 - Saturday
        return day - 1 if day > 1 else day + 2
    return day + 1 if weekday == 0 else day


def lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def next_bit(bits: int, start: int) -> int | None:
    """The first set bit at `start` or above."""
    rest = bits >> start
    return start + lowest(rest) if rest else None
