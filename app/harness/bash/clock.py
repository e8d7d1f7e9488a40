"""Checks that a clock can meet: what listings and `date` print changes by the minute."""

import re
from collections.abc import Iterable, Iterator
from functools import cache

from app.harness.bash.checking import CheckWarning
from app.harness.patterns import compile_pattern

_SMALL_NUMBER = re.compile(r"(?<![0-9{,\\])[0-9]{1,2}\.[*+]|\.[*+][0-9]{1,2}(?![0-9},])")


def clock_complaints(pattern: str) -> Iterable[CheckWarning]:
    """Why a valid pattern may match by accident, depending on when it is tried."""
    if is_met_by_a_clock(pattern):
        yield CheckWarning(f"the pattern {pattern!r} may match what a clock shows", unsteady=True)
    elif _SMALL_NUMBER.search(pattern):
        yield CheckWarning(
            f"the pattern {pattern!r} has a number of one or two digits beside any text:"
            " times and sizes of listings hold it, too",
            unsteady=True,
        )


def is_met_by_a_clock(pattern: str) -> bool:
    """Whether a pattern is found in a time or date, and not in a text without any as well."""
    compiled = compile_pattern(pattern)
    return compiled.search("") is None and compiled.search(_clock_face()) is not None


@cache
def _clock_face() -> str:
    """Every minute of a day and every day of a year, as `ls -l` and `date` write them."""
    return "\n".join([*_times(), *_dates()])


def _times() -> Iterator[str]:
    for hour in range(24):
        for minute in range(60):
            yield f"{hour:02}:{minute:02}:{minute:02}"


def _dates() -> Iterator[str]:
    months = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    for number, name in enumerate(months, start=1):
        for day in range(1, 32):
            yield f"2026-{number:02}-{day:02}"
            yield f"{name} {day:2}"
