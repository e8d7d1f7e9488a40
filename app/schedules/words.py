"""Cron expressions in plain words, and what the clocks do to them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from app.schedules.cron import MONTHS, WEEKDAYS, CronExpression, DstPolicy
from app.schedules.zones import OffsetChange, changes_between

WEEKDAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTH_NAMES = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
ORDINALS = ("", "first", "second", "third", "fourth", "fifth")
MOST_TIMES = 6
LOOK_AHEAD = timedelta(days=400)


class Note(NamedTuple):
    """An instant at which the clocks change under a schedule, and what that does."""

    at: datetime
    text: str


def describe(expression: CronExpression) -> str:
    """When an expression fires, as one would say it: `at 07:00, Monday to Friday`."""
    _, _, _, day, month, weekday = expression.text.split(" ")
    parts = [_times(expression)]
    if weekday not in "*?":
        parts.append(_weekdays(weekday))
    if day not in "*?":
        parts.append(_days(day) + (", if it is such a day" if weekday not in "*?" else ""))
    if month != "*":
        parts.append(f"in {_listed(_spans(month, MONTHS, MONTH_NAMES, 1))}")
    if len(parts) == 1 and parts[0].startswith("at "):
        parts.append("every day")
    return ", ".join(parts)


def clock_notes(
    expression: CronExpression, zone: ZoneInfo, after: datetime, until: datetime, policy: DstPolicy
) -> list[Note]:
    """What happens to an expression when the clocks change, for as long as 400 days."""
    start = after.astimezone(UTC).replace(tzinfo=None)
    end = min(until.astimezone(UTC).replace(tzinfo=None), start + LOOK_AHEAD)
    once = policy is DstPolicy.ONCE and expression.names_its_times
    found = (
        (change, _note(expression, change, once=once))
        for change in changes_between(start, end, zone)
    )
    return [
        Note(change.at.replace(tzinfo=UTC).astimezone(zone), said) for change, said in found if said
    ]


def _note(expression: CronExpression, change: OffsetChange, *, once: bool) -> str | None:
    """What the change does; None when it touches no time of the expression."""
    old, new = change.at + change.before, change.at + change.after
    wall = expression.next_wall(min(old, new))
    if wall is None or wall >= max(old, new):
        return None
    day, time = f"{wall:%Y-%m-%d}", f"{wall:%H:%M:%S}".removesuffix(":00")
    if new > old:
        does = "fires at the end of the gap instead" if once else "does not fire then"
        return (
            f"{day}: the clocks go forward from {old:%H:%M} to {new:%H:%M};"
            f" {time} does not exist and {does}"
        )
    does = "fires the first time only" if once else "fires both times"
    return (
        f"{day}: the clocks go back from {old:%H:%M} to {new:%H:%M}; {time} comes twice and {does}"
    )


def _times(expression: CronExpression) -> str:
    second, minute, hour = expression.text.split(" ")[:3]
    if expression.names_its_times and second.isdigit():
        hours, minutes = _numbers(hour), _numbers(minute)
        if len(hours) * len(minutes) <= MOST_TIMES:
            seconds = f":{int(second):02}" if int(second) else ""
            times = [f"{h:02}:{m:02}{seconds}" for h in hours for m in minutes]
            return f"at {_listed(times)}"
    return ", ".join(_clock_fields(second, minute, hour))


def _clock_fields(second: str, minute: str, hour: str) -> Iterator[str]:
    """Second, minute and hour one by one; what only says `on the dot` is left out."""
    if not second.isdigit() or int(second):
        yield _clock_field(second, "second", "of the minute")
    if second == "*" and minute == "*" and hour == "*":
        return
    dot = second.isdigit() and not int(second)
    if minute != "*" or dot:
        if not (minute.isdigit() and not int(minute) and dot and not hour.isdigit()):
            yield _clock_field(minute, "minute", "past the hour")
        elif hour == "*":
            yield "every hour, on the hour"
            return
    if hour != "*":
        yield _clock_field(hour, "hour", "of the day")


def _clock_field(text: str, unit: str, of: str) -> str:
    if text == "*":
        return f"every {unit}"
    start, slash, step = text.partition("/")
    if slash and "," not in text and start in ("*", "0"):
        return f"every {step} {unit}s" if int(step) > 1 else f"every {unit}"
    spans = _listed(list(_spans(text, (), (), 0)))
    plural = "" if text.isdigit() else "s"
    return f"at {unit}{plural} {spans} {of}"


def _weekdays(text: str) -> str:
    named = list(_spans(text, WEEKDAYS, WEEKDAY_NAMES, 0))
    return _listed(named)


def _days(text: str) -> str:
    words = []
    for item in text.split(","):
        if item == "L":
            words.append("on the last day of the month")
        elif item == "LW":
            words.append("on the last weekday of the month")
        elif item.startswith("L-"):
            words.append(f"{item[2:]} days before the last of the month")
        elif item.endswith("W"):
            words.append(f"on the weekday nearest to day {item[:-1]}")
        else:
            words.append(f"on day {next(_spans(item, (), (), 0))}")
    return _listed(words)


def _spans(text: str, short: tuple[str, ...], names: tuple[str, ...], low: int) -> Iterator[str]:
    """The items of a field in words."""
    for item in text.split(","):
        span, slash, step = item.partition("/")
        first, dash, last = span.partition("-")
        said = _named(first, short, names, low)
        if dash:
            said += f" to {_named(last, short, names, low)}"
        if slash:
            said = f"every {step} from {said}" if first != "*" else f"every {step}"
        yield said


def _named(text: str, short: tuple[str, ...], names: tuple[str, ...], low: int) -> str:
    value, sharp, nth = text.partition("#")
    if sharp:
        ordinal = ORDINALS[int(nth)] if int(nth) < len(ORDINALS) else f"{nth}th"
        return f"the {ordinal} {_named(value, short, names, low)} of the month"
    if names and value.endswith("L"):
        return f"the last {_named(value[:-1], short, names, low)} of the month"
    if value in short:
        return names[short.index(value)]
    if names and value.isdigit():
        return names[(int(value) - low) % len(names)]
    return value


def _numbers(text: str) -> list[int]:
    return sorted({int(number) for number in text.split(",")})


def _listed(words: "list[str] | Iterator[str]") -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
