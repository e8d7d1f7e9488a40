"""Reads of the overview."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from app.alerts.queries import list_open_events
from app.benchmarks.queries import get_kpis_by_benchmark
from app.core.schemas import view_of_row
from app.kpis.models import KpiHistory
from app.notifications.queries import count_unread
from app.overview import rules
from app.overview.schemas import (
    ActiveRun,
    Activity,
    ExpectedRun,
    HeadlineKpi,
    MissedSchedule,
    NextSchedule,
    OpenAlert,
    Overview,
    OverviewCell,
)
from app.results.expected_end import expect_ends
from app.results.models import BenchmarkRun
from app.results.rules import MAX_RETRIES, RETRYABLE, RunStatus, Validity
from app.results.run_names import Names, read_names
from app.schedules.models import ScheduleConfig, ScheduleFire
from app.schedules.rules import MISSED_REASONS

HISTORY_RUNS = 14
MAX_ACTIVE = 20
MAX_MISSED = 20

_UNFINISHED = BenchmarkRun.status.in_([RunStatus.PENDING, RunStatus.RUNNING])

# The last ended run of each agent on each benchmark; repetitions and rescored runs repeat another one.
# From pair to pair of the index (benchmark_id, agent_id, seq): a GROUP BY reads every run of the history.
LAST_RUNS = text(
    """
    WITH RECURSIVE pair AS (
        (SELECT benchmark_id, agent_id FROM benchmark_runs ORDER BY benchmark_id, agent_id LIMIT 1)
        UNION ALL
        SELECT following.benchmark_id, following.agent_id FROM pair CROSS JOIN LATERAL (
            SELECT run.benchmark_id, run.agent_id FROM benchmark_runs AS run
            WHERE (run.benchmark_id, run.agent_id) > (pair.benchmark_id, pair.agent_id)
            ORDER BY run.benchmark_id, run.agent_id LIMIT 1
        ) AS following
    )
    SELECT last.seq FROM pair
    JOIN benchmarks AS benchmark ON benchmark.id = pair.benchmark_id AND NOT benchmark.archived
    JOIN agents AS agent ON agent.id = pair.agent_id AND NOT agent.archived
    CROSS JOIN LATERAL (
        SELECT run.seq FROM benchmark_runs AS run
        WHERE run.benchmark_id = pair.benchmark_id AND run.agent_id = pair.agent_id
          AND run.status IN ('COMPLETED', 'FAILED') AND run.confirms IS NULL AND run.rescore_of IS NULL
        ORDER BY run.seq DESC LIMIT 1
    ) AS last
    """
)
# The last values of one KPI of an agent, newest first, for each of the given pairs.
RECENT_VALUES = text(
    """
    SELECT pair.run_seq, recent.value
    FROM unnest(CAST(:seqs AS bigint[]), CAST(:kpis AS text[])) AS pair (run_seq, kpi_id)
    JOIN benchmark_runs AS run ON run.seq = pair.run_seq
    CROSS JOIN LATERAL (
        SELECT value, id FROM kpi_history
        WHERE kpi_history.benchmark_id = run.benchmark_id AND kpi_history.agent_id = run.agent_id
          AND kpi_history.kpi_id = pair.kpi_id AND kpi_history.value IS NOT NULL
          AND kpi_history.validity = :valid AND kpi_history.run_seq <= pair.run_seq
        ORDER BY id DESC LIMIT :limit
    ) AS recent
    ORDER BY recent.id
    """
)


def read_overview(session: Session, since: datetime, now: datetime) -> Overview:
    """Every agent on every benchmark, what runs now, and the schedules since a time."""
    seqs = list(session.scalars(LAST_RUNS))
    runs = list(session.scalars(select(BenchmarkRun).where(BenchmarkRun.seq.in_(seqs))))
    active = list(session.scalars(_select_active()))
    ends = expect_ends(session, active, now)
    names = read_names(session, [(run.benchmark_id, run.agent_id) for run in (*runs, *active)])
    kpis = _read_headline_kpis(session, runs)
    alerts: dict[str, list[OpenAlert]] = defaultdict(list)
    for event in list_open_events(session, [run.id for run in runs]):
        alert = OpenAlert(alert_id=event.id, notification_id=event.notification_id)
        alerts[str(event.run_id)].append(alert)
    missed = _count_missed(session, max(since, now - timedelta(days=30)), now)
    cells = rules.sort_cells(
        [_cell(run, names, kpis.get(run.seq), alerts[run.id], since) for run in runs]
    )
    return Overview(
        since=since,
        cells=cells,
        counts=rules.count_outcomes(cells),
        detectable_drops=rules.list_detectable_drops(cells),
        active_runs=[
            ExpectedRun(**_active_run(run, names).model_dump(), expected_end_at=ends.get(run.id))
            for run in active
        ],
        active_count=_count_active(session) if len(active) == MAX_ACTIVE else len(active),
        next_schedule=_next_schedule(session),
        missed_fires=sum(missed.values()),
        missed_schedules=_missed_schedules(session, missed),
    )


def read_activity(session: Session) -> Activity:
    """The runs in progress, and the number of open messages."""
    runs = list(session.scalars(_select_active()))
    names = read_names(session, [(run.benchmark_id, run.agent_id) for run in runs])
    return Activity(
        active_runs=[_active_run(run, names) for run in runs], unread=count_unread(session)
    )


def _cell(
    run: BenchmarkRun,
    names: Names,
    kpi: HeadlineKpi | None,
    alerts: list[OpenAlert],
    since: datetime,
) -> OverviewCell:
    assert run.completed_at is not None, "the run has ended"
    verdict = rules.decide_verdict(run.validity, run.verdict.verdict if run.verdict else None)
    return OverviewCell(
        benchmark_id=run.benchmark_id,
        benchmark_name=names.benchmarks[run.benchmark_id],
        agent_id=run.agent_id,
        agent_name=names.agents[run.agent_id],
        run_id=run.id,
        status=run.status,
        is_recent=run.completed_at >= since,
        can_retry=run.status in RETRYABLE and run.retry_count < MAX_RETRIES,
        completed_at=run.completed_at,
        verdict=verdict,
        explanation=_explain(run),
        kpi=kpi,
        open_alerts=alerts,
    )


def _explain(run: BenchmarkRun) -> str:
    """Return the reason why a run has its verdict: the error, the reasons of an invalid run, or the
    comparison.
    """
    if run.status == RunStatus.FAILED:
        return run.error_message or run.error_code or "No error message was recorded."
    if run.validity == Validity.INVALID:
        return "; ".join(run.validity_reasons or ["too few traces were measured"])
    return run.verdict.explanation if run.verdict else "The run was not compared."


def _read_headline_kpis(session: Session, runs: Sequence[BenchmarkRun]) -> dict[int, HeadlineKpi]:
    """The headline KPI of each run, by its sequence number."""
    definitions = get_kpis_by_benchmark(session, {run.benchmark_id for run in runs})
    headline = {
        benchmark_id: min(kpis, key=lambda kpi: (not kpi.gate, kpi.name.lower())).id
        for benchmark_id, kpis in definitions.items()
    }
    kpi_of = {run.seq: headline[run.benchmark_id] for run in runs if run.benchmark_id in headline}
    if not kpi_of:
        return {}
    statement = select(KpiHistory).where(
        KpiHistory.run_seq.in_(kpi_of), KpiHistory.kpi_id.in_(set(kpi_of.values()))
    )
    histories = _read_histories(session, kpi_of)
    return {
        row.run_seq: view_of_row(HeadlineKpi, row, history=histories[row.run_seq])
        for row in session.scalars(statement)
        if kpi_of[row.run_seq] == row.kpi_id
    }


def _read_histories(session: Session, kpi_of: Mapping[int, str]) -> dict[int, list[float]]:
    """The last values of a KPI up to each run, oldest first."""
    histories: dict[int, list[float]] = defaultdict(list)
    parameters = {
        "seqs": list(kpi_of),
        "kpis": list(kpi_of.values()),
        "valid": Validity.VALID.value,
        "limit": HISTORY_RUNS,
    }
    for seq, value in session.execute(RECENT_VALUES, parameters):
        histories[seq].append(value)
    return histories


def _select_active() -> Any:
    return select(BenchmarkRun).where(_UNFINISHED).order_by(BenchmarkRun.seq).limit(MAX_ACTIVE)


def _count_active(session: Session) -> int:
    statement = select(func.count()).select_from(BenchmarkRun).where(_UNFINISHED)
    return session.scalars(statement).one()


def _active_run(run: BenchmarkRun, names: Names) -> ActiveRun:
    return ActiveRun(
        run_id=run.id,
        benchmark_name=names.benchmarks[run.benchmark_id],
        agent_name=names.agents[run.agent_id],
        status=run.status,
        traces_processed=run.traces_processed,
        traces_total=run.traces_total,
    )


def _next_schedule(session: Session) -> NextSchedule | None:
    statement = (
        select(ScheduleConfig)
        .where(ScheduleConfig.next_run_at.is_not(None))
        .order_by(ScheduleConfig.next_run_at)
        .limit(1)
    )
    schedule = session.scalars(statement).one_or_none()
    if schedule is None or schedule.next_run_at is None:
        return None
    return NextSchedule(schedule_id=schedule.id, name=schedule.name, due_at=schedule.next_run_at)


def _count_missed(session: Session, since: datetime, now: datetime) -> dict[str, int]:
    """The number of due times that started no run, by schedule, the most first."""
    count = func.count().label("missed")
    statement = (
        select(ScheduleFire.schedule_id, count)
        .where(
            ScheduleFire.due_at >= since,
            ScheduleFire.due_at < now,
            ScheduleFire.reason.in_([str(reason) for reason in MISSED_REASONS]),
        )
        .group_by(ScheduleFire.schedule_id)
        .order_by(count.desc(), ScheduleFire.schedule_id)
    )
    return {row.schedule_id: row.missed for row in session.execute(statement)}


def _missed_schedules(session: Session, missed: Mapping[str, int]) -> list[MissedSchedule]:
    ids = list(missed)[:MAX_MISSED]
    names = select(ScheduleConfig.id, ScheduleConfig.name).where(ScheduleConfig.id.in_(ids))
    name_of = {row.id: row.name for row in session.execute(names)}
    return [
        MissedSchedule(schedule_id=id_, name=name_of[id_], missed=missed[id_])
        for id_ in ids
        if id_ in name_of
    ]
