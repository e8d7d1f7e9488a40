"""The daily summary as a message, once a day, to those who ask for it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.core.resources import Resources
from app.notifications.models import Notification
from app.notifications.queries import summary_endpoints
from app.notifications.service import publish
from app.notifications.types import Fact, Item, Message, Severity
from app.results.rules import RunStatus
from app.schedules.schemas import DailySummaryView
from app.schedules.summary import Day, day_of, summarize_day
from app.schedules.zones import find_zone

TICK_S = 60.0
TOPIC = "summary.daily"
ALERTS = "alert."
TESTS = "alert.test"
MOST_TITLES = 20


class Alerts(NamedTuple):
    """What was told of alerts on a day: how many messages, and the titles of the first of them."""

    total: int
    titles: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryTime:
    """When the summary of the day before is sent: at this time of every day in this zone."""

    at: time
    timezone: str

    @classmethod
    def of(cls, text: str) -> "SummaryTime":
        """The time in `06:00 Europe/Rome`."""
        at, _, timezone = text.partition(" ")
        return cls(at=time.fromisoformat(at), timezone=timezone)


def due_day(when: SummaryTime, now: datetime) -> date:
    """The newest day whose summary is due."""
    local = now.astimezone(find_zone(when.timezone))
    return local.date() - timedelta(days=1 if local.time() >= when.at else 2)


def send_summary(res: Resources, when: SummaryTime) -> None:
    """Send the summary that is due, unless it was sent or nobody asks for it."""
    now = res.clock()
    chosen = due_day(when, now)
    once = f"{TOPIC} {chosen.isoformat()}"
    with res.db.read() as session:
        told = session.scalar(select(Notification.id).where(Notification.once_key == once))
        readers = summary_endpoints(session)
        if told is not None or not readers:
            return
        day = day_of(chosen, when.timezone, now)
        message = summary_message(summarize_day(session, day), _alerts(session, day))
    with res.db.begin() as session:
        publish(session, message, readers, once=once)


def summary_message(view: DailySummaryView, alerts: Alerts) -> Message:
    """What a summary says, with the alerts of its day."""
    total = sum(view.runs.values())
    trouble = view.failed_runs or view.disabled_schedules or view.idle_schedules or alerts.total
    return Message(
        topic=TOPIC,
        title=f"{view.day}: {_count(total, 'run')}, {view.runs.get(RunStatus.FAILED, 0)} failed, "
        f"{_count(alerts.total, 'alert')}, "
        f"{_count(len(view.idle_schedules), 'schedule')} without a run",
        severity=Severity.WARNING if trouble else Severity.INFO,
        sentences=(*alerts.titles, *_more(alerts)),
        facts=(
            *(Fact(status, str(count)) for status, count in sorted(view.runs.items())),
            Fact("invalid", str(view.invalid_runs)),
        ),
        items=tuple(_items(view)),
        link=f"/api/v1/daily-summary?date={view.day}&timezone={view.timezone}",
    )


def _items(view: DailySummaryView) -> Iterator[Item]:
    for run in view.failed_runs:
        yield Item(
            title=f"run of {run.benchmark_id} for {run.agent_id} failed",
            sentences=(run.error_message or run.error_code or "it says nothing of why",),
            link=f"/api/v1/benchmark-runs/{run.id}",
        )
    for schedule in view.disabled_schedules:
        yield Item(
            title=f"schedule {schedule.name} was disabled",
            sentences=(schedule.disabled_reason or "by hand",),
            link=f"/api/v1/schedule-configs/{schedule.id}",
        )
    for idle in view.idle_schedules:
        reasons = ", ".join(f"{reason} × {count}" for reason, count in idle.reasons.items())
        yield Item(
            title=f"schedule {idle.name} started nothing",
            sentences=(reasons,),
            link=f"/api/v1/schedule-configs/{idle.id}",
        )


def _more(alerts: Alerts) -> Iterator[str]:
    left_out = alerts.total - len(alerts.titles)
    if left_out:
        yield f"and {_count(left_out, 'alert')} more"


def _alerts(session: Session, day: Day) -> Alerts:
    """The alerts of a day, oldest first."""
    told = (
        Notification.listed,
        Notification.topic.startswith(ALERTS),
        Notification.topic != TESTS,
        Notification.created_at >= day.since,
        Notification.created_at < day.until,
    )
    in_order = (Notification.created_at, Notification.id)
    titles = select(Notification.title).where(*told).order_by(*in_order)
    total = session.scalar(select(func.count()).select_from(Notification).where(*told)) or 0
    return Alerts(total, list(session.scalars(titles.limit(MOST_TITLES))))


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
