"""The daily summary: the runs, failures, alerts and idle schedules of one day.

`summarize_day` answers GET /daily-summary; `send_summary` sends the summary of the previous day to
the inbox and to the endpoints that receive it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from mosaico.benchmarks.owner_names import read_names
from mosaico.core.errors import ErrorItem, Invalid
from mosaico.core.resources import Resources
from mosaico.core.schemas import view_of_row
from mosaico.core.text import count_noun
from mosaico.core.web.page_paths import run_page_path, schedule_page_path
from mosaico.notifications.models import Notification
from mosaico.notifications.queries import has_summary_endpoints, list_summary_endpoints
from mosaico.notifications.service import publish
from mosaico.notifications.types import (
    MessageFact,
    MessageItem,
    MessageSeverity,
    NotificationMessage,
)
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.rules import RunStatus, Validity
from mosaico.schedules.day_changes import changed_items, describe_changed, list_changed_runs
from mosaico.schedules.models import ScheduleConfig, ScheduleFire
from mosaico.schedules.rules import FireSkipReason, FireStatus
from mosaico.schedules.schemas import (
    DailySummaryView,
    DisabledScheduleView,
    FailedRunView,
    IdleScheduleView,
)
from mosaico.schedules.time_zones import get_time_zone

CHECK_INTERVAL_S = 60.0
MAX_LISTED = 200
MAX_ALERT_TITLES = 20

# A pending fire counts: its run may start in the next second.
_ACTIVE = (FireStatus.STARTED, FireStatus.PENDING)

TOPIC = "summary.daily"
ALERT_TOPIC_PREFIX = "alert."
TEST_ALERT_TOPIC = "alert.test"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryDay:
    """A calendar day of a zone, as a range of instants: `since` included, `until` excluded."""

    date: date
    timezone: str
    since: datetime
    until: datetime


class DayAlerts(NamedTuple):
    """The alerts of a day: their number, and the titles of the first ones."""

    total: int
    titles: list[str]


class DayRuns(NamedTuple):
    """The runs of a day: their number by status, and that of invalid ones."""

    by_status: dict[str, int]
    invalid: int


class DayFires(NamedTuple):
    """The fires of a day: their number by status, and the schedules that were due and started no run."""

    counts: dict[str, int]
    idle: list[IdleScheduleView]


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryTime:
    """The time of day, in a zone, at which the summary of the previous day is sent."""

    at: time
    timezone: str

    @classmethod
    def parse(cls, text: str) -> "SummaryTime":
        """Parse a text such as `06:00 Europe/Rome`."""
        at, _, timezone = text.partition(" ")
        return cls(at=time.fromisoformat(at), timezone=timezone)


def get_day(day: date | None, timezone: str, now: datetime) -> SummaryDay:
    """A day of a zone, by default the current one.

    Raises: `UnknownTimeZone`; `Invalid` at the end of the calendar.
    """
    zone = get_time_zone(timezone)
    local_date = day or now.astimezone(zone).date()
    try:
        since = datetime.combine(local_date, time(), zone).astimezone(UTC)
        # The start of the next calendar day, not 24 hours later: a day with a clock change has 23
        # or 25.
        until = datetime.combine(local_date + timedelta(days=1), time(), zone).astimezone(UTC)
    except OverflowError:
        raise Invalid(
            f"{local_date} is at the end of the calendar; choose another date",
            errors=[ErrorItem(pointer="date", detail="is out of range")],
        ) from None
    return SummaryDay(date=local_date, timezone=timezone, since=since, until=until)


def summarize_day(session: Session, day: SummaryDay) -> DailySummaryView:
    """The summary of a day. Runs count on the day of their creation; lists end at 200 items."""
    # BETWEEN includes both ends; PostgreSQL stores microseconds, so this excludes `until`.
    runs = BenchmarkRun.created_at.between(day.since, day.until - timedelta(microseconds=1))
    disabled = select(ScheduleConfig).where(
        ScheduleConfig.disabled_at >= day.since, ScheduleConfig.disabled_at < day.until
    )
    counts = _count_day_runs(session, runs)
    fires = _read_day_fires(session, day)
    return DailySummaryView(
        day=day.date.isoformat(),
        timezone=day.timezone,
        since=day.since,
        until=day.until,
        runs=counts.by_status,
        invalid_runs=counts.invalid,
        changed_runs=list_changed_runs(session, runs),
        failed_runs=_list_failed(session, runs) if RunStatus.FAILED in counts.by_status else [],
        fires=fires.counts,
        disabled_schedules=[
            DisabledScheduleView.model_validate(schedule)
            for schedule in session.scalars(disabled.order_by(ScheduleConfig.id).limit(MAX_LISTED))
        ],
        idle_schedules=fires.idle,
    )


def _list_failed(session: Session, runs: ColumnElement[bool]) -> list[FailedRunView]:
    failed = select(BenchmarkRun).where(runs, BenchmarkRun.status == RunStatus.FAILED)
    rows = list(session.scalars(failed.order_by(BenchmarkRun.seq).limit(MAX_LISTED)))
    names = read_names(session, [(run.benchmark_id, run.agent_id) for run in rows])
    return [
        view_of_row(
            FailedRunView,
            run,
            benchmark_name=names.benchmarks[run.benchmark_id],
            agent_name=names.agents[run.agent_id],
        )
        for run in rows
    ]


def find_latest_due_day(summary_time: SummaryTime, now: datetime) -> date:
    """The latest day whose summary is due."""
    local = now.astimezone(get_time_zone(summary_time.timezone))
    return local.date() - timedelta(days=1 if local.time() >= summary_time.at else 2)


def send_summary(res: Resources, summary_time: SummaryTime) -> None:
    """Send the summary that is due, unless it was sent or no endpoint receives it."""
    now = res.clock()
    due_day = find_latest_due_day(summary_time, now)
    # One key for each day: of several workers, one sends the summary.
    dedup_key = f"{TOPIC} {due_day.isoformat()}"
    with res.db.read() as session:
        is_sent = select(Notification.id).where(Notification.dedup_key == dedup_key)
        # Most calls end here. The unique key decides; this read only saves computing the summary.
        if session.scalar(is_sent) is not None or not has_summary_endpoints(session):
            return
        endpoint_ids = list_summary_endpoints(session)
        day = get_day(due_day, summary_time.timezone, now)
        message = build_summary_message(summarize_day(session, day), _read_day_alerts(session, day))
    with res.db.begin() as session:
        publish(session, message, endpoint_ids, dedup_key=dedup_key)


def build_summary_message(summary: DailySummaryView, alerts: DayAlerts) -> NotificationMessage:
    """The message of a summary, with the alerts of its day."""
    has_problems = (
        summary.changed_runs
        or summary.failed_runs
        or summary.disabled_schedules
        or summary.idle_schedules
        or alerts.total
    )
    failed_count = summary.runs.get(RunStatus.FAILED, 0)
    idle_count = len(summary.idle_schedules)
    changed = describe_changed(summary.changed_runs)
    return NotificationMessage(
        topic=TOPIC,
        title=f"Daily summary of {summary.day}: {f'{changed}; ' if changed else ''}{count_noun(sum(summary.runs.values()), 'run')},"
        f" {failed_count} failed, {count_noun(alerts.total, 'alert')},"
        f" {count_noun(idle_count, 'schedule')} without a run",
        severity=MessageSeverity.WARNING if has_problems else MessageSeverity.INFO,
        sentences=(*alerts.titles, *_more_alerts(alerts)),
        facts=(
            *(
                MessageFact(f"{status.lower()} runs", str(count))
                for status, count in sorted(summary.runs.items())
            ),
            MessageFact("invalid runs", str(summary.invalid_runs)),
        ),
        items=tuple(_summary_items(summary)),
        link="/",
    )


def _summary_items(summary: DailySummaryView) -> Iterator[MessageItem]:
    yield from changed_items(summary.changed_runs)
    for run in summary.failed_runs:
        yield MessageItem(
            title=f"Run failed: {run.agent_name} on {run.benchmark_name}",
            sentences=(run.error_message or run.error_code or "No error message was recorded.",),
            link=run_page_path(run.id),
        )
    for schedule in summary.disabled_schedules:
        yield MessageItem(
            title=f"Schedule disabled: {schedule.name}",
            sentences=(schedule.disabled_reason or "No reason was recorded.",),
            link=schedule_page_path(schedule.id),
        )
    for idle in summary.idle_schedules:
        reasons = ", ".join(
            f"{reason}: {count}"
            for reason, count in idle.reasons.items()
            if reason != FireSkipReason.NONEXISTENT_TIME
        )
        yield MessageItem(
            title=f"Schedule started no run: {idle.name}",
            sentences=(
                *(f"{detail[:1].upper()}{detail[1:]}." for detail in idle.details),
                *([f"Skipped or failed instants by reason: {reasons}"] if reasons else ()),
            ),
            link=schedule_page_path(idle.id),
        )


def _more_alerts(alerts: DayAlerts) -> Iterator[str]:
    omitted = alerts.total - len(alerts.titles)
    if omitted:
        yield f"and {count_noun(omitted, 'alert')} more"


def _read_day_alerts(session: Session, day: SummaryDay) -> DayAlerts:
    """The alerts of a day, oldest first."""
    conditions = (
        Notification.in_inbox,
        Notification.topic.startswith(ALERT_TOPIC_PREFIX),
        Notification.topic != TEST_ALERT_TOPIC,
        Notification.created_at >= day.since,
        Notification.created_at < day.until,
    )
    oldest_first = (Notification.created_at, Notification.id)
    titles = select(Notification.title).where(*conditions).order_by(*oldest_first)
    count = select(func.count()).select_from(Notification).where(*conditions)
    return DayAlerts(
        session.scalar(count) or 0, list(session.scalars(titles.limit(MAX_ALERT_TITLES)))
    )


def _count_day_runs(session: Session, runs: ColumnElement[bool]) -> DayRuns:
    is_invalid = BenchmarkRun.validity == Validity.INVALID
    # Every status is named, because the index begins with it.
    statement = select(BenchmarkRun.status, func.count(), func.count().filter(is_invalid)).where(
        BenchmarkRun.status.in_(RunStatus), runs
    )
    rows = session.execute(statement.group_by(BenchmarkRun.status)).all()
    return DayRuns(
        {status: run_count for status, run_count, _ in rows},
        sum(invalid_count for _, _, invalid_count in rows),
    )


def _read_day_fires(session: Session, day: SummaryDay) -> DayFires:
    of_day = (ScheduleFire.due_at >= day.since, ScheduleFire.due_at < day.until)
    counts = select(ScheduleFire.status, func.count()).where(
        ScheduleFire.status.in_(FireStatus), *of_day
    )
    active = select(ScheduleFire.seq).where(
        ScheduleFire.schedule_id == ScheduleConfig.id, ScheduleFire.status.in_(_ACTIVE), *of_day
    )
    columns = (ScheduleConfig.id, ScheduleConfig.name, ScheduleFire.reason)
    inactive = [status for status in FireStatus if status not in _ACTIVE]
    idle_counts = (
        select(*columns, func.count().label("number"))
        .join(ScheduleFire, ScheduleFire.schedule_id == ScheduleConfig.id)
        .where(ScheduleFire.status.in_(inactive), *of_day)
        .where(~active.correlate(ScheduleConfig).exists())
        .group_by(*columns)
        .order_by(ScheduleConfig.id, ScheduleFire.reason)
        .limit(MAX_LISTED)
    )
    idle: dict[str, IdleScheduleView] = {}
    for row in session.execute(idle_counts):
        view = IdleScheduleView(id=row.id, name=row.name, reasons={}, details=[])
        idle.setdefault(row.id, view).reasons[row.reason or ""] = row.number
    for schedule_id, detail in _read_nonexistent_times(session, day, idle):
        idle[schedule_id].details.append(detail)
    by_status = session.execute(counts.group_by(ScheduleFire.status)).all()
    return DayFires(dict(by_status), list(idle.values()))


def _read_nonexistent_times(
    session: Session, day: SummaryDay, idle: Mapping[str, IdleScheduleView]
) -> Iterable[tuple[str, str]]:
    """What did not exist on a day, by the schedules that started no run for it."""
    schedule_ids = [
        schedule_id
        for schedule_id, view in idle.items()
        if FireSkipReason.NONEXISTENT_TIME in view.reasons
    ]
    if not schedule_ids:
        return []
    statement = select(ScheduleFire.schedule_id, ScheduleFire.detail).where(
        ScheduleFire.schedule_id.in_(schedule_ids),
        ScheduleFire.due_at >= day.since,
        ScheduleFire.due_at < day.until,
        ScheduleFire.reason == FireSkipReason.NONEXISTENT_TIME,
    )
    rows = session.execute(statement.order_by(ScheduleFire.schedule_id, ScheduleFire.due_at))
    return [(row.schedule_id, row.detail or "") for row in rows]
