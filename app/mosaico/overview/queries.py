"""Reads of the overview."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Row, func, select, text
from sqlalchemy.orm import Session

from mosaico.agents.models import Agent
from mosaico.alerts.event_queries import list_open_events
from mosaico.benchmarks.models import Benchmark, name_of_benchmark
from mosaico.benchmarks.owner_names import OwnerNames, read_names
from mosaico.benchmarks.queries import get_kpis_by_benchmark
from mosaico.core.batches import batched
from mosaico.core.row_counts import MAX_COUNTED, count_selected
from mosaico.core.schemas import view_of_row
from mosaico.kpis.models import KpiHistory
from mosaico.notifications.queries import count_unread
from mosaico.overview import rules
from mosaico.overview.schemas import (
    ActiveRun,
    Activity,
    ExpectedRun,
    HeadlineKpi,
    MissedSchedule,
    NextSchedule,
    OpenAlert,
    Overview,
    OverviewCell,
    StaleAgent,
)
from mosaico.run_store.attribute_queries import read_recorded_changes
from mosaico.run_store.expected_end import expect_ends
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.rules import IN_PROGRESS, MAX_RETRIES, RETRYABLE, RunStatus, Validity
from mosaico.schedules.models import SHOWN_MISS, ScheduleConfig, ScheduleFire
from mosaico.schedules.rules import FireSkipReason
from mosaico.schedules.stale_agents import list_stale_agents

HISTORY_RUNS = 14
MAX_ACTIVE = 20
MAX_MISSED = 20
# More cells give no overview. To find the newest ones, the last run of more pairs is read.
MAX_CELLS = 1_000
MAX_PAIRS = 10_000
_PAIRS_PER_STATEMENT = 250
_CELLS_PER_STATEMENT = 50

_IS_IN_PROGRESS = BenchmarkRun.status.in_(IN_PROGRESS)

# The last ended run of each agent on each benchmark; a rescored run is not news.
# From pair to pair of the index (benchmark_id, agent_id, seq): a GROUP BY reads every run of the history.
LAST_RUNS = text(
    """
    WITH RECURSIVE pair AS (
        SELECT CAST(:benchmark_id AS text) AS benchmark_id, CAST(:agent_id AS text) AS agent_id, 0 AS number
        UNION ALL
        SELECT following.benchmark_id, following.agent_id, number + 1 FROM pair CROSS JOIN LATERAL (
            SELECT run.benchmark_id, run.agent_id FROM benchmark_runs AS run
            WHERE (run.benchmark_id, run.agent_id) > (pair.benchmark_id, pair.agent_id)
            ORDER BY run.benchmark_id, run.agent_id LIMIT 1
        ) AS following WHERE number < :pair_count
    )
    SELECT pair.benchmark_id, pair.agent_id, last.seq FROM pair
    LEFT JOIN benchmarks AS benchmark ON benchmark.id = pair.benchmark_id AND NOT benchmark.archived
    LEFT JOIN agents AS agent ON agent.id = pair.agent_id AND NOT agent.archived
    LEFT JOIN LATERAL (
        SELECT run.seq FROM benchmark_runs AS run
        WHERE run.benchmark_id = pair.benchmark_id AND run.agent_id = pair.agent_id
          AND run.status IN ('COMPLETED', 'FAILED') AND run.rescore_of IS NULL
        ORDER BY run.seq DESC LIMIT 1
    ) AS last ON benchmark.id IS NOT NULL AND agent.id IS NOT NULL
    WHERE number > 0 ORDER BY number
    """
)
# One KPI of each of the given runs, with its last values up to this run, oldest first.
HEADLINE_KPIS = text(
    """
    SELECT kpi.run_seq, kpi.kpi_id, kpi.name, kpi.value, kpi.undefined_reason, kpi.unit,
           kpi.interval_low, kpi.interval_high, kpi.verdict,
           ARRAY(
               SELECT recent.value FROM (
                   SELECT value, recorded_at, earlier.id FROM kpi_history AS earlier
                   JOIN benchmark_runs AS run ON run.seq = earlier.run_seq AND run.has_new_data
                   WHERE earlier.benchmark_id = kpi.benchmark_id AND earlier.agent_id = kpi.agent_id
                     AND earlier.kpi_id = kpi.kpi_id AND earlier.value IS NOT NULL
                     AND (earlier.recorded_at, earlier.id) <= (kpi.recorded_at, kpi.id)
                   ORDER BY recorded_at DESC, earlier.id DESC LIMIT :limit
               ) AS recent ORDER BY recent.recorded_at, recent.id
           ) AS history
    FROM unnest(CAST(:seqs AS bigint[]), CAST(:kpis AS text[])) AS headline (run_seq, kpi_id)
    JOIN kpi_history AS kpi ON kpi.run_seq = headline.run_seq AND kpi.kpi_id = headline.kpi_id
    """
).columns(verdict=KpiHistory.verdict.type)
# What a cell shows of its run. A name is looked up for each: a join might read every agent or benchmark.
_CELL_RUNS = select(
    BenchmarkRun.id, BenchmarkRun.seq, BenchmarkRun.benchmark_id, BenchmarkRun.agent_id, BenchmarkRun.status,
    BenchmarkRun.retry_count, BenchmarkRun.completed_at, BenchmarkRun.validity, BenchmarkRun.validity_reasons,
    BenchmarkRun.error_code, BenchmarkRun.error_message, BenchmarkRun.verdict,
    select(Agent.name).where(Agent.id == BenchmarkRun.agent_id).scalar_subquery().label("agent_name"),
    select(Benchmark.metadata_).where(Benchmark.id == BenchmarkRun.benchmark_id).scalar_subquery()
    .label("benchmark_metadata"),
)  # fmt: skip


class LastRuns(NamedTuple):
    """The numbers of the last runs of agents on benchmarks, the newest first, and whether these are all."""

    seqs: Sequence[int]
    is_complete: bool


class Cells(NamedTuple):
    """Agents on benchmarks, worst verdict first, and whether these are all."""

    cells: list[OverviewCell]
    is_complete: bool


def read_overview(session: Session, since: datetime, now: datetime) -> Overview:
    """Agents on benchmarks, what runs now, and the schedules since a time."""
    cells, is_complete = read_cells(session, since)
    active = list(session.scalars(_select_active()))
    ends = expect_ends(session, active, now)
    names = read_names(session, [(run.benchmark_id, run.agent_id) for run in active])
    missed_since = max(since, now - timedelta(days=30))
    missed = _count_missed(session, missed_since, now)
    return Overview(
        since=since,
        cells=cells,
        is_complete=is_complete,
        counts=rules.count_outcomes(cells),
        detectable_drops=rules.list_detectable_drops(cells),
        active_runs=[
            ExpectedRun(**_active_run(run, names).model_dump(), expected_end_at=ends.get(run.id))
            for run in active
        ],
        active_count=_count_active(session) if len(active) == MAX_ACTIVE else len(active),
        next_schedule=_next_schedule(session),
        missed_fires=sum(missed.values()),
        missed_schedules=_missed_schedules(session, missed, missed_since, now),
        stale=_stale_agents(session, now),
    )


def _stale_agents(session: Session, now: datetime) -> list[StaleAgent]:
    rows = list_stale_agents(session, now)
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


def read_cells(
    session: Session,
    since: datetime,
    *,
    agent_id: str | None = None,
    benchmark_id: str | None = None,
) -> Cells:
    """Every agent on every benchmark, one agent or one benchmark, up to the `MAX_CELLS` with the newest runs; a
    run that ended after `since` is recent.
    """
    last_runs = _list_last_runs(session, agent_id, benchmark_id)
    cells = [
        cell
        for batch in batched(last_runs.seqs, _CELLS_PER_STATEMENT)
        for cell in _read_cells(session, batch, since)
    ]
    return Cells(rules.sort_cells(cells), last_runs.is_complete)


def _list_last_runs(session: Session, agent_id: str | None, benchmark_id: str | None) -> LastRuns:
    """The last run of each pair, of the first `MAX_PAIRS` by ID."""
    seqs: list[int] = []
    last_pair, read_count, is_end = ("", ""), 0, False
    while read_count < MAX_PAIRS and not is_end:
        begin = {"benchmark_id": last_pair[0], "agent_id": last_pair[1]}
        rows = session.execute(LAST_RUNS, {**begin, "pair_count": _PAIRS_PER_STATEMENT}).all()
        seqs += [
            row.seq
            for row in rows
            if row.seq is not None
            and agent_id in (None, row.agent_id)
            and benchmark_id in (None, row.benchmark_id)
        ]
        read_count += len(rows)
        is_end = len(rows) < _PAIRS_PER_STATEMENT
        last_pair = (rows[-1].benchmark_id, rows[-1].agent_id) if rows else last_pair
    return LastRuns(sorted(seqs, reverse=True)[:MAX_CELLS], is_end and len(seqs) <= MAX_CELLS)


def _read_cells(session: Session, seqs: Sequence[int], since: datetime) -> list[OverviewCell]:
    runs = session.execute(_CELL_RUNS.where(BenchmarkRun.seq.in_(seqs))).all()
    kpis = _read_headline_kpis(session, runs)
    alerts: dict[str, list[OpenAlert]] = defaultdict(list)
    for event in list_open_events(session, [run.id for run in runs]):
        alert = OpenAlert(alert_id=event.id, notification_id=event.notification_id)
        alerts[event.run_id].append(alert)
    cells = [_cell(run, kpis.get(run.seq), alerts[run.id], since) for run in runs]
    changes = read_recorded_changes(session, [cell.run_id for cell in cells if cell.is_recent])
    return [cell.model_copy(update={"what_changed": changes.get(cell.run_id)}) for cell in cells]


def read_activity(session: Session) -> Activity:
    """The runs in progress, and the number of open messages."""
    runs = list(session.scalars(_select_active()))
    names = read_names(session, [(run.benchmark_id, run.agent_id) for run in runs])
    return Activity(
        active_runs=[_active_run(run, names) for run in runs], unread=count_unread(session)
    )


def _cell(
    run: Row[Any], kpi: HeadlineKpi | None, alerts: list[OpenAlert], since: datetime
) -> OverviewCell:
    """The cell of a row of `_CELL_RUNS`, whose run has ended."""
    verdict = rules.decide_verdict(run.validity, run.verdict.verdict if run.verdict else None)
    return OverviewCell(
        benchmark_id=run.benchmark_id,
        benchmark_name=name_of_benchmark(run.benchmark_id, run.benchmark_metadata),
        agent_id=run.agent_id,
        agent_name=run.agent_name,
        run_id=run.id,
        status=run.status,
        is_recent=run.completed_at >= since,
        can_retry=run.status in RETRYABLE and run.retry_count < MAX_RETRIES,
        completed_at=run.completed_at,
        verdict=verdict,
        explanation=_explain(run),
        same_answers=run.verdict.same_answers if run.verdict else None,
        kpi=kpi,
        open_alerts=alerts,
    )


def _explain(run: Row[Any]) -> str:
    """Return the reason why a run has its verdict: the error, the reasons of an invalid run, or the
    comparison.
    """
    if run.status == RunStatus.FAILED:
        return str(run.error_message or run.error_code or "No error message was recorded.")
    if run.validity == Validity.INVALID:
        return "; ".join(run.validity_reasons or ["too few traces were measured"])
    return str(run.verdict.explanation) if run.verdict else "The run was not compared."


def _read_headline_kpis(session: Session, runs: Sequence[Row[Any]]) -> dict[int, HeadlineKpi]:
    """The headline KPI of each run, by its sequence number."""
    definitions = get_kpis_by_benchmark(session, {run.benchmark_id for run in runs})
    headline = {
        benchmark_id: min(kpis, key=lambda kpi: (not kpi.gate, kpi.name.lower())).id
        for benchmark_id, kpis in definitions.items()
    }
    kpi_of = {run.seq: headline[run.benchmark_id] for run in runs if run.benchmark_id in headline}
    if not kpi_of:
        return {}
    parameters = {
        "seqs": list(kpi_of),
        "kpis": list(kpi_of.values()),
        "valid": Validity.VALID.value,
        "limit": HISTORY_RUNS,
    }
    rows = session.execute(HEADLINE_KPIS, parameters)
    return {row.run_seq: view_of_row(HeadlineKpi, row) for row in rows}


def _select_active() -> Any:
    return select(BenchmarkRun).where(_IS_IN_PROGRESS).order_by(BenchmarkRun.seq).limit(MAX_ACTIVE)


def _count_active(session: Session) -> int:
    return count_selected(
        session, select(BenchmarkRun.seq).where(_IS_IN_PROGRESS).limit(MAX_COUNTED)
    )


def _active_run(run: BenchmarkRun, names: OwnerNames) -> ActiveRun:
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
    """The number of the last due times that started no run, by schedule, the most first."""
    fires = (
        select(ScheduleFire.schedule_id)
        .where(ScheduleFire.due_at >= since, ScheduleFire.due_at < now, text(SHOWN_MISS))
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
