"""Preview of a cron expression: its next instants, a description, and notes on clock changes."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from mosaico.core.text import join_words
from mosaico.schedules import rules
from mosaico.schedules.clock_changes import clock_notes
from mosaico.schedules.cron import CronExpression
from mosaico.schedules.cron_parser import MONTHS, WEEKDAYS
from mosaico.schedules.rules import ScheduleTiming
from mosaico.schedules.schemas import PreviewRequest, PreviewView
from mosaico.schedules.time_zones import get_time_zone

ORDINALS = ("", "first", "second", "third", "fourth", "fifth")
MAX_LISTED_TIMES = 6


class _Names(NamedTuple):
    """The names of a field's numbers, as written in an expression and in a description."""

    short: tuple[str, ...] = ()
    full: tuple[str, ...] = ()
    first_number: int = 0


NUMBERS_ONLY = _Names()
WEEKDAY_NAMES = _Names(
    WEEKDAYS, ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"), 0
)
MONTH_NAMES = _Names(
    MONTHS,
    (
        *("January", "February", "March", "April", "May", "June"),
        *("July", "August", "September", "October", "November", "December"),
    ),
    1,
)


def preview(request: PreviewRequest, now: datetime) -> PreviewView:
    """The next instants of an expression, in its zone.

    There may be fewer than requested near the end of the calendar. Notes cover the clock changes
    up to the instant after the last one.
    Raises: `InvalidCron`, `UnknownTimeZone`, `NeverFires`.
    """
    after = request.after or now
    timing = ScheduleTiming(
        cron_expression=request.cron_expression,
        timezone=request.timezone,
        dst_policy=request.dst_policy,
    )
    # Raises for an expression that never fires, before a preview without instants would hide that.
    rules.first_instant(timing, after)
    expression, zone = CronExpression.parse(timing.cron_expression), get_time_zone(timing.timezone)
    instants: list[datetime] = []
    instant = timing.next(after)
    while instant is not None and len(instants) < request.count:
        instants.append(instant.astimezone(zone))
        instant = timing.next(instant)
    # A clock change right after the last shown instant is noted too.
    end = instant or (instants[-1] if instants else after)
    return PreviewView(
        cron_expression=expression.text,
        timezone=timing.timezone,
        description=describe(expression),
        next=instants,
        notes=clock_notes(expression, zone, after, end, request.dst_policy),
    )


def describe(expression: CronExpression) -> str:
    """Describe in English when an expression fires: `at 07:00, Monday to Friday`."""
    _, _, _, day, month, weekday = expression.text.split(" ")
    parts = [_describe_times(expression)]
    if weekday not in "*?":
        parts.append(join_words(_describe_items(weekday, WEEKDAY_NAMES), "and"))
    if day not in "*?":
        days = _describe_days(day)
        parts.append(f"{days}, if the weekday matches too" if weekday not in "*?" else days)
    if month != "*":
        parts.append(f"in {join_words(_describe_items(month, MONTH_NAMES), 'and')}")
    if len(parts) == 1 and parts[0].startswith("at "):
        parts.append("every day")
    return ", ".join(parts)


def _describe_times(expression: CronExpression) -> str:
    second, minute, hour = expression.text.split(" ")[:3]
    if expression.has_fixed_times and second.isdigit():
        hours, minutes = _sorted_numbers(hour), _sorted_numbers(minute)
        if len(hours) * len(minutes) <= MAX_LISTED_TIMES:
            seconds = f":{int(second):02}" if int(second) else ""
            times = [f"{h:02}:{m:02}{seconds}" for h in hours for m in minutes]
            return f"at {join_words(times, 'and')}"
    return ", ".join(_describe_clock_fields(second, minute, hour))


def _describe_clock_fields(second: str, minute: str, hour: str) -> Iterator[str]:
    """Second, minute and hour one by one; a second of 0, and `every` after `every`, are implied."""
    if not second.isdigit() or int(second):
        yield _describe_clock_field(second, "second", "of the minute")
    if second == "*" and minute == "*" and hour == "*":
        return
    second_is_zero = second.isdigit() and not int(second)
    if minute != "*" or second_is_zero:
        minute_is_zero = minute.isdigit() and not int(minute)
        if not (minute_is_zero and second_is_zero and not hour.isdigit()):
            yield _describe_clock_field(minute, "minute", "past the hour")
        elif hour == "*":
            yield "every hour, on the hour"
            return
    if hour != "*":
        yield _describe_clock_field(hour, "hour", "of the day")


def _describe_clock_field(text: str, unit: str, container: str) -> str:
    if text == "*":
        return f"every {unit}"
    start, slash, step = text.partition("/")
    if slash and "," not in text and start in ("*", "0"):
        return f"every {step} {unit}s" if int(step) > 1 else f"every {unit}"
    plural = "" if text.isdigit() else "s"
    return f"at {unit}{plural} {join_words(_describe_items(text, NUMBERS_ONLY), 'and')} {container}"


def _describe_days(text: str) -> str:
    phrases = []
    for item in text.split(","):
        if item == "L":
            phrases.append("on the last day of the month")
        elif item == "LW":
            phrases.append("on the last weekday of the month")
        elif item.startswith("L-"):
            phrases.append(f"{item[2:]} days before the last of the month")
        elif item.endswith("W"):
            phrases.append(f"on the weekday nearest to day {item[:-1]}")
        else:
            [numbers] = _describe_items(item, NUMBERS_ONLY)
            phrases.append(f"on day {numbers}")
    return join_words(phrases, "and")


def _describe_items(text: str, names: _Names) -> list[str]:
    """The comma-separated items of a field, in English."""
    phrases = []
    for item in text.split(","):
        span, slash, step = item.partition("/")
        first, dash, last = span.partition("-")
        phrase = _describe_value(first, names)
        if dash:
            phrase += f" to {_describe_value(last, names)}"
        if slash:
            phrase = f"every {step} from {phrase}" if first != "*" else f"every {step}"
        phrases.append(phrase)
    return phrases


def _describe_value(text: str, names: _Names) -> str:
    weekday, sharp, occurrence = text.partition("#")
    if sharp:
        index = int(occurrence)
        ordinal = ORDINALS[index] if index < len(ORDINALS) else f"{occurrence}th"
        return f"the {ordinal} {_describe_value(weekday, names)} of the month"
    if names.full and text.endswith("L"):
        return f"the last {_describe_value(text[:-1], names)} of the month"
    if text in names.short:
        return names.full[names.short.index(text)]
    if names.full and text.isdigit():
        return names.full[(int(text) - names.first_number) % len(names.full)]
    return text


def _sorted_numbers(text: str) -> list[int]:
    return sorted({int(number) for number in text.split(",")})
