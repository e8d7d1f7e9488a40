"""What to write instead of a cron expression that other programs read otherwise; pure.

Each advised form fires when its author meant it to: the forms of other programs are translated, not only cut to size.
"""

import re
from collections.abc import Iterator, Sequence
from math import gcd
from typing import Final

from mosaico.core.text import join_words

_CRONTAB_FIELDS, _QUARTZ_FIELDS, _FIELDS = 5, 7, 6
_MINUTE, _HOUR, _DAY, _WEEKDAY = 1, 2, 3, 5
_SEPARATOR: Final = re.compile(r"\s*([,/-])\s*")
_STEP_OVER_ALL: Final = re.compile(r"(?:\*|0)/([0-9]{1,5})")
# In Quartz, 1 is Sunday; the numbers of `#2` and `/2` are no days.
_QUARTZ_WEEKDAY: Final = re.compile(r"(?<![#/0-9])[1-7](?![0-9])")
# Nobody makes more schedules than this for one step.
_MAX_SCHEDULES: Final = 4


def unwrap_range(
    low: int, high: int, step: int, *, first: int, last: int, names: Sequence[str]
) -> str:
    """The items of the range `low`-`high` that goes over the end of its field: `FRI-SUN,MON` for `FRI-MON`.

    The field goes from `first` to `last`; `names[n]` is the text of its number n.
    """
    after_end = range(first, high + 1)
    if step > 1:
        return ",".join(names[number] for number in [*range(low, last + 1), *after_end][::step])
    return ",".join(
        names[span[0]] if len(span) == 1 else f"{names[span[0]]}-{names[span[-1]]}"
        for span in (range(low, last + 1), after_end)
        if span
    )


def translate_fields(text: str) -> Iterator[list[str]]:
    """Expressions of six fields that may be meant by one of another number of fields; of several in a list, each is a
    schedule of its own. They need not be valid.
    """
    joined = _SEPARATOR.sub(r"\1", text).split()
    if len(joined) == _FIELDS:
        yield [" ".join(joined)]
    fields = text.split()
    if len(fields) == _CRONTAB_FIELDS:
        yield _translate_crontab(fields)
    if len(fields) == _QUARTZ_FIELDS and fields[-1] == "*":
        weekday = _QUARTZ_WEEKDAY.sub(_name_quartz_day, fields[_WEEKDAY])
        yield [" ".join([*fields[:_WEEKDAY], weekday])]


def _translate_crontab(fields: Sequence[str]) -> list[str]:
    minute, hour, day, month, weekday = fields
    # There a step over all days begins at Sunday.
    weekday = re.sub(r"^\*/", "0/", weekday)
    if day[0] in "*?" or fields[-1][0] in "*?":
        return [f"0 {minute} {hour} {day} {month} {weekday}"]
    # There a day needs to match one of its two fields only.
    return [f"0 {minute} {hour} {day} {month} *", f"0 {minute} {hour} * {month} {weekday}"]


def _name_quartz_day(match: re.Match[str]) -> str:
    return ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")[int(match[0]) - 1]


def advise_schedules(expressions: Sequence[str]) -> str:
    """The remedy with these expressions: `write 0 0 2 * * *`, or that they are schedules of their own."""
    quoted = [f"`{expression}`" for expression in expressions]
    if len(quoted) == 1:
        return f"write {quoted[0]}"
    return f"make {len(quoted)} schedules: {join_words(quoted, 'and')}"


def schedules_of_long_step(text: str) -> tuple[str, list[str]] | None:
    """What a step beyond the end of its field means, such as "every 90 minutes" of `0 */90 * * * *`, and the schedules
    that do it; None for any other expression, and where it takes more than four.
    """
    fields = text.split(" ")
    for index, unit, larger_size in ((0, "seconds", 60), (_MINUTE, "minutes", 24)):
        match = _STEP_OVER_ALL.fullmatch(fields[index])
        is_fixed_below = all(field.isdigit() for field in fields[:index])
        step = int(match[1]) if match else 0
        if step < 60 or fields[index + 1] != "*" or not is_fixed_below or 60 * larger_size % step:  # noqa: PLR2004
            continue
        if 60 // gcd(60, step) > _MAX_SCHEDULES:
            continue
        times: dict[int, list[int]] = {}
        for start in range(0, 60 * larger_size, step):
            times.setdefault(start % 60, []).append(start // 60)
        schedules = [
            " ".join([*fields[:index], str(small), _as_step(large), *fields[index + 2 :]])
            for small, large in times.items()
        ]
        return f"every {step} {unit}", schedules
    return None


def _as_step(numbers: Sequence[int]) -> str:
    """Evenly spaced numbers to the end of a field."""
    if len(numbers) == 1:
        return str(numbers[0])
    return f"{numbers[0]}/{numbers[1] - numbers[0]}"
