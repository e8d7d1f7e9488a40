"""Reads of runs, their shards, metrics and measured traces."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import func, literal, select, text
from sqlalchemy.orm import Session

from mosaico.core.db import fetch_tuples
from mosaico.core.dependents import DEPENDENTS, DeletedResource, Dependent, DependentKind
from mosaico.core.errors import NotFound
from mosaico.core.keyset import ListRows, PageQuery, PageRows, encode_cursor
from mosaico.core.postgres_notify import notify_streams
from mosaico.harness.transcript import Transcript
from mosaico.metrics.types import MetricSkipReason
from mosaico.run_store.deciding_metric import DecidingMetric
from mosaico.run_store.models import BenchmarkRun, RunMetricAggregate, RunShard, TraceResult
from mosaico.run_store.rules import require_traces
from mosaico.run_store.scored_trace import ScoredTrace
from mosaico.run_store.trace_list import SEARCHED_TRACES, TraceListFilter, trace_conditions
from mosaico.traces.models import CollectedTrace
from mosaico.traces.queries import find_collected_trace, find_transcript
from mosaico.traces.types import TraceOutcome

# Texts may have megabytes each; a page of them must not fill the memory of the API process.
# Of the runs that keep an agent or a benchmark; others say nothing new.
MAX_RUNS_NAMED = 3
PAGE_BYTES = 8 * 1024 * 1024

# The statements are built once: building one takes as long as executing it.
_RUNS = BenchmarkRun.__table__
_HIDDEN_COLUMNS = (
    "plan",
    "metric_keys",
    "collection_id",
    "source_key",
    "source_seq",
    "fencing_token",
    "shards_total",
    "shards_done",
)
RUN_COLUMNS = select(*(column for column in _RUNS.columns if column.key not in _HIDDEN_COLUMNS))

_LOST_OUTCOMES = [outcome.value for outcome in TraceOutcome if outcome.is_missing]

# Of a trace whose error the rules of its run excused the values are missing for this reason.
EXCUSED_NOTES: Final = f'$.*.skipped ? (@ == "{MetricSkipReason.INFRA_ERROR}")'

# A trace is read only if its item is needed or a value is missing: only then can its outcome be an error of the
# infrastructure or of the judge. Each read is one look-up in the primary key: with a join, and before Postgres had
# statistics, each result was compared with each trace of the batch. A range of one position, in order: Postgres
# expects one row of a collection that is newer than its statistics, and then the index of trace IDs, which it would
# filter by position, costs as much as the primary key. Only the latter has the order.
SCORED_TRACES = """
    SELECT result.values, result.notes, coalesce(trace.outcome = ANY(%(lost)s), false)
        OR coalesce(jsonb_path_exists(result.notes, %(excused)s::jsonpath), false), trace.item_id
    FROM trace_results AS result LEFT JOIN LATERAL (
        SELECT outcome, item_id FROM collected_traces
        WHERE (%(with_items)s OR result.notes IS NOT NULL OR array_position(result.values, NULL) IS NOT NULL)
          AND collection_id = %(collection)s AND position BETWEEN result.position AND result.position
        ORDER BY position LIMIT 1
    ) AS trace ON true
    WHERE result.run_seq = %(run)s AND result.position BETWEEN %(first)s AND %(last)s
"""


class RunNotFound(NotFound):
    """No run has this ID; GET /api/v1/benchmark-runs lists all runs."""


class TraceNotFound(NotFound):
    """The run has no trace with this ID; GET /api/v1/benchmark-runs/{runId}/results lists its
    traces.
    """


class TraceWithResult(NamedTuple):
    """A collected trace with its texts; `result` is None while it is not measured."""

    trace: CollectedTrace
    result: TraceResult | None


class TraceDetail(NamedTuple):
    """A collected trace with its transcript; `result` is None while it is not measured."""

    trace: CollectedTrace
    result: TraceResult | None
    transcript: Transcript | None


class TraceValues(NamedTuple):
    """The values of one trace, in the order of the run's metrics."""

    position: int
    trace_id: str
    values: list[float | None]


def get_run(session: Session, run_id: str, *, for_update: bool = False) -> BenchmarkRun:
    """The run; `for_update` locks it against other writers, and wakes its event streams when the
    transaction commits: who locks a run changes it.

    The lock is FOR NO KEY UPDATE: rows that refer to the run, such as those of its shards, can still
    be inserted in parallel.
    """
    if for_update:
        statement = select(BenchmarkRun).where(BenchmarkRun.id == run_id)
        run = session.scalars(statement.with_for_update(key_share=True)).one_or_none()
        notify_streams(session, run_id)
    else:
        # Without a statement for a run that the transaction has read already.
        run = session.get(BenchmarkRun, run_id)
    if run is None:
        raise run_not_found(run_id)
    return run


