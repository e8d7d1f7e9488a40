"""Runs and the values of KPIs as CSV, with names of other domains; other tables are beside their lists."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, select, type_coerce
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import InstrumentedAttribute, Session, load_only, with_expression

from mosaico.benchmarks.owner_names import OwnerNames, read_names
from mosaico.core.db import Database
from mosaico.core.keyset import PageQuery, PageRows
from mosaico.core.web.csv_files import Line, iter_table
from mosaico.kpis.models import KpiHistory
from mosaico.kpis.queries import KpiHistoryFilter, KpiOrder, list_kpi_history
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.run_list import RunListFilter, search_runs

RUN_COLUMNS: Final = (
    "runId", "benchmarkId", "benchmark", "agentId", "agent", "runName", "status", "validity",
    "verdict", "triggeredBy", "tracesProcessed", "tracesTotal", "createdAt", "startedAt",
    "completedAt", "errorCode", "datasetName", "datasetVersion",
)  # fmt: skip
# `rescoreOf` identifies rescored runs, which no trend shows.
KPI_COLUMNS: Final = (
    "runId", "benchmarkId", "benchmark", "agentId", "agent", "kpiId", "kpi", "kpiRevision", "formula",
    "value", "unit", "undefinedReason", "intervalLow", "intervalHigh", "withinThresholds", "coverage",
    "validity", "verdict", "rescoreOf", "recordedAt", "datasetName", "datasetVersion",
)  # fmt: skip


def _verdict_word(document: ColumnElement[Any] | InstrumentedAttribute[Any]) -> ColumnElement[str]:
    word: ColumnElement[str] = type_coerce(document, JSONB)["verdict"].astext
    return word


# Without documents, which are wide: the verdict is one word of one.
_RUNS: Final = BenchmarkRun.__table__.c
EXPORTED_RUNS: Final = select(
    _RUNS.id, _RUNS.seq, _RUNS.benchmark_id, _RUNS.agent_id, _RUNS.run_name, _RUNS.status, _RUNS.validity,
    _RUNS.triggered_by, _RUNS.traces_processed, _RUNS.traces_total, _RUNS.created_at, _RUNS.started_at,
    _RUNS.completed_at, _RUNS.error_code, _RUNS.dataset_name, _RUNS.dataset_version, _verdict_word(_RUNS.verdict).label("verdict_word"),
)  # fmt: skip
EXPORTED_VALUES: Final = select(KpiHistory).options(
    load_only(
        KpiHistory.run_seq, KpiHistory.run_id, KpiHistory.benchmark_id, KpiHistory.agent_id, KpiHistory.kpi_id,
        KpiHistory.name, KpiHistory.kpi_revision, KpiHistory.formula, KpiHistory.value, KpiHistory.unit,
        KpiHistory.undefined_reason, KpiHistory.interval_low, KpiHistory.interval_high,
        KpiHistory.within_thresholds, KpiHistory.coverage, KpiHistory.validity, KpiHistory.recorded_at,
        raiseload=True,
    ),
    with_expression(KpiHistory.verdict_word, _verdict_word(KpiHistory.verdict)),
)  # fmt: skip


def iter_runs(db: Database, run_filter: RunListFilter, sort: str) -> Iterator[str]:
    """The header and the runs of a filter, at most `MAX_ROWS`."""

    def read_page(session: Session, query: PageQuery) -> PageRows[Line]:
        page = search_runs(session, run_filter, sort, query, columns=EXPORTED_RUNS)
        names = read_names(session, [(run["benchmark_id"], run["agent_id"]) for run in page.rows])
        return page.with_rows([_run_line(run, names) for run in page.rows])

    return iter_table(db, RUN_COLUMNS, read_page)


def iter_kpi_values(
    db: Database, history_filter: KpiHistoryFilter, sort: KpiOrder
) -> Iterator[str]:
    """The header and the KPI values of a filter, at most `MAX_ROWS`: one line for each KPI of a run."""

    def read_page(session: Session, query: PageQuery) -> PageRows[Line]:
        page = list_kpi_history(session, query, history_filter, sort=sort, columns=EXPORTED_VALUES)
        names = read_names(session, [(row.benchmark_id, row.agent_id) for row in page.rows])
        runs = _read_runs(session, {row.run_seq for row in page.rows})
        lines = [_kpi_line(row, names, runs[row.run_seq]) for row in page.rows]
        return page.with_rows(lines)

    return iter_table(db, KPI_COLUMNS, read_page)


class _ReadRun(NamedTuple):
    """Of the run of a value: the run whose traces it scores again, and the dataset whose version it tests."""

    rescore_of: str | None
    dataset_name: str | None
    dataset_version: int | None


def _read_runs(session: Session, seqs: Iterable[int]) -> dict[int, _ReadRun]:
    """Some runs by sequence number."""
    statement = select(
        BenchmarkRun.seq,
        BenchmarkRun.rescore_of,
        BenchmarkRun.dataset_name,
        BenchmarkRun.dataset_version,
    )
    rows = session.execute(statement.where(BenchmarkRun.seq.in_(seqs)))
    return {
        row.seq: _ReadRun(row.rescore_of, row.dataset_name, row.dataset_version) for row in rows
    }


def _run_line(run: Mapping[str, Any], names: OwnerNames) -> Line:
    return (
        run["id"],
        run["benchmark_id"],
        names.benchmarks.get(run["benchmark_id"]),
        run["agent_id"],
        names.agents.get(run["agent_id"]),
        run["run_name"],
        run["status"],
        run["validity"],
        run["verdict_word"],
        run["triggered_by"],
        run["traces_processed"],
        run["traces_total"],
        *(_instant(run[name]) for name in ("created_at", "started_at", "completed_at")),
        run["error_code"],
        run["dataset_name"],
        run["dataset_version"],
    )


def _kpi_line(row: KpiHistory, names: OwnerNames, run: _ReadRun) -> Line:
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
        row.verdict_word,
        run.rescore_of,
        _instant(row.recorded_at),
        run.dataset_name,
        run.dataset_version,
    )


def _instant(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
