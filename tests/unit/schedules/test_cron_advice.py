"""The table of cron advice: input → message → what the advised form does. Each advised form is executed, and fires
exactly when its author meant it to."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest

from mosaico.schedules.cron import CronExpression
from mosaico.schedules.cron_parser import InvalidCron
from mosaico.schedules.preview import describe

# 31 days with a February, and the months around: every case differs within it.
START, DAYS = datetime(2026, 1, 1, tzinfo=UTC), 100
Meaning = Callable[[datetime], bool]
MONDAY, TUESDAY, WEDNESDAY, THURSDAY, FRIDAY, SATURDAY, SUNDAY = range(7)


def on(*weekdays: int) -> Meaning:
    """At 02:00 on these weekdays."""
    return lambda at: (at.hour, at.minute) == (2, 0) and at.weekday() in weekdays


def at_hours(*hours: int) -> Meaning:
    return lambda at: at.minute == 0 and at.hour in hours


REFUSED: list[tuple[str, str, Meaning]] = [
    # a range over the end of its field
    ("0 0 2 * * FRI-MON", "not ascending", on(FRIDAY, SATURDAY, SUNDAY, MONDAY)),
    ("0 0 2 * * SAT-SUN,FRI-TUE/2", "not ascending", on(SATURDAY, SUNDAY, FRIDAY, TUESDAY)),
    ("0 0 2 * * 5-1", "not ascending", on(FRIDAY, SATURDAY, SUNDAY, MONDAY)),
    ("0 0 2 * * FRI-0", "not ascending", on(FRIDAY, SATURDAY, SUNDAY)),
    ("0 0 2 * * SUN-SUN", "not ascending", on(SUNDAY)),
    ("0 0 22-6 * * *", "not ascending", at_hours(22, 23, *range(7))),
    ("0 0 23-1 * * *", "not ascending", at_hours(23, 0, 1)),
    ("0 0 22-6/4 * * *", "not ascending", at_hours(22, 2, 6)),
    ("0 55-5 2 * * *", "not ascending", lambda at: at.hour == 2 and (at.minute >= 55 or at.minute <= 5)),
    ("0 0 2 25-5 * *", "not ascending", lambda at: at_hours(2)(at) and (at.day >= 25 or at.day <= 5)),
    ("0 0 2 * NOV-FEB *", "not ascending", lambda at: at_hours(2)(at) and at.month in {11, 12, 1, 2}),
    ("0 0 2 * DEC-JAN *", "not ascending", lambda at: at_hours(2)(at) and at.month in {12, 1}),
    # crontab: no seconds, one of two day fields is enough, weekdays begin at Sunday
    ("0 2 * * *", "5 fields", at_hours(2)),
    ("30 9 * * MON-FRI", "5 fields", lambda at: (at.hour, at.minute) == (9, 30) and at.weekday() < SATURDAY),
    ("*/15 * * * *", "5 fields", lambda at: at.minute % 15 == 0),
    ("0 2 13 * FRI", "5 fields", lambda at: at_hours(2)(at) and (at.day == 13 or at.weekday() == FRIDAY)),
    ("0 22-6 * * *", "5 fields", at_hours(22, 23, *range(7))),
    ("0 2 * * FRI-MON", "5 fields", on(FRIDAY, SATURDAY, SUNDAY, MONDAY)),
    ("0 2 * * Friday-Monday", "5 fields", on(FRIDAY, SATURDAY, SUNDAY, MONDAY)),
    ("0 2 13 * FRI-MON", "5 fields", lambda at: at_hours(2)(at) and (at.day == 13 or at.weekday() not in {TUESDAY, WEDNESDAY, THURSDAY})),
    ("0 2 * * */2", "5 fields", on(SUNDAY, TUESDAY, THURSDAY, SATURDAY)),
    # Quartz: a year, and Sunday is 1
    ("0 0 2 ? * 2-6 *", "7 fields", on(MONDAY, TUESDAY, WEDNESDAY, THURSDAY, FRIDAY)),
    ("0 0 2 ? * 1 *", "7 fields", on(SUNDAY)),
    # blanks
    ("0 0 2 * * MON, FRI", "7 fields", on(MONDAY, FRIDAY)),
    ("0 0 2 * * MON - FRI", "8 fields", on(MONDAY, TUESDAY, WEDNESDAY, THURSDAY, FRIDAY)),
    ("0\t0 2 * * *", "5 fields", at_hours(2)),
    # full names
    ("0 0 2 * * Monday-Friday", "not a valid day of week", on(MONDAY, TUESDAY, WEDNESDAY, THURSDAY, FRIDAY)),
    ("0 0 2 * * MON,tuesday-Thursday/2", "not a valid day of week", on(MONDAY, TUESDAY, THURSDAY)),
    ("0 0 2 * * Monday", "not a valid day of week", on(MONDAY)),
    ("0 0 2 * march *", "not a valid month", lambda at: at_hours(2)(at) and at.month == 3),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message", "is_meant"), REFUSED, ids=[row[0] for row in REFUSED])
def test_cron_advice__advised_form_fires_when_it_is_meant(
    text: str, message: str, is_meant: Meaning
) -> None:
    with pytest.raises(InvalidCron) as refused:
        CronExpression.parse(text)
    assert message in refused.value.message
    schedules = re.findall("`([^`]+)`", refused.value.remedy)
    if not schedules:
        [item] = re.findall(r"^write (\S+)", refused.value.remedy)
        [error] = refused.value.errors
        assert error.span is not None
        schedules = [text[: error.span[0]] + item + text[error.span[1] :]]
    assert fire_times(schedules) == meant_times(is_meant)


LONG_STEPS: list[tuple[str, timedelta]] = [
    ("0 */90 * * * *", timedelta(minutes=90)),
    ("0 0/120 * * * *", timedelta(minutes=120)),
    ("0 */480 * * * *", timedelta(minutes=480)),
    ("0 */720 * * * *", timedelta(minutes=720)),
]


@pytest.mark.parametrize(("text", "interval"), LONG_STEPS)
def test_describe__step_beyond_its_field_is_hourly_and_named_with_schedules_that_work(
    text: str, interval: timedelta
) -> None:
    described = describe(CronExpression.parse(text))
    assert described.startswith("every hour, on the hour;")
    advice = described.partition("for every")[2]
    schedules = re.findall("`([^`]+)`", advice)
    assert fire_times(schedules) == [
        START + n * interval for n in range(int(timedelta(days=DAYS) / interval))
    ]


def test_describe__step_of_seconds_beyond_a_minute_is_named_with_schedules_that_work() -> None:
    advice = describe(CronExpression.parse("*/90 * * * * *")).partition("for every")[2]
    schedules = re.findall("`([^`]+)`", advice)
    assert [at - START for at in fire_times(schedules, days=1)[:4]] == [
        timedelta(seconds=90 * n) for n in range(4)
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # Its hours have no common distance, so no schedules are advised.
        ("0 */100 * * * *", "`*/100` matches one minute only"),
        ("0 0 */30 * * *", "`*/30` matches one hour only"),
        ("0 0 0 */40 * *", "`*/40` matches one day of month only"),
    ],
)
def test_describe__other_step_beyond_its_field_is_named(text: str, words: str) -> None:
    described = describe(CronExpression.parse(text))
    assert words in described
    assert "for every" not in described


@pytest.mark.parametrize(
    "pair",
    [
        ("0 0 0 * * 0/2", "0 0 0 * * 7/2"),
        ("0 0/2 * * * *", "0 7/2 * * * *"),
        ("0 0/2 * * * *", "0 1/2 * * * *"),
        ("0 */30 * * * *", "0 */31 * * * *"),
        ("0 0 0 */2 * *", "0 0 0 2/2 * *"),
        ("0 0 0 * */2 *", "0 0 0 * 2/2 *"),
    ],
)
def test_describe__other_fire_times_have_another_description(pair: Sequence[Any]) -> None:
    assert len({describe(CronExpression.parse(text)) for text in pair}) == len(pair)


def fire_times(schedules: Sequence[str], days: int = DAYS) -> list[datetime]:
    """The distinct instants of the schedules, in order."""
    instants: set[datetime] = set()
    for schedule in schedules:
        expression = CronExpression.parse(schedule)
        at = expression.next(START - timedelta(seconds=1))
        while at is not None and at < START + timedelta(days=days):
            instants.add(at)
            at = expression.next(at)
    return sorted(instants)


def meant_times(is_meant: Meaning) -> list[datetime]:
    return [at for at in every_minute() if is_meant(at)]


@cache
def every_minute() -> list[datetime]:
    return [START + timedelta(minutes=n) for n in range(DAYS * 24 * 60)]
