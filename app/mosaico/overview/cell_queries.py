"""The last run of each agent on each benchmark, with the KPI that stands for the benchmark."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from statistics import median
from typing import Any, NamedTuple

from sqlalchemy import Row, select, text
from sqlalchemy.orm import Session

from mosaico.agents.models import Agent
from mosaico.alerts.event_queries import list_open_events
from mosaico.benchmarks.models import Benchmark, name_of_benchmark
from mosaico.benchmarks.queries import get_kpis_by_benchmark
from mosaico.core.batches import batched
from mosaico.kpis.models import KpiHistory
from mosaico.overview import rules
from mosaico.overview.changes import FAILED
from mosaico.overview.schemas import HeadlineKpi, OpenAlert, OverviewCell
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.rules import MAX_RETRIES, RETRYABLE, RunStatus
from mosaico.run_store.run_outcome import (
    KpiOutcome,
    find_deciding,
    list_kpi_outcomes,
    sort_kpis,
    verdict_of_run,
)

# What a table draws of a KPI, and what is usual for it.
HISTORY_RUNS = 14
USUAL_RUNS = 60
# More cells give no overview. To find the newest ones, the last run of more pairs is read.
MAX_CELLS = 1_000
MAX_PAIRS = 10_000
_PAIRS_PER_STATEMENT = 250
_CELLS_PER_STATEMENT = 50

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
# One KPI of each of the given runs, with its last values up to this run, oldest first: scores of a judge where annotations
# correct them, because a corrected value moves when somebody annotates an answer.
HEADLINE_KPIS = text(
    """
    SELECT kpi.run_seq, kpi.kpi_id, kpi.name, kpi.value, kpi.undefined_reason, kpi.unit, kpi.validity,
           kpi.interval_low, kpi.interval_high, kpi.verdict,
           ARRAY(
               SELECT recent.value FROM (
                   SELECT COALESCE(CAST(earlier.correction ->> 'rawValue' AS double precision), value) AS value,
                          recorded_at, earlier.id FROM kpi_history AS earlier
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


def read_cells(
    session: Session,
    since: datetime,
    *,
    agents: Collection[str] | None = None,
    benchmark_id: str | None = None,
) -> Cells:
    """Every agent on every benchmark, some agents or one benchmark, up to the `MAX_CELLS` with the newest runs; a
    run that ended after `since` is recent.
    """
    last_runs = _list_last_runs(session, agents, benchmark_id)
    cells = [
        cell
        for batch in batched(last_runs.seqs, _CELLS_PER_STATEMENT)
        for cell in _read_cells(session, batch, since)
    ]
    return Cells(rules.sort_cells(cells), last_runs.is_complete)


def _list_last_runs(
    session: Session, agents: Collection[str] | None, benchmark_id: str | None
) -> LastRuns:
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
            and (agents is None or row.agent_id in agents)
            and benchmark_id in (None, row.benchmark_id)
        ]
        read_count += len(rows)
        is_end = len(rows) < _PAIRS_PER_STATEMENT
        last_pair = (rows[-1].benchmark_id, rows[-1].agent_id) if rows else last_pair
    return LastRuns(sorted(seqs, reverse=True)[:MAX_CELLS], is_end and len(seqs) <= MAX_CELLS)


def _read_cells(session: Session, seqs: Sequence[int], since: datetime) -> list[OverviewCell]:
    runs = session.execute(_CELL_RUNS.where(BenchmarkRun.seq.in_(seqs))).all()
    kpis = _read_headline_kpis(session, runs)
    outcomes = list_kpi_outcomes(session, [run.seq for run in runs])
    alerts: dict[str, list[OpenAlert]] = defaultdict(list)
    for event in list_open_events(session, [run.id for run in runs]):
        alert = OpenAlert(alert_id=event.id, notification_id=event.notification_id)
        alerts[event.run_id].append(alert)
    return [
        _cell(run, kpis.get(run.seq), _decided_by(run, outcomes), alerts[run.id], since)
        for run in runs
    ]


def _decided_by(run: Row[Any], outcomes: Mapping[int, Sequence[KpiOutcome]]) -> str | None:
    """The name of the KPI from which the verdict of a run follows."""
    verdict = verdict_of_run(run.validity, run.verdict.verdict if run.verdict else None)
    deciding = find_deciding(outcomes.get(run.seq, ()), verdict)
    return deciding.name if deciding else None


def _cell(
    run: Row[Any],
    kpi: HeadlineKpi | None,
    decided_by: str | None,
    alerts: list[OpenAlert],
    since: datetime,
) -> OverviewCell:
    """The cell of a row of `_CELL_RUNS`, whose run has ended."""
    verdict = verdict_of_run(run.validity, run.verdict.verdict if run.verdict else None)
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
        decided_by=decided_by,
        explanation=rules.explain_run(run, FAILED if run.status == RunStatus.FAILED else verdict),
        differences=list(run.verdict.differences) if run.verdict else [],
        same_answers=run.verdict.same_answers if run.verdict else None,
        kpi=kpi,
        open_alerts=alerts,
    )  # fmt: skip


def _read_headline_kpis(session: Session, runs: Sequence[Row[Any]]) -> dict[int, HeadlineKpi]:
    """The headline KPI of each run, by its sequence number."""
    definitions = get_kpis_by_benchmark(session, {run.benchmark_id for run in runs})
    headline = {id_: sort_kpis(kpis)[0].id for id_, kpis in definitions.items()}
    kpi_of = {run.seq: headline[run.benchmark_id] for run in runs if run.benchmark_id in headline}
    if not kpi_of:
        return {}
    parameters = {"seqs": list(kpi_of), "kpis": list(kpi_of.values()), "limit": USUAL_RUNS}
    rows = session.execute(HEADLINE_KPIS, parameters)
    return {row.run_seq: _headline_kpi(row) for row in rows}


def _headline_kpi(row: Row[Any]) -> HeadlineKpi:
    earlier = row.history[:-1]
    return HeadlineKpi(
        kpi_id=row.kpi_id,
        name=row.name,
        value=row.value,
        undefined_reason=row.undefined_reason,
        unit=row.unit,
        interval_low=row.interval_low,
        interval_high=row.interval_high,
        verdict=row.verdict,
        outcome=verdict_of_run(row.validity, row.verdict.verdict if row.verdict else None),
        history=row.history[-HISTORY_RUNS:],
        usual=median(earlier) if earlier else None,
    )
