"""The effects of clock changes on the times of a cron expression, as sentences."""

from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from mosaico.schedules.cron import CronExpression, DstPolicy
from mosaico.schedules.schemas import ClockNote
from mosaico.schedules.time_zones import OffsetChange, iter_offset_changes

# A year and more: every clock change of a zone is in it.
MAX_NOTE_SPAN: Final = timedelta(days=400)


def clock_notes(
    expression: CronExpression, zone: ZoneInfo, after: datetime, end: datetime, policy: DstPolicy
) -> list[ClockNote]:
    """The effects of the clock changes of at most 400 days on the times of an expression."""
    utc_start = after.astimezone(UTC).replace(tzinfo=None)
    # A rare expression may reach decades ahead, with two clock changes a year.
    utc_end = min(end.astimezone(UTC).replace(tzinfo=None), utc_start + MAX_NOTE_SPAN)
    fires_once = policy is DstPolicy.ONCE and expression.has_fixed_times
    notes = []
    for change in iter_offset_changes(utc_start, utc_end, zone):
        text = _describe_change(expression, change, fires_once=fires_once)
        if text:
            notes.append(ClockNote(at=change.at.replace(tzinfo=UTC).astimezone(zone), text=text))
    return notes


def _describe_change(
    expression: CronExpression, change: OffsetChange, *, fires_once: bool
) -> str | None:
    """The effect of a clock change; None if it affects no time of the expression."""
    # The wall clock just before and just after the change.
    old, new = change.at + change.before, change.at + change.after
    wall = expression.next_wall_time(min(old, new))
    # No time of the expression lies between the two: the change affects nothing.
    if wall is None or wall >= max(old, new):
        return None
    day, time = f"{wall:%Y-%m-%d}", f"{wall:%H:%M:%S}".removesuffix(":00")
    if new > old:
        effect = f"fires at {new:%H:%M} instead" if fires_once else "does not fire"
        return (
            f"{day}: the clocks go forward from {old:%H:%M} to {new:%H:%M};"
            f" {time} does not exist and the schedule {effect}"
        )
    effect = "fires the first time only" if fires_once else "fires twice"
    return (
        f"{day}: the clocks go back from {old:%H:%M} to {new:%H:%M};"
        f" {time} occurs twice and the schedule {effect}"
    )
