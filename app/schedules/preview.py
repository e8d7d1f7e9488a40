"""A look at a schedule before it exists."""

from datetime import datetime

from app.schedules import rules, words
from app.schedules.cron import CronExpression, DstPolicy
from app.schedules.rules import Timing
from app.schedules.schemas import ClockNote, PreviewRequest, PreviewView
from app.schedules.zones import find_zone


def preview(request: PreviewRequest, now: datetime) -> PreviewView:
    """The next instants of an expression, in its zone.

    Raises: `InvalidCron`, `UnknownZone`, `NeverFires`.
    """
    after = request.after or now
    timing = Timing(
        cron_expression=request.cron_expression,
        timezone=request.timezone,
        dst_policy=request.dst_policy,
    )
    rules.first_instant(timing, after)
    return look_ahead(timing, after, request.count)


def look_ahead(timing: Timing, after: datetime, count: int) -> PreviewView:
    """At most `count` instants, fewer near the end of the calendar, and the notes between them."""
    expression, zone = CronExpression.parse(timing.cron_expression), find_zone(timing.timezone)
    instants: list[datetime] = []
    found = timing.next(after)
    while found is not None and len(instants) < count:
        instants.append(found.astimezone(zone))
        found = timing.next(found)
    policy = DstPolicy(timing.dst_policy)
    until = found or (instants[-1] if instants else after)
    notes = words.clock_notes(expression, zone, after, until, policy)
    return PreviewView(
        cron_expression=expression.text,
        timezone=timing.timezone,
        description=words.describe(expression),
        next=instants,
        notes=[ClockNote(at=note.at, text=note.text) for note in notes],
    )
