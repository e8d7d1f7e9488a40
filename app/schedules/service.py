"""Editing schedules; what their instants start is in `firing`."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from sqlalchemy import delete
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.agents.queries import get_agent
from app.benchmarks.queries import get_benchmark
from app.core.errors import Conflict, ErrorItem, Invalid, NotFound
from app.core.ids import new_id
from app.core.resources import Resources
from app.core.schemas import fields
from app.runs.service import require_runnable
from app.schedules import queries, rules
from app.schedules.cron import DstPolicy
from app.schedules.models import ScheduleConfig, ScheduleFire
from app.schedules.queries import Timetable
from app.schedules.rules import (
    Timing,
)
from app.schedules.schemas import ScheduleCreate
from app.traces.registry import TRACE_SOURCES, SourceRun, TraceQuery

RunLister: TypeAlias = Callable[[Resources, TraceQuery], Sequence[SourceRun]]

WHEN = frozenset({"cron_expression", "timezone", "dst_policy", "enabled"})
WHAT = frozenset({"benchmark_id", "agent_id", "run_name_pattern"})


def create_schedule(session: Session, body: ScheduleCreate, now: datetime) -> ScheduleConfig:
    """Raises: `NotFound` and `Conflict` as starting the run would, `Invalid` with what is wrong."""
    schedule = ScheduleConfig(**{**fields(body), "id": body.id or new_id()})
    _require_runnable(session, schedule)
    first = rules.first_instant(timing_of(schedule), now)
    schedule.next_run_at = first if schedule.enabled else None
    session.add(schedule)
    try:
        _write(session)
    except IntegrityError:
        raise Conflict(
            f"the schedule id {schedule.id!r} is taken; choose another or PATCH that one"
        ) from None
    session.refresh(schedule)
    return schedule


def change_schedule(
    session: Session, schedule_id: str, values: Mapping[str, Any], now: datetime
) -> ScheduleConfig:
    """Write the given fields. Instants that were claimed keep what the schedule was.

    When it is due is computed anew from now where that may have changed; who enables a schedule
    forgives its failures.
    Raises: as `create_schedule`; `ScheduleNotFound`.
    """
    schedule = queries.get_schedule(session, schedule_id, for_update=True)
    changed = {name for name, value in values.items() if getattr(schedule, name) != value}
    for name in changed:
        setattr(schedule, name, values[name])
    if changed & WHAT:
        _require_runnable(session, schedule)
    if changed & WHEN:
        first = rules.first_instant(timing_of(schedule), now)
        schedule.next_run_at = first if schedule.enabled else None
    if "enabled" in changed:
        schedule.consecutive_failures = 0
        schedule.disabled_at = schedule.disabled_reason = None
    if values:
        schedule.revision += 1
        schedule.updated_at = now
    _write(session)
    return schedule


def delete_schedule(session: Session, schedule_id: str) -> None:
    """Delete a schedule with its history of fires. Runs that it started stay and go on."""
    session.delete(queries.get_schedule(session, schedule_id, for_update=True))
    session.execute(delete(ScheduleFire).where(ScheduleFire.schedule_id == schedule_id))
    session.flush()


def recompute(session: Session, now: datetime, after_id: str, limit: int) -> str | None:
    """Compute anew when some schedules are due: the zone data may have changed, or the clock been
    set back. What is due already is left alone, and an instant that has fired does not fire again.

    Returns: the id to go on after; None when these were the last.
    """
    schedules = queries.claim_waiting(session, now, after_id, limit)
    for schedule in schedules:
        try:
            schedule.next_run_at = timing_of(schedule).next(now)
        except Invalid as error:
            disable(schedule, why_unusable(error), now)
    session.flush()
    return schedules[-1].id if len(schedules) == limit else None


def disable(schedule: ScheduleConfig, reason: str, now: datetime) -> None:
    """Switch a schedule off and say why; it stays so until somebody enables it."""
    schedule.enabled, schedule.next_run_at = False, None
    schedule.disabled_at, schedule.disabled_reason = now, reason
    schedule.revision += 1
    schedule.updated_at = now


def _write(session: Session) -> None:
    """Raises: `NotFound` when what a schedule names has just been deleted."""
    try:
        session.flush()
    except IntegrityError as error:
        if getattr(error.orig, "sqlstate", None) == "23503":  # foreign key
            raise NotFound(
                "the benchmark or the agent was deleted at this moment; choose another"
            ) from None
        raise


def timing_of(schedule: ScheduleConfig | Timetable) -> Timing:
    return Timing(
        cron_expression=schedule.cron_expression,
        timezone=schedule.timezone,
        dst_policy=DstPolicy(schedule.dst_policy),
    )


def why_unusable(error: Invalid) -> str:
    return f"when it is due can no longer be computed: {error}"


def _require_runnable(session: Session, schedule: ScheduleConfig) -> None:
    benchmark = get_benchmark(session, schedule.benchmark_id)
    require_runnable(session, benchmark, get_agent(session, schedule.agent_id))
    if schedule.run_name_pattern:
        lister_of(benchmark.source)


def lister_of(source: str) -> RunLister:
    """What lists the runs of a source; raises `Invalid` where nothing does."""
    list_runs = TRACE_SOURCES.get(source).list_runs
    if list_runs is None:
        raise Invalid(
            f"the source {source!r} of the benchmark cannot list its runs; leave runNamePattern out",
            errors=[ErrorItem(pointer="/runNamePattern", detail="needs a source with runs")],
        )
    return list_runs
