"""Text of pages: instants and durations in the zone of the reader, texts of users made visible."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from markupsafe import Markup

from mosaico.core.clock import zone_names
from mosaico.core.text import format_duration, replace_unstorable, show_direction_controls

MISSING = "–"
# As `format_utc` writes them in messages and explanations.
_UTC_TIME: Final = re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?) UTC\b")
MAX_TITLE_CHARS = 80
MINUTE_S, DAY_S = 60, 86_400
# With `strftime` these names take half of the time of an instant, of which a list has a hundred.
DAY_NAMES = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
MONTH_NAMES = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def show_text(value: Any) -> Any:
    """The value of an expression as a page shows it: a missing one as "–", a text of a user with
    characters that change the reading direction made visible.
    """
    if value is None:
        return MISSING
    # A list has a thousand values, and few of them are more than ASCII.
    if type(value) is not str or (value.isascii() and "\0" not in value):
        return value
    return show_direction_controls(replace_unstorable(value))


def break_at_underscores(text: str) -> Markup:
    """A name such as EXACT_MATCH whose line may break after each underscore, and not inside a word."""
    return Markup("_<wbr>").join(show_text(text).split("_"))


def shrink_long_title(text: str) -> str | Markup:
    """A title of a page; a long one, such as a name of 200 characters, is written smaller, so that it does
    not fill the screen of a phone.
    """
    visible_text = show_text(text)
    if len(visible_text) <= MAX_TITLE_CHARS:
        return str(visible_text)
    return Markup('<span class="long">{}</span>').format(visible_text)


class TextPart(NamedTuple):
    """A piece of a text; a marked one is underlined."""

    text: str
    is_marked: bool


def mark_spans(text: str, spans: Iterable[tuple[int, int]]) -> list[TextPart]:
    """A text in pieces, those within the spans marked; an empty span marks the character before it."""
    marked = {
        index
        for start, end in spans
        for index in range(min(start, max(end - 1, 0)), max(end, start))
    }
    pieces = groupby(range(len(text)), key=marked.__contains__)
    return [TextPart("".join(text[i] for i in piece), is_marked) for is_marked, piece in pieces]


def find_zone(name: str) -> ZoneInfo | None:
    """The time zone of this name; None when there is none."""
    return ZoneInfo(name) if name in zone_names() else None


def format_day(at: datetime, zone: ZoneInfo) -> str:
    """The day of an instant without its year: "21 Nov"."""
    return _name_day(at.astimezone(zone))


def label_times(times: Sequence[datetime], zone: ZoneInfo) -> list[str]:
    """The labels of the points of a chart: their days, with the times of day if all are of one day."""
    days = [format_day(at, zone) for at in times]
    if len(days) < 2 or len(set(days)) > 1:  # noqa: PLR2004 - one point needs no distinction
        return days
    return [f"{day} {at.astimezone(zone):%H:%M}" for day, at in zip(days, times, strict=True)]


def format_instant(at: datetime, zone: ZoneInfo, now: datetime) -> str:
    """An instant as short as it is clear: "21 Nov 06:14", in another year "21 Nov 2025"."""
    local, today = at.astimezone(zone), now.astimezone(zone)
    if local.year == today.year:
        return f"{_name_day(local)} {local.hour:02}:{local.minute:02}"
    return f"{_name_day(local)} {local.year}"


def format_exact(at: datetime, zone: ZoneInfo) -> str:
    """An instant with its day, seconds and zone: "Sat 21 Nov 2026, 06:14:05 CET"."""
    local = at.astimezone(zone)
    time = f"{local.hour:02}:{local.minute:02}:{local.second:02} {local.tzname()}"
    return f"{DAY_NAMES[local.weekday()]} {_name_day(local)} {local.year}, {time}"


def _name_day(local: datetime) -> str:
    return f"{local.day} {MONTH_NAMES[local.month - 1]}"


def format_age(at: datetime, now: datetime) -> str | None:
    """The distance from now, "12 min ago", "just now" or "in 3 h"; None from a day on."""
    seconds = (now - at).total_seconds()
    if abs(seconds) >= DAY_S:
        return None
    if 0 <= seconds < MINUTE_S:
        return "just now"
    distance = format_duration(timedelta(seconds=abs(seconds)))
    return f"{distance} ago" if seconds >= 0 else f"in {distance}"


def time_element(at: datetime | None, zone: ZoneInfo, now: datetime) -> str | Markup:
    """An instant as `<time>`: its age within a day, otherwise its date; exact in the title."""
    if at is None:
        return MISSING
    age = format_age(at, now)
    return _element(at, zone, age, "age") if age else date_element(at, zone, now)


def date_element(at: datetime, zone: ZoneInfo, now: datetime) -> Markup:
    """An instant as `<time>` with its date or time of day; exact in the title."""
    return _element(at, zone, format_instant(at, zone, now), "date")


def exact_element(at: datetime, zone: ZoneInfo) -> Markup:
    """An instant as `<time>` with its day, seconds and zone."""
    return _element(at, zone, format_exact(at, zone), "exact")


def sentence_element(sentence: str, zone: ZoneInfo, now: datetime) -> Markup:
    """A stored sentence, whose times are in UTC, with its times in the zone of the page; no line breaks before "%"."""
    parts = Markup()
    end = 0
    text = str(show_text(sentence)).replace(" %", "\N{NO-BREAK SPACE}%")
    for match in _UTC_TIME.finditer(text):
        try:
            at = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
        except ValueError:
            continue
        parts += text[end : match.start()]
        parts += date_element(at, zone, now)
        end = match.end()
    return parts + text[end:]


def _element(at: datetime, zone: ZoneInfo, text: str, kind: str) -> Markup:
    # At one day of age a reader wants the date, so the script keeps the kind that the server chose.
    # Not with `Markup.format`, which takes a fifth of the time of a list: nothing here needs an escape.
    instant = at.astimezone(UTC).isoformat(timespec="seconds")
    title = format_exact(at, zone)
    return Markup(f'<time datetime="{instant}" title="{title}" data-kind="{kind}">{text}</time>')  # noqa: S704
