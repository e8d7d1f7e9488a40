"""Preview of a cron expression: its next instants, a description, and notes on clock changes."""

import re
from collections.abc import Iterator
from datetime import datetime

from mosaico.core.text import join_words
from mosaico.schedules import rules
from mosaico.schedules.clock_changes import clock_notes
from mosaico.schedules.cron import CronExpression
from mosaico.schedules.cron_advice import advise_schedules, schedules_of_long_step
from mosaico.schedules.cron_parser import (
    DAY_FIELD,
    FIELDS,
    HOUR_FIELD,
    MINUTE_FIELD,
    MONTH_FIELD,
    SECOND_FIELD,
    WEEKDAY_FIELD,
    CronField,
    numbers_of_item,
)
from mosaico.schedules.rules import ScheduleTiming
from mosaico.schedules.schemas import PreviewRequest, PreviewView
from mosaico.schedules.time_zones import get_time_zone

ORDINALS = ("", "first", "second", "third", "fourth", "fifth")
MAX_LISTED_TIMES = 6


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
        parts.append(join_words(_describe_items(weekday, WEEKDAY_FIELD), "and"))
    if day not in "*?":
        days = _describe_days(day)
        parts.append(f"{days}, if the weekday matches too" if weekday not in "*?" else days)
    if month != "*":
        parts.append(f"in {join_words(_describe_items(month, MONTH_FIELD), 'and')}")
    if len(parts) == 1 and parts[0].startswith("at "):
        parts.append("every day")
    return "; ".join([", ".join(parts), *notes_of_long_steps(expression)])


def notes_of_long_steps(expression: CronExpression) -> Iterator[str]:
    """Steps beyond the end of their field, which match its first number only, and what does what they say."""
    for text, field in zip(expression.text.split(" "), FIELDS, strict=True):
        for item in text.split(","):
            step = item.partition("/")[2]
            if not step or int(step) <= field.high - field.low:
                continue
            yield f"`{item}` matches one {field.name} only, because a step ends with its field"
    meaning = schedules_of_long_step(expression.text)
    if meaning is not None:
        interval, schedules = meaning
        yield f"for {interval}, {advise_schedules(schedules)}"


def _describe_times(expression: CronExpression) -> str:
    fields = (SECOND_FIELD, MINUTE_FIELD, HOUR_FIELD)
    second, minute, hour = map(_simplify, expression.text.split(" "), fields)
    if not re.search("[*/-]", f"{minute} {hour}") and second.isdigit():
        hours, minutes = _sorted_numbers(hour), _sorted_numbers(minute)
        if len(hours) * len(minutes) <= MAX_LISTED_TIMES:
            seconds = f":{int(second):02}" if int(second) else ""
            times = [f"{h:02}:{m:02}{seconds}" for h in hours for m in minutes]
            return f"at {join_words(times, 'and')}"
    return ", ".join(_describe_clock_fields(second, minute, hour))


def _simplify(text: str, field: CronField) -> str:
    """The text of a field in which a step that matches one number only is this number."""
    items = []
    for item in text.split(","):
        numbers = numbers_of_item(item, field) if "/" in item else []
        items.append(str(numbers[0]) if len(numbers) == 1 else item)
    return ",".join(items)


def _describe_clock_fields(second: str, minute: str, hour: str) -> Iterator[str]:
    """Second, minute and hour one by one; a second of 0, and `every` after `every`, are implied."""
    if not second.isdigit() or int(second):
        yield _describe_clock_field(second, SECOND_FIELD, "of the minute")
    if second == "*" and minute == "*" and hour == "*":
        return
    second_is_zero = second.isdigit() and not int(second)
    if minute != "*" or second_is_zero:
        minute_is_zero = minute.isdigit() and not int(minute)
        if not (minute_is_zero and second_is_zero and not hour.isdigit()):
            yield _describe_clock_field(minute, MINUTE_FIELD, "past the hour")
        elif hour == "*":
            yield "every hour, on the hour"
            return
    if hour != "*":
        yield _describe_clock_field(hour, HOUR_FIELD, "of the day")


def _describe_clock_field(text: str, field: CronField, container: str) -> str:
    unit = field.name
    if text == "*":
        return f"every {unit}"
    _, slash, step_text = text.partition("/")
    if slash and "," not in text:
        numbers, step = numbers_of_item(text, field), int(step_text)
        # Of any other step, the time from the last number to the next first one is shorter.
        if len(numbers) * step == field.high + 1:
            offset = f", from {unit} {numbers[0]}" if numbers[0] else ""
            return (f"every {step} {unit}s" if step > 1 else f"every {unit}") + offset
        if len(numbers) > MAX_LISTED_TIMES:
            return f"every {step} {unit}s, from {unit} {numbers[0]} to {numbers[-1]} {container}"
    plural = "" if text.isdigit() else "s"
    return f"at {unit}{plural} {join_words(_describe_items(text, field), 'and')} {container}"


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
            days = _describe_items(item, DAY_FIELD)
            phrases.append(f"on day{'s' * (len(days) > 1)} {join_words(days, 'and')}")
    return join_words(phrases, "and")


def _describe_items(text: str, field: CronField) -> list[str]:
    """The comma-separated items of a field, in English; the numbers of a step one by one."""
    phrases: list[str] = []
    for item in text.split(","):
        if "/" in item:
            names = [_describe_value(str(n), field) for n in numbers_of_item(item, field)]
            # Both 0 and 7 are Sunday.
            phrases += dict.fromkeys(names)
            continue
        first, dash, last = item.partition("-")
        phrase = _describe_value(first, field)
        phrases.append(f"{phrase} to {_describe_value(last, field)}" if dash else phrase)
    return phrases


def _describe_value(text: str, field: CronField) -> str:
    weekday, sharp, occurrence = text.partition("#")
    if sharp:
        index = int(occurrence)
        ordinal = ORDINALS[index] if index < len(ORDINALS) else f"{occurrence}th"
        return f"the {ordinal} {_describe_value(weekday, field)} of the month"
    if field is WEEKDAY_FIELD and text.endswith("L"):
        return f"the last {_describe_value(text[:-1], field)} of the month"
    if text in field.names:
        return field.full_names[field.names.index(text)]
    if field.names and text.isdigit():
        return field.full_names[(int(text) - field.low) % len(field.full_names)]
    return text


def _sorted_numbers(text: str) -> list[int]:
    return sorted({int(number) for number in text.split(",")})
