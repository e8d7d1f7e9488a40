"""Lists of the API as CSV: runs, the values of KPIs, notes, and annotations."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from pydantic.alias_generators import to_camel
from sqlalchemy import ColumnElement, select, type_coerce
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import InstrumentedAttribute, Session, load_only, with_expression

from mosaico.annotations.queries import list_annotations
from mosaico.annotations.schemas import AnnotationFilter, AnnotationView
from mosaico.benchmarks.owner_names import OwnerNames, read_names
from mosaico.core.db import Database
from mosaico.core.keyset import PageQuery, PageRows, iter_pages
from mosaico.core.reports import csv_lines
from mosaico.kpis.models import KpiHistory
from mosaico.kpis.queries import KpiHistoryFilter, KpiOrder, list_kpi_history
from mosaico.notes.queries import list_notes
from mosaico.notes.schemas import NoteFilter
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.run_list import RunListFilter, search_runs

MAX_ROWS: Final = 10_000
# Of one statement. More than of a list: without documents a row takes microseconds, and a page milliseconds.
PAGE_ROWS: Final = 1_000
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
NOTE_COLUMNS: Final = (
    "noteId", "benchmarkId", "runId", "itemId", "incidentId", "text", "createdBy", "createdByName", "createdAt",
)  # fmt: skip
ANNOTATION_COLUMNS: Final = tuple(map(to_camel, AnnotationView.model_fields))

Line = Sequence[object]


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

    return _iter_csv(db, RUN_COLUMNS, read_page)


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

    return _iter_csv(db, KPI_COLUMNS, read_page)


def iter_notes(db: Database, note_filter: NoteFilter) -> Iterator[str]:
    """The header and the notes of a filter, newest first, at most `MAX_ROWS`."""

    def read_page(session: Session, query: PageQuery) -> PageRows[Line]:
        page = list_notes(session, query, note_filter)
        # In the order of the columns.
        return page.with_rows([tuple(note.model_dump().values()) for note in page.rows])

    return _iter_csv(db, NOTE_COLUMNS, read_page)


def iter_annotations(db: Database, annotation_filter: AnnotationFilter) -> Iterator[str]:
    """The header and the annotations of a filter, newest first, at most `MAX_ROWS`."""

    def read_page(session: Session, query: PageQuery) -> PageRows[Line]:
        page = list_annotations(session, query, annotation_filter)
        # With the words of enumerations.
        return page.with_rows([tuple(row.model_dump(mode="json").values()) for row in page.rows])

    return _iter_csv(db, ANNOTATION_COLUMNS, read_page)


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
    yield from map(csv_lines, iter_pages(read, MAX_ROWS, PAGE_ROWS))


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