def get_run_with_traces(session: Session, run_id: str) -> BenchmarkRun:
    """Raises: `RunNotFound`, `RunPurged`."""
    run = get_run(session, run_id)
    require_traces(run.id, run.purged_at)
    return run


def get_run_columns(session: Session, run_id: str) -> Mapping[str, Any]:
    """The visible columns of a run, without its plan, which is long. Clients poll this most often."""
    run = session.execute(RUN_COLUMNS.where(_RUNS.c.id == run_id)).mappings().one_or_none()
    if run is None:
        raise run_not_found(run_id)
    return dict(run)


def find_runs_columns(session: Session, run_ids: Sequence[str]) -> list[Mapping[str, Any]]:
    """The visible columns of runs, in no order; a run that does not exist is left out."""
    runs = session.execute(RUN_COLUMNS.where(_RUNS.c.id.in_(run_ids))).mappings()
    return [dict(run) for run in runs]


def lock_shards(session: Session, run_seq: int) -> None:
    """Lock all shards of a run, waiting for the steps that are writing one."""
    statement = select(RunShard.shard).where(RunShard.run_seq == run_seq)
    session.execute(statement.order_by(RunShard.shard).with_for_update())


def list_summarized_shards(
    session: Session, run_seq: int, shard: int, limit: int
) -> list[RunShard]:
    """The shards of a run after `shard` that hold summaries."""
    statement = (
        select(RunShard)
        .where(RunShard.run_seq == run_seq, RunShard.shard > shard, RunShard.summaries.is_not(None))
        .order_by(RunShard.shard)
        .limit(limit)
    )
    return list(session.scalars(statement))


def list_run_metrics(session: Session, run_seq: int) -> list[RunMetricAggregate]:
    """All metrics of a run, in the order of its plan."""
    statement = select(RunMetricAggregate).where(RunMetricAggregate.run_seq == run_seq)
    return list(session.scalars(statement.order_by(RunMetricAggregate.ordinal)))


def list_shown_metrics(session: Session, run: BenchmarkRun) -> list[RunMetricAggregate]:
    """The metrics of a run to show: that of failed answers, which no benchmark has to name, only where some failed, and
    not beside STATUS.
    """
    rows = list_run_metrics(session, run.seq)
    added = run.plan.added_columns if run.plan else frozenset()
    has_status = "STATUS" in {row.metric for row in rows}
    return [row for row in rows if row.metric not in added or (_moves(row) and not has_status)]


def _moves(row: RunMetricAggregate) -> bool:
    """Return whether a metric is not 0 in a run and in its baseline."""
    return bool(row.mean or (row.verdict and row.verdict.effect))


def list_trace_results(
    session: Session,
    run: BenchmarkRun,
    query: PageQuery,
    trace_filter: TraceListFilter,
    decider: DecidingMetric | None = None,
) -> PageRows[TraceWithResult]:
    """The collected traces of a run that pass a filter, in the order of the source. A page is shorter than requested when
    its texts exceed `PAGE_BYTES`.
    """
    traces = select(CollectedTrace).where(CollectedTrace.collection_id == run.collection_id)
    selected = traces
    if conditions := trace_conditions(run.metric_keys or [], trace_filter, decider):
        result_of_trace = (TraceResult.run_seq == run.seq) & (
            TraceResult.position == CollectedTrace.position
        )
        selected = traces.outerjoin(TraceResult, result_of_trace)
    # Positions and sizes first: the texts of a page could have gigabytes together.
    page = ListRows(
        statement=selected.with_only_columns(CollectedTrace.position, maintain_column_froms=True),
        keys=[CollectedTrace.position],
        descending=False,
        conditions=conditions,
        batch_rows=SEARCHED_TRACES,
    ).read_page(session, query)
    positions = _fit_page(session, run, [row.position for row in page.rows])
    fitting = session.scalars(
        traces.where(CollectedTrace.position.in_(positions)).order_by(CollectedTrace.position)
    )
    measured = select(TraceResult).where(
        TraceResult.run_seq == run.seq, TraceResult.position.in_(positions)
    )
    by_position = {result.position: result for result in session.scalars(measured)}
    rows = [TraceWithResult(trace, by_position.get(trace.position)) for trace in fitting]
    is_cut = len(positions) < len(page.rows)
    return PageRows(rows, encode_cursor([positions[-1]])) if is_cut else page.with_rows(rows)


