"""The previous visit of a reader to Morning: a cookie with the start of this visit and the end of
the last one; pure.
"""

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

VISITS_COOKIE: Final = "mosaico_visits"
VISITS_AGE_S: Final = 90 * 86_400
# Whoever comes back sooner still reads: the period must not end with a click on "reload".
NEW_VISIT_AFTER: Final = timedelta(hours=1)


class Visits(NamedTuple):
    """`current` is when the page was opened last, in this visit; `last` when in the visit before, None in
    the first one.
    """

    current: datetime
    last: datetime | None

    def __str__(self) -> str:
        return ".".join(format_visit(at) for at in self if at is not None)


def read_visits(cookie: str, now: datetime) -> Visits:
    """The visits after the page is opened once more; a cookie that cannot be read has none."""
    now = now.astimezone(UTC).replace(microsecond=0)
    times = [at for text in cookie.split(".")[:2] if (at := _parse_visit(text)) and at <= now]
    if not times:
        return Visits(now, None)
    current, last = times[0], (times[1] if len(times) > 1 else None)
    return Visits(now, current if now - current >= NEW_VISIT_AFTER else last)


def format_visit(at: datetime) -> str:
    """A time to the second, without characters that addresses and cookies escape but the colon."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _parse_visit(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
