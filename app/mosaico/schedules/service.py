"""Create, change and delete schedules; `firing` starts their runs."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeAlias

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from mosaico.agents.queries import get_agent
from mosaico.benchmarks.queries import get_benchmark
from mosaico.benchmarks.service import source_of
from mosaico.core.dependents import DEPENDENTS, MAX_FOUND, DeletedResource, Dependent, DependentKind
from mosaico.core.errors import Conflict, ErrorItem, Invalid, NotFound
from mosaico.core.ids import new_id
from mosaico.core.resources import Resources
from mosaico.core.schemas import all_fields
from mosaico.jobs.declarations import DropFires
from mosaico.jobs.queue import enqueue
from mosaico.runs.service import require_runnable
from mosaico.schedules import queries, rules
from mosaico.schedules.cron import DstPolicy
from mosaico.schedules.models import ScheduleConfig, ScheduleFire
from mosaico.schedules.queries import Timetable
from mosaico.schedules.rules import ScheduleTiming
from mosaico.schedules.schemas import ScheduleBody, ScheduleCreate
from mosaico.traces.registry import TRACE_SOURCES, SourceRun, TraceQuery

FOREIGN_KEY_VIOLATION = "23503"

RunLister: TypeAlias = Callable[[Resources, TraceQuery], Sequence[SourceRun]]

TIMING_FIELDS = frozenset({"cron_expression", "timezone", "dst_policy", "enabled"})
TARGET_FIELDS = frozenset({"benchmark_id", "agent_id", "run_name_pattern"})


def create_schedule(session: Session, body: ScheduleCreate, now: datetime) -> ScheduleConfig:
    """Raises: `NotFound` and `Conflict` as `create_run` does, `Invalid` with all errors."""
    schedule = ScheduleConfig(**{**all_fields(body), "id": body.id or new_id()})
    _require_runnable(session, schedule)
    # Computed for a disabled schedule too: an expression that never fires is rejected at once, not
    # when somebody enables the schedule.
    first = rules.first_instant(timing_of(schedule), now)
    schedule.next_run_at = first if schedule.enabled else None
    session.add(schedule)
    try:
        _flush(session)
    except IntegrityError:
        raise Conflict(
            f"the schedule id {schedule.id!r} is taken; choose another id, or PATCH that schedule"
        ) from None
    # Loads the defaults of the database, which the response shows.
    session.refresh(schedule)
    return schedule


def change_schedule(
    session: Session, schedule_id: str, body: ScheduleBody, now: datetime
) -> ScheduleConfig:
    """Write the given fields; fires that are already claimed keep their plan.

    A change of the timing recomputes `next_run_at` from now. Enabling or disabling a schedule
    resets its failures.
    Raises: as `create_schedule`; `ScheduleNotFound`.
    """
    schedule = queries.get_schedule(session, schedule_id, for_update=True)
    values = body.given_fields()
    # An unchanged field does not count: a client that sends the whole schedule back must not move
    # `next_run_at` or reset the failures.
    changed = {name for name, value in values.items() if getattr(schedule, name) != value}
    for name in changed:
        setattr(schedule, name, values[name])
    if changed & TARGET_FIELDS:
        _require_runnable(session, schedule)
    if changed & TIMING_FIELDS:
        first = rules.first_instant(timing_of(schedule), now)
        schedule.next_run_at = first if schedule.enabled else None
    # Whoever enables a schedule has seen the failures; otherwise the next one would disable it
    # again.
    if "enabled" in changed:
        schedule.consecutive_failures = 0
        schedule.disabled_at = schedule.disabled_reason = None
    if values:
        schedule.revision += 1
        schedule.updated_at = now
    _flush(session)
    return schedule


def delete_schedule(session: Session, schedule_id: str) -> None:
    """Delete a schedule, and its fires by a job; runs that it started stay and continue."""
    session.delete(queries.get_schedule(session, schedule_id, for_update=True))
    # After the schedule is locked: a tick that waits for the lock finds no schedule and adds no
    # fire. A later schedule may get the same ID, and keeps its fires.
    last_fire = session.scalar(select(func.max(ScheduleFire.seq)))
    if last_fire is not None:
        enqueue(session, DropFires(schedule_id=schedule_id, last_fire=last_fire))
    session.flush()


def _find_schedules_of(session: Session, owner: DeletedResource) -> list[Dependent]:
    statement = select(ScheduleConfig.id, ScheduleConfig.name).where(_is_of(owner))
    rows = session.execute(
        statement.order_by(ScheduleConfig.name, ScheduleConfig.id).limit(MAX_FOUND)
    )
    return [Dependent("schedule", row.id, row.name) for row in rows]


def _delete_schedules_of(session: Session, owner: DeletedResource, now: datetime) -> None:  # noqa: ARG001 - as others
    for schedule_id in session.scalars(select(ScheduleConfig.id).where(_is_of(owner))).all():
        delete_schedule(session, schedule_id)


def _is_of(owner: DeletedResource) -> ColumnElement[bool]:
    if owner.kind == "agent":
        return ScheduleConfig.agent_id == owner.id
    return ScheduleConfig.benchmark_id == owner.id


DEPENDENTS.append(DependentKind({"agent", "benchmark"}, _find_schedules_of, _delete_schedules_of))


def recompute_next_runs(session: Session, now: datetime, after_id: str, limit: int) -> str | None:
    """Recompute `next_run_at` of some schedules: the zone data or the clock may have changed.

    Schedules that are due are left alone, and an instant that has fired does not fire again.
    Returns: the id after which to continue; None when no schedules are left.
    """
    schedules = queries.lock_not_due(session, now, after_id, limit)
    for schedule in schedules:
        try:
            # From now: an instant that the new zone data moves into the past is not fired
            # retroactively.
            schedule.next_run_at = timing_of(schedule).next(now)
        except Invalid as error:
            disable(schedule, timing_error_message(error), now)
    session.flush()
    return schedules[-1].id if len(schedules) == limit else None


def disable(schedule: ScheduleConfig, reason: str, now: datetime) -> None:
    """Disable a schedule until a person enables it; `reason` is shown to people."""
    schedule.enabled, schedule.next_run_at = False, None
    schedule.disabled_at, schedule.disabled_reason = now, reason
    schedule.revision += 1
    schedule.updated_at = now


def _flush(session: Session) -> None:
    """Raises: `NotFound` if the benchmark or agent was deleted by another transaction."""
    try:
        session.flush()
    except IntegrityError as error:
        # The checks before saw both rows; only the constraint sees a delete that commits in
        # between.
        if getattr(error.orig, "sqlstate", None) == FOREIGN_KEY_VIOLATION:
            raise NotFound(
                "the benchmark or the agent was deleted in the meantime; choose another one"
            ) from None
        raise


def timing_of(schedule: ScheduleConfig | Timetable) -> ScheduleTiming:
    return ScheduleTiming(
        cron_expression=schedule.cron_expression,
        timezone=schedule.timezone,
        dst_policy=DstPolicy(schedule.dst_policy),
    )


def timing_error_message(error: Invalid) -> str:
    return f"the next run can no longer be computed: {error}"


def _require_runnable(session: Session, schedule: ScheduleConfig) -> None:
    benchmark = get_benchmark(session, schedule.benchmark_id)
    agent = get_agent(session, schedule.agent_id)
    require_runnable(session, benchmark, agent)
    if schedule.run_name_pattern:
        get_run_lister(source_of(benchmark, agent))


def get_run_lister(source: str) -> RunLister:
    """The function that lists the runs of a source; raises `Invalid` if there is none."""
    list_runs = TRACE_SOURCES.get(source).list_runs
    if list_runs is None:
        raise Invalid(
            f"the source {source!r} of the benchmark cannot list runs; omit runNamePattern",
            errors=[
                ErrorItem(pointer="/runNamePattern", detail="requires a source that can list runs")
            ],
        )
    return list_runs