def get_trace(session: Session, run: BenchmarkRun, trace_id: str) -> TraceDetail:
    """A trace of a run, also while the run is in progress. Raises: `TraceNotFound`."""
    collection_id = run.collection_id
    trace = (
        None if collection_id is None else find_collected_trace(session, collection_id, trace_id)
    )
    if trace is None:
        raise TraceNotFound(
            f"the run {run.id} has no trace {trace_id!r}; GET /api/v1/benchmark-runs/{run.id}/results"
            " lists its traces"
        )
    return TraceDetail(
        trace,
        session.get(TraceResult, (run.seq, trace.position)),
        find_transcript(session, trace.collection_id, trace.position),
    )


def run_not_found(run_id: str) -> RunNotFound:
    """The error of a run that does not exist."""
    return RunNotFound(f"no run has the ID {run_id!r}; GET /api/v1/benchmark-runs lists them")


def _fit_page(session: Session, run: BenchmarkRun, positions: Sequence[int]) -> list[int]:
    """The first positions whose texts fit into `PAGE_BYTES` together, at least one."""
    texts = (CollectedTrace.input, CollectedTrace.expected_output, CollectedTrace.output)
    size = sum((func.coalesce(func.octet_length(text), 0) for text in texts), literal(0))
    statement = (
        select(CollectedTrace.position, size)
        .where(
            CollectedTrace.collection_id == run.collection_id,
            CollectedTrace.position.in_(positions),
        )
        .order_by(CollectedTrace.position)
    )
    fitting: list[int] = []
    total = 0
    for position, size_bytes in session.execute(statement):
        total += size_bytes
        if fitting and total > PAGE_BYTES:
            break
        fitting.append(position)
    return fitting


def read_scored_traces(
    session: Session,
    run_seq: int,
    collection_id: int,
    first: int,
    limit: int,
    *,
    with_items: bool,
) -> list[ScoredTrace]:
    """At most `limit` measured traces of a run, from the position `first` on, in no order."""
    parameters = {
        "run": run_seq,
        "collection": collection_id,
        "first": first,
        "last": first + limit - 1,
        "with_items": with_items,
        "lost": _LOST_OUTCOMES,
        "excused": EXCUSED_NOTES,
    }
    return list(map(ScoredTrace._make, fetch_tuples(session, SCORED_TRACES, parameters)))


def has_trials(session: Session, collection_id: int) -> bool:
    """Return whether any item of a collection has several trials."""
    session.execute(text("SET LOCAL statement_timeout = 0"))
    trials = select(CollectedTrace.trial).where(CollectedTrace.collection_id == collection_id)
    # Compared with any one trial, since trials may be counted from 0 or 1.
    first = trials.limit(1).scalar_subquery()
    return bool(session.scalar(select(trials.where(CollectedTrace.trial != first).exists())))


def read_trace_values(
    session: Session, run_seq: int, position: int, limit: int
) -> list[TraceValues]:
    """The values of at most `limit` traces of a run, from a position on, in order."""
    statement = (
        select(TraceResult.position, CollectedTrace.trace_id, TraceResult.values)
        .join(BenchmarkRun, BenchmarkRun.seq == TraceResult.run_seq)
        .join(
            CollectedTrace,
            (CollectedTrace.collection_id == BenchmarkRun.collection_id)
            & (CollectedTrace.position == TraceResult.position),
        )
        .where(TraceResult.run_seq == run_seq, TraceResult.position >= position)
        .order_by(TraceResult.position)
        .limit(limit)
    )
    return [TraceValues(*row) for row in session.execute(statement)]


def _find_runs_of(session: Session, owner: DeletedResource) -> list[Dependent]:
    """The newest runs of an agent or a benchmark, which keep it: they are its history."""
    column = _RUNS.c.agent_id if owner.kind == "agent" else _RUNS.c.benchmark_id
    statement = select(_RUNS.c.id, _RUNS.c.run_name).where(column == owner.id)
    rows = session.execute(statement.order_by(_RUNS.c.seq.desc()).limit(MAX_RUNS_NAMED))
    return [Dependent("run", row.id, row.run_name or "without a name") for row in rows]


DEPENDENTS.append(DependentKind({"agent", "benchmark"}, _find_runs_of))
