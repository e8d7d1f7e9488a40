"""Lists of the API as CSV: runs, and the values of KPIs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.core.db import Database
from app.core.keyset import PageQuery, PageRows, iter_pages
from app.core.reports import csv_lines
from app.kpis.models import KpiHistory
from app.kpis.queries import KpiHistoryFilter, KpiOrder, list_kpi_history
from app.results.models import BenchmarkRun
from app.results.run_list import RunListFilter, search_runs
from app.results.run_names import OwnerNames, read_names
from app.runs.schemas import RunView
from app.runs.views import run_columns_view

MAX_ROWS: Final = 10_000
RUN_COLUMNS: Final = (
    "runId", "benchmarkId", "benchmark", "agentId", "agent", "runName", "status", "validity",
    "verdict", "triggeredBy", "tracesProcessed", "tracesTotal", "createdAt", "startedAt",
    "completedAt", "errorCode",
)  # fmt: skip
# `confirms` and `rescoreOf` identify repeated and rescored runs, which no trend shows.
KPI_COLUMNS: Final = (
    "runId", "benchmarkId", "benchmark", "agentId", "agent", "kpiId", "kpi", "kpiRevision", "formula",
    "value", "unit", "undefinedReason", "intervalLow", "intervalHigh", "withinThresholds", "coverage",
    "validity", "verdict", "confirms", "rescoreOf", "recordedAt",
)  # fmt: skip

Line = Sequence[object]


def iter_runs(db: Database, run_filter: RunListFilter, sort: str) -> Iterator[str]:
    """The header and the runs of a filter, at most `MAX_ROWS`."""

    def read_page(session: Session, query: PageQuery) -> PageRows[Line]:
        page = search_runs(session, run_filter, sort, query)
        runs = list(map(run_columns_view, page.rows))
        names = read_names(session, [(run.benchmark_id, run.agent_id) for run in runs])
        return PageRows([_run_line(run, names) for run in runs], page.next_cursor)

    return _iter_csv(db, RUN_COLUMNS, read_page)


def iter_kpi_values(
    db: Database, history_filter: KpiHistoryFilter, sort: KpiOrder
) -> Iterator[str]:
    """The header and the KPI values of a filter, at most `MAX_ROWS`: one line for each KPI of a run."""

    def read_page(session: Session, query: PageQuery) -> PageRows[Line]:
        page = list_kpi_history(session, query, history_filter, sort=sort)
        names = read_names(session, [(row.benchmark_id, row.agent_id) for row in page.rows])
        origins = _read_origins(session, {row.run_seq for row in page.rows})
        lines = [_kpi_line(row, names, origins[row.run_seq]) for row in page.rows]
        return PageRows(lines, page.next_cursor)

    return _iter_csv(db, KPI_COLUMNS, read_page)


def _iter_csv(
    db: Database,
    columns: Sequence[str],
    read_page: Callable[[Session, PageQuery], PageRows[Line]],
) -> Iterator[str]:
    """Yield CSV rows; each page is a separate read, so a slow client holds no transaction open."""

    def read(query: PageQuery) -> PageRows[Line]:
        with db.read() as session:
            return read_page(session, query)

    yield csv_lines([columns])
    yield from map(csv_lines, iter_pages(read, MAX_ROWS))


def _read_origins(
    session: Session, seqs: Iterable[int]
) -> dict[int, tuple[str | None, str | None]]:
    """The run that a run repeats and the run whose traces it scores again, by sequence number."""
    statement = select(BenchmarkRun.seq, BenchmarkRun.confirms, BenchmarkRun.rescore_of)
    rows = session.execute(statement.where(BenchmarkRun.seq.in_(seqs)))
    return {seq: (confirms, rescore_of) for seq, confirms, rescore_of in rows}


def _run_line(run: RunView, names: OwnerNames) -> Line:
    return (
        run.id,
        run.benchmark_id,
        names.benchmarks.get(run.benchmark_id),
        run.agent_id,
        names.agents.get(run.agent_id),
        run.run_name,
        run.status,
        run.validity,
        run.verdict.verdict if run.verdict else None,
        run.triggered_by,
        run.traces_processed,
        run.traces_total,
        *map(_instant, (run.created_at, run.started_at, run.completed_at)),
        run.error_code,
    )


def _kpi_line(row: KpiHistory, names: OwnerNames, origin: tuple[str | None, str | None]) -> Line:
    return (
        row.run_id,
        row.benchmark_id,
        names.benchmarks.get(row.benchmark_id),
        row.agent_id,
        names.agents.get(row.agent_id),
        row.kpi_id,
        row.name,
        row.kpi_revision,
        row.formula,
        row.value,
        row.unit,
        row.undefined_reason,
        row.interval_low,
        row.interval_high,
        row.within_thresholds,
        row.coverage,
        row.validity,
        row.verdict.verdict if row.verdict else None,
        *origin,
        _instant(row.recorded_at),
    )


def _instant(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
