"""Reads of schedules and fires, and the row locks that claim them."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, func, select, text
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.orm import Session

from mosaico.benchmarks.queries import OwnerFilter
from mosaico.core.errors import NotFound
from mosaico.core.keyset import PageQuery, PageRows, select_page
from mosaico.core.list_filters import filter_enabled
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.rules import FINAL, IN_PROGRESS, TriggerType
from mosaico.schedules.models import UNSETTLED, ScheduleConfig, ScheduleFire
from mosaico.schedules.rules import FirePlan, FireStatus


class ScheduleNotFound(NotFound):
    """The schedule does not exist; GET /api/v1/schedule-configs lists all schedules."""


class Timetable(NamedTuple):
    """The columns that decide which instants of a due schedule fire."""

    cron_expression: str
    timezone: str
    dst_policy: str
    misfire_policy: str
    catchup_window_seconds: int
    next_run_at: datetime


class DueGroup(NamedTuple):
    """Due schedules with the same timetable: their instants are computed once."""

    timetable: Timetable
    schedule_ids: list[str]


class LockedFire(NamedTuple):
    """A fire and its schedule, which is locked."""

    fire: ScheduleFire
    schedule: ScheduleConfig


def database_now(session: Session) -> datetime:
    """The database clock, which decides what is due: one clock for all schedulers."""
    now: datetime = session.scalars(select(func.clock_timestamp())).one()
    return now


def get_schedule(session: Session, schedule_id: str, *, for_update: bool = False) -> ScheduleConfig:
    schedule = session.get(
        ScheduleConfig, schedule_id, with_for_update=for_update or None, populate_existing=True
    )
    return ScheduleNotFound.unless(
        schedule,
        f"the schedule {schedule_id!r} does not exist;"
        " GET /api/v1/schedule-configs lists all schedules",
    )


class ScheduleFilter(OwnerFilter):
    """Filter of schedules."""

    enabled: bool | None = None


def find_zone_name(session: Session, benchmark_id: str, agent_id: str) -> str | None:
    """The zone of the oldest schedule of an agent and a benchmark, of an enabled one if there is one."""
    statement = select(ScheduleConfig.timezone).where(
        ScheduleConfig.benchmark_id == benchmark_id, ScheduleConfig.agent_id == agent_id
    )
    order = (ScheduleConfig.enabled.desc(), ScheduleConfig.created_at, ScheduleConfig.id)
    return session.scalar(statement.order_by(*order).limit(1))


def list_schedules(
    session: Session, query: PageQuery, schedule_filter: ScheduleFilter
) -> PageRows[ScheduleConfig]:
    """Schedules, newest first."""
    statement, conditions = filter_enabled(
        select(ScheduleConfig), ScheduleConfig.enabled, enabled=schedule_filter.enabled
    )
    return select_page(
        session,
        statement,
        keys=[ScheduleConfig.created_at, ScheduleConfig.id],
        query=query,
        filters=[
            (ScheduleConfig.agent_id, schedule_filter.agent_ids),
            (ScheduleConfig.benchmark_id, schedule_filter.benchmark_ids),
        ],
        conditions=conditions,
    )


def list_fires(session: Session, schedule_id: str, query: PageQuery) -> PageRows[ScheduleFire]:
    """The fires of a schedule, newest first."""
    statement = select(ScheduleFire).where(ScheduleFire.schedule_id == schedule_id)
    return select_page(session, statement, keys=[ScheduleFire.due_at], query=query)


def claim_due(session: Session, now: datetime, limit: int) -> list[DueGroup]:
    """Lock up to `limit` due schedules, the longest overdue first.

    Locks:   the schedules, until the transaction ends; rows locked by others are skipped.
    """
    claimed = (
        select(ScheduleConfig.id, *(getattr(ScheduleConfig, name) for name in Timetable._fields))
        .where(ScheduleConfig.next_run_at <= now)
        .order_by(ScheduleConfig.next_run_at)
        .limit(limit)
        # Two schedulers share the due schedules instead of waiting for each other's transaction.
        .with_for_update(skip_locked=True)
        .cte()
        .c
    )
    timetable = [claimed[name] for name in Timetable._fields]
    # Sorted, so that every transaction updates in the same order.
    ids = func.array_agg(aggregate_order_by(claimed.id, claimed.id))
    statement = select(*timetable, ids).group_by(*timetable).order_by(claimed.next_run_at, ids)
    return [DueGroup(Timetable(*columns), ids) for *columns, ids in session.execute(statement)]


def lock_not_due(
    session: Session, now: datetime, after_id: str, limit: int
) -> Sequence[ScheduleConfig]:
    """Lock the next schedules by id that are due later, and wait for those that others have locked."""
    statement = (
        select(ScheduleConfig)
        .where(ScheduleConfig.next_run_at > now, ScheduleConfig.id > after_id)
        .order_by(ScheduleConfig.id)
        .limit(limit)
        # Not skipped: the start of its run, and a report about it, lock a schedule and leave its next instant,
        # which after a jump of the clock may be months ahead.
        .with_for_update()
    )
    return session.scalars(statement).all()


def seconds_until_due(session: Session) -> float | None:
    """Seconds until the next schedule is due, negative if overdue; None if none is enabled."""
    # In the database, so that a wrong clock of this machine does not shift the wait.
    wait = func.extract("epoch", func.min(ScheduleConfig.next_run_at) - func.clock_timestamp())
    wait_s = session.scalar(select(wait).where(ScheduleConfig.next_run_at.is_not(None)))
    return None if wait_s is None else float(wait_s)


def list_plans(session: Session, seqs: Sequence[int]) -> dict[int, FirePlan]:
    """The plans of the pending ones among some fires, by their `seq`."""
    statement = select(ScheduleFire.seq, ScheduleFire.plan).where(
        ScheduleFire.seq.in_(seqs), ScheduleFire.status == FireStatus.PENDING
    )
    return {seq: plan for seq, plan in session.execute(statement) if plan is not None}


def lock_pending_fire(session: Session, seq: int) -> LockedFire | None:
    """A fire with its schedule; None if it is no longer pending, or the schedule was deleted.

    Locks:   the schedule; every writer of a fire takes this lock first.
    """
    schedule = _lock_schedule(session, ScheduleFire.seq == seq)
    # Read after the lock: another worker may have changed the fire meanwhile, and this session may have
    # read it before.
    fire = session.get(ScheduleFire, seq, populate_existing=True) if schedule else None
    if schedule is None or fire is None or fire.status != FireStatus.PENDING:
        return None
    return LockedFire(fire, schedule)


def lock_schedule_of_run(session: Session, run_id: str) -> ScheduleConfig | None:
    """The schedule that started a run; None if it was deleted. Locks the schedule."""
    return _lock_schedule(session, ScheduleFire.run_id == run_id)


def _lock_schedule(session: Session, is_fire: ColumnElement[bool]) -> ScheduleConfig | None:
    schedule_id = select(ScheduleFire.schedule_id).where(is_fire).scalar_subquery()
    lock = select(ScheduleConfig).where(ScheduleConfig.id == schedule_id).with_for_update()
    return session.scalars(lock).one_or_none()


def list_active_runs(session: Session, schedule_id: str) -> list[str]:
    """The ids of the schedule's runs that have not ended, oldest first."""
    statement = (
        select(BenchmarkRun.id)
        .join(ScheduleFire, ScheduleFire.run_id == BenchmarkRun.id)
        # Not "none of the final ones": few runs of a schedule are in progress, and an index has them.
        .where(ScheduleFire.schedule_id == schedule_id, BenchmarkRun.status.in_(IN_PROGRESS))
        .order_by(BenchmarkRun.seq)
    )
    return list(session.scalars(statement))


def list_unsettled_ends(
    session: Session, schedule_id: str
) -> list[tuple[ScheduleFire, BenchmarkRun]]:
    """The fires of a locked schedule whose run has ended and is not counted, by the end of the run."""
    statement = (
        select(ScheduleFire, BenchmarkRun)
        .join(BenchmarkRun, BenchmarkRun.id == ScheduleFire.run_id)
        .where(
            ScheduleFire.schedule_id == schedule_id,
            ScheduleFire.triggered_by == TriggerType.SCHEDULED,
            text(UNSETTLED),
            BenchmarkRun.status.in_(FINAL),
        )
        .order_by(BenchmarkRun.completed_at, ScheduleFire.seq)
        # The session may hold these rows as they were before the lock.
        .execution_options(populate_existing=True)
    )
    return [(fire, run) for fire, run in session.execute(statement)]
