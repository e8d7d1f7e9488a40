"""Text of pages: instants and durations in the zone of the reader, texts of users made visible."""

import re
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

from markupsafe import Markup

from app.core.text import replace_unstorable, show_direction_controls

MISSING = "–"
ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+/-]{0,63}")
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


def show_text(value: Any) -> Any:
    """The value of an expression as a page shows it: a missing one as "–", a text of a user with
    characters that change the reading direction made visible.
    """
    if value is None:
        return MISSING
    if isinstance(value, str) and not isinstance(value, Markup):
        return show_direction_controls(replace_unstorable(value))
    return value


@cache
def find_zone(name: str) -> ZoneInfo | None:
    """The time zone of this name; None when there is none."""
    if not ZONE_NAME.fullmatch(name):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        return None


def format_instant(at: datetime, zone: ZoneInfo, now: datetime) -> str:
    """An instant as short as it is clear: "06:14", "21 Nov 06:14", "21 Nov 2025"."""
    local, today = at.astimezone(zone), now.astimezone(zone)
    if local.date() == today.date():
        return f"{local:%H:%M}"
    if local.year == today.year:
        return f"{local.day} {local:%b %H:%M}"
    return f"{local.day} {local:%b %Y}"


def format_exact(at: datetime, zone: ZoneInfo) -> str:
    """An instant with its day, seconds and zone: "Sat 21 Nov 2026, 06:14:05 CET"."""
    local = at.astimezone(zone)
    return f"{local:%a} {local.day} {local:%b %Y, %H:%M:%S %Z}"


def format_age(at: datetime, now: datetime) -> str | None:
    """The distance from now, "12 min ago" or "in 3 h"; None from a day on."""
    seconds = (now - at).total_seconds()
    if abs(seconds) >= DAY_S:
        return None
    distance = format_duration(timedelta(seconds=abs(seconds)))
    return f"{distance} ago" if seconds >= 0 else f"in {distance}"


def format_duration(duration: timedelta) -> str:
    """A duration in its largest unit: "0.4 s", "41 s", "12 min", "3 h", "2 d"."""
    seconds = duration.total_seconds()
    if seconds < 10:  # noqa: PLR2004 - a tenth still matters
        return f"{seconds:.1f} s"
    if seconds < MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < HOUR_S:
        return f"{seconds / MINUTE_S:.0f} min"
    if seconds < DAY_S:
        return f"{seconds / HOUR_S:.0f} h"
    return f"{seconds / DAY_S:.0f} d"


def time_element(at: datetime | None, zone: ZoneInfo, now: datetime) -> str | Markup:
    """An instant as `<time>`: its age within a day, otherwise its date; exact in the title."""
    if at is None:
        return MISSING
    age = format_age(at, now)
    kind = "age" if age else "date"
    text = age or format_instant(at, zone, now)
    # At one day of age a reader wants the date, so the script keeps the kind that the server chose.
    return Markup('<time datetime="{}" title="{}" data-kind="{}">{}</time>').format(
        at.astimezone(UTC).isoformat(timespec="seconds"), format_exact(at, zone), kind, text
    )
