"""The daily summary: what ran, what failed, what was to run and did not."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.core.errors import ErrorItem, Invalid
from app.results.models import BenchmarkRun
from app.results.rules import RunStatus, Validity
from app.schedules.models import ScheduleConfig, ScheduleFire
from app.schedules.rules import FireStatus
from app.schedules.schemas import DailySummaryView, DisabledView, FailedRunView, IdleView
from app.schedules.zones import find_zone

MOST_LISTED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A calendar day of a zone, as the instants in it: `since` included, `until` not."""

    date: date
    timezone: str
    since: datetime
    until: datetime


def day_of(day: date | None, timezone: str, now: datetime) -> Day:
    """A day of a zone, the present one when none is named; raises `UnknownZone`."""
    zone = find_zone(timezone)
    chosen = day or now.astimezone(zone).date()
    try:
        starts = [datetime.combine(each, time(), zone) for each in (chosen, chosen + timedelta(1))]
        since, until = (start.astimezone(UTC) for start in starts)
    except OverflowError:
        raise Invalid(
            f"{chosen} is at the end of the calendar; ask for another day",
            errors=[ErrorItem(pointer="date", detail="is out of range")],
        ) from None
    return Day(date=chosen, timezone=timezone, since=since, until=until)


def summarize_day(session: Session, day: Day) -> DailySummaryView:
    """What happened on a day. Runs count on the day they were created; lists end at 200 items."""
    runs = BenchmarkRun.created_at.between(day.since, day.until - timedelta(microseconds=1))
    fires = ScheduleFire.due_at.between(day.since, day.until - timedelta(microseconds=1))
    statuses = select(BenchmarkRun.status, func.count()).where(runs).group_by(BenchmarkRun.status)
    outcomes = select(ScheduleFire.status, func.count()).where(fires).group_by(ScheduleFire.status)
    invalid = select(func.count()).where(runs, BenchmarkRun.validity == Validity.INVALID)
    failed = select(BenchmarkRun).where(runs, BenchmarkRun.status == RunStatus.FAILED)
    disabled = select(ScheduleConfig).where(
        ScheduleConfig.disabled_at >= day.since, ScheduleConfig.disabled_at < day.until
    )
    return DailySummaryView(
        day=day.date.isoformat(),
        timezone=day.timezone,
        since=day.since,
        until=day.until,
        runs=dict(session.execute(statuses).all()),
        invalid_runs=session.scalar(invalid) or 0,
        failed_runs=[
            FailedRunView.model_validate(run)
            for run in session.scalars(failed.order_by(BenchmarkRun.seq).limit(MOST_LISTED))
        ],
        fires=dict(session.execute(outcomes).all()),
        disabled_schedules=[
            DisabledView.model_validate(schedule)
            for schedule in session.scalars(disabled.order_by(ScheduleConfig.id).limit(MOST_LISTED))
        ],
        idle_schedules=_idle(session, day),
    )


def _idle(session: Session, day: Day) -> list[IdleView]:
    """The schedules that were due on the day and started nothing, with the reasons counted."""
    due = (ScheduleFire.due_at >= day.since, ScheduleFire.due_at < day.until)
    active = select(ScheduleFire.schedule_id).where(
        *due, ScheduleFire.status.in_([FireStatus.STARTED, FireStatus.PENDING])
    )
    statement = (
        select(ScheduleConfig.id, ScheduleConfig.name, ScheduleFire.reason, func.count())
        .join(ScheduleFire, ScheduleFire.schedule_id == ScheduleConfig.id)
        .where(*due, ScheduleConfig.id.not_in(active))
        .group_by(ScheduleConfig.id, ScheduleConfig.name, ScheduleFire.reason)
        .order_by(ScheduleConfig.id, ScheduleFire.reason)
        .limit(MOST_LISTED)
    )
    idle: dict[str, IdleView] = {}
    for schedule_id, name, reason, count in session.execute(statement):
        view = idle.setdefault(schedule_id, IdleView(id=schedule_id, name=name, reasons={}))
        view.reasons[reason or ""] = count
    return list(idle.values())
