"""Random cron expressions, and an independent brute-force evaluation of them."""

import calendar
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import NamedTuple

from hypothesis import strategies as st

NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTHS = tuple(calendar.month_abbr[number].upper() for number in range(1, 13))


class Numbers(NamedTuple):
    """A field and the numbers it stands for."""

    text: str
    values: frozenset[int]


class DayRule(NamedTuple):
    """A day field and whether a day fits it."""

    text: str
    fits: Callable[[date], bool]


class FieldSample(NamedTuple):
    """An expression and whether a wall time matches it."""

    text: str
    matches: Callable[[datetime], bool]


def _item(low: int, high: int) -> st.SearchStrategy[Numbers]:
    number = st.integers(low, high)
    # A step beyond the field is valid, and leaves the first number only.
    step = st.integers(1, high + 5)
    pairs = st.tuples(number, number).map(sorted)
    return st.one_of(
        number.map(lambda n: Numbers(f"{n}", frozenset({n}))),
        pairs.map(lambda p: Numbers(f"{p[0]}-{p[1]}", frozenset(range(p[0], p[1] + 1)))),
        st.tuples(number, step).map(
            lambda t: Numbers(f"{t[0]}/{t[1]}", frozenset(range(t[0], high + 1, t[1])))
        ),
        step.map(lambda s: Numbers(f"*/{s}", frozenset(range(low, high + 1, s)))),
        st.tuples(pairs, step).map(
            lambda t: Numbers(
                f"{t[0][0]}-{t[0][1]}/{t[1]}", frozenset(range(t[0][0], t[0][1] + 1, t[1]))
            )
        ),
    )


def numbers(low: int, high: int) -> st.SearchStrategy[Numbers]:
    """A field of numbers; often `*`."""
    several = st.lists(_item(low, high), min_size=1, max_size=3).map(
        lambda items: Numbers(
            ",".join(item.text for item in items), frozenset().union(*(i.values for i in items))
        )
    )
    return st.one_of(st.just(Numbers("*", frozenset(range(low, high + 1)))), several)


def length(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def is_workday(day: date) -> bool:
    return day.isoweekday() <= 5


def is_nearest(day: date, target_day: int) -> bool:
    """Whether a workday is the one nearest to a day of its month."""
    if target_day > length(day) or not is_workday(day):
        return False
    target = day.replace(day=target_day)
    inside = [
        near
        for near in (target + timedelta(days=shift) for shift in range(-2, 3))
        if near.month == day.month and is_workday(near)
    ]
    distances = {near: abs((near - target).days) for near in inside}
    # Saturday the 1st has Monday the 3rd: the Friday before it belongs to another month.
    allowed = 2 if target_day == 1 and target.isoweekday() == 6 else 1
    best = min(distances.values())
    return best <= allowed and distances.get(day) == best


def month_days() -> st.SearchStrategy[DayRule]:
    special = st.one_of(
        st.just(DayRule("L", lambda day: day.day == length(day))),
        st.integers(1, 30).map(lambda n: DayRule(f"L-{n}", lambda day: day.day == length(day) - n)),
        st.integers(1, 31).map(lambda n: DayRule(f"{n}W", lambda day: is_nearest(day, n))),
        st.just(
            DayRule(
                "LW",
                lambda day: (
                    is_workday(day)
                    and not any(
                        is_workday(day.replace(day=later))
                        for later in range(day.day + 1, length(day) + 1)
                    )
                ),
            )
        ),
    )
    plain = _item(1, 31).map(lambda item: DayRule(item.text, lambda day: day.day in item.values))
    return _either(special | plain)


def week_days() -> st.SearchStrategy[DayRule]:
    name = st.integers(0, 7).flatmap(
        lambda n: st.sampled_from([(str(n), n % 7), (NAMES[n % 7].lower(), n % 7)])
    )
    special = st.one_of(
        name.map(
            lambda n: DayRule(
                f"{n[0]}L", lambda day: _weekday(day) == n[1] and day.day + 7 > length(day)
            )
        ),
        st.tuples(name, st.integers(1, 5)).map(
            lambda t: DayRule(
                f"{t[0][0]}#{t[1]}",
                lambda day: _weekday(day) == t[0][1] and (day.day - 1) // 7 + 1 == t[1],
            )
        ),
    )
    plain = name.map(lambda n: DayRule(n[0], lambda day: _weekday(day) == n[1]))
    span = st.tuples(st.integers(0, 6), st.integers(0, 7)).filter(lambda p: p[0] < p[1])
    spans = span.map(
        lambda p: DayRule(
            f"{p[0]}-{p[1]}",
            lambda day: _weekday(day) in {n % 7 for n in range(p[0], p[1] + 1)},
        )
    )
    steps = st.integers(1, 9).map(
        lambda s: DayRule(f"*/{s}", lambda day: day.isoweekday() in range(1, 8, s))
    )
    return _either(special | plain | spans | steps)


def _either(item: st.SearchStrategy[DayRule]) -> st.SearchStrategy[DayRule]:
    every = st.sampled_from(["*", "?"]).map(lambda text: DayRule(text, lambda _: True))
    several = st.lists(item, min_size=1, max_size=3).map(
        lambda items: DayRule(
            ",".join(item.text for item in items), lambda day: any(i.fits(day) for i in items)
        )
    )
    return every | several


def _weekday(day: date) -> int:
    return day.isoweekday() % 7


def expressions(
    seconds: st.SearchStrategy[Numbers],
    minutes: st.SearchStrategy[Numbers],
    hours: st.SearchStrategy[Numbers],
) -> st.SearchStrategy[FieldSample]:
    """Expressions with these times of day and any days."""
    fields = st.tuples(seconds, minutes, hours, month_days(), numbers(1, 12), week_days())
    return fields.map(_sample)


def _sample(
    fields: tuple[Numbers, Numbers, Numbers, DayRule, Numbers, DayRule],
) -> FieldSample:
    second, minute, hour, day, month, weekday = fields

    def matches(wall: datetime) -> bool:
        return (
            wall.second in second.values
            and wall.minute in minute.values
            and wall.hour in hour.values
            and wall.month in month.values
            and day.fits(wall.date())
            and weekday.fits(wall.date())
        )

    return FieldSample(" ".join(field.text for field in fields), matches)
