"""A schedule as JSON."""

from datetime import date, datetime
from functools import lru_cache

from mosaico.core.errors import Invalid
from mosaico.core.schemas import view_of_row
from mosaico.schedules.clock_changes import MAX_NOTE_SPAN, clock_notes
from mosaico.schedules.cron import CronExpression, DstPolicy
from mosaico.schedules.models import ScheduleConfig
from mosaico.schedules.schemas import ClockNote, ScheduleView
from mosaico.schedules.time_zones import get_time_zone


def schedule_view(schedule: ScheduleConfig, now: datetime) -> ScheduleView:
    """A schedule with the clock changes that skip or repeat one of its times."""
    notes = _notes(
        schedule.cron_expression, schedule.timezone, DstPolicy(schedule.dst_policy), now.date()
    )
    # A change that is over since the start of the day is not ahead.
    ahead = [note for note in notes if note.at > now]
    return view_of_row(ScheduleView, schedule, clock_changes=ahead)


# Many schedules of a list have the same times, and the search takes a millisecond.
@lru_cache(maxsize=1024)
def _notes(
    cron_expression: str, timezone: str, policy: DstPolicy, day: date
) -> tuple[ClockNote, ...]:
    try:
        expression, zone = CronExpression.parse(cron_expression), get_time_zone(timezone)
    except Invalid:
        # Of an old schedule, whose disabled reason says so.
        return ()
    start = datetime(day.year, day.month, day.day, tzinfo=get_time_zone("UTC"))
    return tuple(clock_notes(expression, zone, start, start + MAX_NOTE_SPAN, policy))
