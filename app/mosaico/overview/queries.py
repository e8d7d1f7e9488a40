"""Reads of the overview."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, func, select, text
from sqlalchemy.orm import Session

from mosaico.alerts.own_agents import ALL_AGENTS, MineChoice
from mosaico.benchmarks.owner_names import OwnerNames, read_names
from mosaico.core.row_counts import MAX_COUNTED, count_selected
from mosaico.notifications.queries import count_unread
from mosaico.overview import rules
from mosaico.overview.change_schemas import ChangeCounts
from mosaico.overview.change_views import view_changes
from mosaico.overview.changes import count_changes
from mosaico.overview.schemas import (
    ActiveRun,
    Activity,
    ExpectedRun,
    MissedSchedule,
    NextSchedule,
    Overview,
    StaleAgent,
)
from mosaico.overview.sources import OverviewSources, read_sources
from mosaico.run_store.expected_end import expect_ends
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.rules import IN_PROGRESS
from mosaico.schedules.models import SHOWN_MISS, ScheduleConfig, ScheduleFire
from mosaico.schedules.rules import FireSkipReason
from mosaico.schedules.stale_agents import list_stale_agents

MAX_ACTIVE = 20
MAX_MISSED = 20
# The periods of Morning, by their names. The longest one is read for all of them.
PERIODS: Final = (("24 h", 24), ("7 days", 24 * 7), ("30 days", 24 * 30))

_IS_IN_PROGRESS = BenchmarkRun.status.in_(IN_PROGRESS)


def read_overview(
    session: Session,
    since: datetime,
    now: datetime,
    sources: OverviewSources | None = None,
    choice: MineChoice = ALL_AGENTS,
) -> Overview:
    """What changed since a time, agents on benchmarks, what runs now, and the schedules; of the chosen agents, of which
    the sources are, too.
    """
    (cells, is_complete), history = sources or read_sources(session, since, now, choice)
    starts = {name: now - timedelta(hours=hours) for name, hours in PERIODS}
    counts = count_changes(history.changes, {**starts, "": since})
    active = list(session.scalars(_select_active(choice)))
    ends = expect_ends(session, active, now)
    names = read_names(session, [(run.benchmark_id, run.agent_id) for run in active])
    missed_since = max(since, now - timedelta(days=30))
    missed = _count_missed(session, missed_since, now, choice)
    return Overview(
        since=since,
        cells=cells,
        is_complete=is_complete,
        counts=rules.count_outcomes(cells),
        changes=view_changes(session, history.changes, history.names, since),
        change_count=counts.pop(""),
        has_all_changes=history.is_complete,
        periods=[
            ChangeCounts(name=name, since=start, changes=counts[name])
            for name, start in starts.items()
        ],
        detectable_drops=rules.list_detectable_drops(cells),
        active_runs=[
            ExpectedRun(**_active_run(run, names).model_dump(), expected_end_at=ends.get(run.id))
            for run in active
        ],
        active_count=_count_active(session, choice) if len(active) == MAX_ACTIVE else len(active),
        next_schedule=_next_schedule(session, choice),
        missed_fires=sum(missed.values()),
        missed_schedules=_missed_schedules(session, missed, missed_since, now),
        stale=_stale_agents(session, now, choice),
        hidden_agents=choice.hidden,
    )


def _stale_agents(session: Session, now: datetime, choice: MineChoice) -> list[StaleAgent]:
    rows = [row for row in list_stale_agents(session, now) if choice.has(row.agent_id)]
    names = read_names(session, [(row.benchmark_id, row.agent_id) for row in rows])
    return [
        StaleAgent(
            benchmark_id=row.benchmark_id,
            benchmark_name=names.benchmarks[row.benchmark_id],
            agent_id=row.agent_id,
            agent_name=names.agents[row.agent_id],
            since=row.since,
            run_id=row.run_id,
            explanation=row.explanation,
        )
        for row in rows
    ]


def read_activity(session: Session) -> Activity:
    """The runs in progress, and the number of open messages."""
    runs = list(session.scalars(_select_active(ALL_AGENTS)))
    names = read_names(session, [(run.benchmark_id, run.agent_id) for run in runs])
    return Activity(
        active_runs=[_active_run(run, names) for run in runs], unread=count_unread(session)
    )


def _select_active(choice: MineChoice) -> Any:
    active = select(BenchmarkRun).where(_IS_IN_PROGRESS, *_is_chosen(BenchmarkRun.agent_id, choice))
    return active.order_by(BenchmarkRun.seq).limit(MAX_ACTIVE)


def _count_active(session: Session, choice: MineChoice) -> int:
    active = select(BenchmarkRun.seq).where(
        _IS_IN_PROGRESS, *_is_chosen(BenchmarkRun.agent_id, choice)
    )
    return count_selected(session, active.limit(MAX_COUNTED))


def _is_chosen(agent_id: Any, choice: MineChoice) -> list[ColumnElement[bool]]:
    return [] if choice.ids is None else [agent_id.in_(choice.ids)]


def _active_run(run: BenchmarkRun, names: OwnerNames) -> ActiveRun:
    return ActiveRun(
        run_id=run.id,
        benchmark_name=names.benchmarks[run.benchmark_id],
        agent_name=names.agents[run.agent_id],
        status=run.status,
        traces_processed=run.traces_processed,
        traces_total=run.traces_total,
    )


def _next_schedule(session: Session, choice: MineChoice) -> NextSchedule | None:
    statement = (
        select(ScheduleConfig)
        .where(
            ScheduleConfig.next_run_at.is_not(None), *_is_chosen(ScheduleConfig.agent_id, choice)
        )
        .order_by(ScheduleConfig.next_run_at)
        .limit(1)
    )
    schedule = session.scalars(statement).one_or_none()
    if schedule is None or schedule.next_run_at is None:
        return None
    return NextSchedule(schedule_id=schedule.id, name=schedule.name, due_at=schedule.next_run_at)


def _count_missed(
    session: Session, since: datetime, now: datetime, choice: MineChoice
) -> dict[str, int]:
    """The number of the last due times that started no run, by schedule, the most first."""
    fires = (
        select(ScheduleFire.schedule_id)
        .where(
            ScheduleFire.due_at >= since,
            ScheduleFire.due_at < now,
            text(SHOWN_MISS),
            *_of_chosen_agents(choice),
        )
        .order_by(ScheduleFire.due_at.desc())
        .limit(MAX_COUNTED)
        .subquery()
    )
    count = func.count().label("missed")
    statement = (
        select(fires.c.schedule_id, count)
        .group_by(fires.c.schedule_id)
        .order_by(count.desc(), fires.c.schedule_id)
    )
    return {row.schedule_id: row.missed for row in session.execute(statement)}


def _of_chosen_agents(choice: MineChoice) -> list[ColumnElement[bool]]:
    own = select(ScheduleConfig.id).where(*_is_chosen(ScheduleConfig.agent_id, choice))
    return [] if choice.ids is None else [ScheduleFire.schedule_id.in_(own)]


def _missed_schedules(
    session: Session, missed: Mapping[str, int], since: datetime, now: datetime
) -> list[MissedSchedule]:
    ids = list(missed)[:MAX_MISSED]
    if not ids:
        return []
    names = select(ScheduleConfig.id, ScheduleConfig.name).where(ScheduleConfig.id.in_(ids))
    name_of = {row.id: row.name for row in session.execute(names)}
    details = (
        select(ScheduleFire.schedule_id, ScheduleFire.detail)
        .where(
            ScheduleFire.schedule_id.in_(ids),
            ScheduleFire.due_at >= since,
            ScheduleFire.due_at < now,
            ScheduleFire.reason == FireSkipReason.NONEXISTENT_TIME,
        )
        .order_by(ScheduleFire.due_at)
    )
    detail_of = {row.schedule_id: row.detail for row in session.execute(details)}
    return [
        MissedSchedule(
            schedule_id=id_, name=name_of[id_], missed=missed[id_], detail=detail_of.get(id_)
        )
        for id_ in ids
        if id_ in name_of
    ]
