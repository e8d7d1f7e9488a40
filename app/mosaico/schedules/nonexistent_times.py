"""Records the due times that do not exist, because the clocks go forward over them.

Such a time is no instant, so the scheduler never sees it. Without a record, the day of the change would look like one on
which nothing was due.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import CursorResult, text
from sqlalchemy.orm import Session

from mosaico.core.text import join_words
from mosaico.schedules.cron import CronExpression, DstPolicy
from mosaico.schedules.cron_parser import InvalidCron
from mosaico.schedules.rules import FireSkipReason, FireStatus
from mosaico.schedules.time_zones import (
    SECOND,
    OffsetChange,
    UnknownTimeZone,
    get_time_zone,
    iter_offset_changes,
)

TICK_S = 60.0
# A longer time without any worker leaves the days in it without the record.
LOOKBACK = timedelta(days=3)
BATCH_SIZE = 500
MAX_NAMED = 3
# Instants are whole seconds: the row of a time that does not exist never takes the place of an instant.
_OFFSET = timedelta(microseconds=1)

_ZONES = text("SELECT DISTINCT timezone FROM schedule_configs WHERE next_run_at IS NOT NULL")
_EXPRESSIONS = text(
    """
    SELECT DISTINCT cron_expression, dst_policy FROM schedule_configs
    WHERE next_run_at IS NOT NULL AND timezone = :timezone
    """
)
# Not of a schedule that was changed since: what it was at that time is not known.
_RECORD = text(
    """
    INSERT INTO schedule_fires (schedule_id, due_at, fired_at, triggered_by, status, reason, detail)
    SELECT id, :due_at, :now, 'SCHEDULED', :status, :reason, :detail FROM schedule_configs
    WHERE next_run_at IS NOT NULL AND timezone = :timezone AND cron_expression = :cron_expression
      AND dst_policy = :dst_policy AND updated_at <= :due_at
      AND NOT EXISTS (SELECT FROM schedule_fires AS fire
                      WHERE fire.schedule_id = schedule_configs.id AND fire.due_at = :due_at)
    ORDER BY id LIMIT :batch_size ON CONFLICT (schedule_id, due_at) DO NOTHING
    """
)


class NonexistentTime(NamedTuple):
    """The times of an expression that a clock change skips: the instant of the change, and the words."""

    at: datetime
    detail: str


def record_nonexistent_times(session: Session, now: datetime) -> int:
    """Record the due times of the last days that do not exist, once for each schedule and clock change.

    Returns: how many were recorded; if `BATCH_SIZE` or more, call again in a new transaction.
    """
    recorded = 0
    for timezone in session.scalars(_ZONES).all():
        for change in _recent_gaps(timezone, now):
            for skipped in _list_skipped(session, timezone, change):
                if recorded >= BATCH_SIZE:
                    return recorded
                recorded += _record(session, skipped, now)
    return recorded


def find_nonexistent_time(
    expression: CronExpression, zone: ZoneInfo, policy: DstPolicy, change: OffsetChange
) -> NonexistentTime | None:
    """What a clock change takes from a schedule; None if nothing, or if the schedule fires at other times of the day.

    With the policy ONCE, fixed times fire at the end of the gap.
    """
    old, new = change.at + change.before, change.at + change.after
    walls = _walls_between(expression, old, new)
    if not walls or (policy is DstPolicy.ONCE and expression.has_fixed_times):
        return None
    if not expression.has_fixed_times and _fires_on_day(expression, zone, change):
        return None
    times = [f"{wall:%H:%M:%S}".removesuffix(":00") for wall in walls[:MAX_NAMED]]
    if len(walls) > MAX_NAMED:
        times.append("later times")
    verb = "does" if len(walls) == 1 else "do"
    return NonexistentTime(
        at=change.at.replace(tzinfo=UTC),
        detail=f"did not run: {join_words(times, 'and')} {verb} not exist on {old.day} {old:%B %Y}, when the"
        f" clocks go forward from {old:%H:%M} to {new:%H:%M}",
    )


def _recent_gaps(timezone: str, now: datetime) -> Iterator[OffsetChange]:
    try:
        zone = get_time_zone(timezone)
    except UnknownTimeZone:
        # The scheduler disables the schedules of such a zone.
        return
    end = now.astimezone(UTC).replace(tzinfo=None)
    for change in iter_offset_changes(end - LOOKBACK, end, zone):
        if change.after > change.before:
            yield change


def _list_skipped(
    session: Session, timezone: str, change: OffsetChange
) -> Iterator[dict[str, str | datetime]]:
    """What a clock change takes from the schedules of a zone, by their expression, as parameters of `_RECORD`."""
    zone = get_time_zone(timezone)
    for row in session.execute(_EXPRESSIONS, {"timezone": timezone}).all():
        try:
            expression = CronExpression.parse(row.cron_expression)
        except InvalidCron:
            continue
        skipped = find_nonexistent_time(expression, zone, DstPolicy(row.dst_policy), change)
        if skipped is not None:
            yield {
                "timezone": timezone,
                "cron_expression": row.cron_expression,
                "dst_policy": row.dst_policy,
                "due_at": skipped.at + _OFFSET,
                "detail": skipped.detail,
            }


def _record(session: Session, skipped: dict[str, str | datetime], now: datetime) -> int:
    parameters = {
        **skipped,
        "now": now,
        "status": FireStatus.SKIPPED,
        "reason": FireSkipReason.NONEXISTENT_TIME,
        "batch_size": BATCH_SIZE,
    }
    result = session.execute(_RECORD, parameters)
    assert isinstance(result, CursorResult)
    return result.rowcount


def _walls_between(expression: CronExpression, start: datetime, end: datetime) -> list[datetime]:
    """The first wall times of an expression from `start` to before `end`."""
    walls: list[datetime] = []
    wall = expression.next_wall_time(start)
    while wall is not None and wall < end and len(walls) <= MAX_NAMED:
        walls.append(wall)
        wall = expression.next_wall_time(wall + SECOND)
    return walls


def _fires_on_day(expression: CronExpression, zone: ZoneInfo, change: OffsetChange) -> bool:
    """Return whether an expression fires at another time of the day of a change."""
    day = (change.at + change.before).replace(hour=0, minute=0, second=0)
    start = day.replace(tzinfo=zone).astimezone(UTC) - SECOND
    end = (day + timedelta(days=1)).replace(tzinfo=zone).astimezone(UTC)
    instant = expression.next(start, zone)
    return instant is not None and instant < end
