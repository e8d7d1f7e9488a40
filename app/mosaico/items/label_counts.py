"""Label counts by item, so that metrics of the whole run can be resampled.

F1 over labels is not a mean over items: it is computed from how often each label was confused. Metrics
whose summaries can be added summarize the traces of a run again, one by one.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.core.db import Database
from mosaico.items.label_counts_builder import LabelCountsBuilder
from mosaico.items.matrix import ItemMatrix
from mosaico.metrics.engine import attempt
from mosaico.metrics.registry import load_metrics, provider_for
from mosaico.metrics.types import CountedMetric, MetricFailed, MetricRef, Summary
from mosaico.run_store.models import BenchmarkRun, RunShard, TraceResult
from mosaico.run_store.shard_ranges import ShardRange
from mosaico.traces.models import CollectedTrace
from mosaico.traces.stored_traces import trace_from_row
from mosaico.traces.types import Trace

log = logging.getLogger(__name__)


class MeasuredTrace(NamedTuple):
    """A trace of a run and its metric values."""

    trace: Trace
    values: Sequence[float | None]


# One summary per trace, None for a trace without a value; or why the metric failed.
TraceSummaries: TypeAlias = list[Summary | None] | MetricFailed

# Summarizes a page of traces, in this process or in a child process.
Summarize: TypeAlias = Callable[
    [MetricRef, Sequence[float | None], Sequence[Trace]], TraceSummaries
]


def summarize_traces(
    ref: MetricRef, values: Sequence[float | None], traces: Sequence[Trace]
) -> TraceSummaries:
    """The summary of each trace that has a value. Can be called in a child process."""
    load_metrics()
    provider = provider_for(ref)
    assert isinstance(provider, CountedMetric)
    return attempt(
        lambda: [
            None if value is None else provider.summarize([trace])
            for value, trace in zip(values, traces, strict=True)
        ]
    )


def with_label_counts(
    matrix: ItemMatrix,
    db: Database,
    runs: Mapping[int, Sequence[str]],
    metrics: Mapping[str, MetricRef],
    summarize: Summarize = summarize_traces,
) -> ItemMatrix:
    """The matrix with the label counts of the metrics, by column; failing metrics are left out.

    `runs` are the stored metrics of each run by its seq, as for `read_items`. Reads the texts of
    the traces again, one shard at a time.
    """
    if not metrics:
        return matrix
    builders = {column: LabelCountsBuilder(matrix) for column in metrics}
    for seq, columns in runs.items():
        positions = {column: columns.index(column) for column in metrics if column in columns}
        for page in _iter_shards(db, seq) if positions else ():
            traces = [measured.trace for measured in page]
            item_ids = [trace.item_id for trace in traces]
            # A set of its own: a metric that fails is removed while its columns are visited.
            for column in positions.keys() & builders.keys():
                values = [measured.values[positions[column]] for measured in page]
                summaries = summarize(metrics[column], values, traces)
                is_failed = isinstance(summaries, MetricFailed)
                if is_failed or not builders[column].add(item_ids, summaries):
                    log.warning("%s cannot be counted by item: %s", column, summaries)
                    del builders[column]
    return replace(matrix, counts={column: builder.counts for column, builder in builders.items()})


def _iter_shards(db: Database, run_seq: int) -> Iterable[list[MeasuredTrace]]:
    """The measured traces shard by shard, each read in a transaction of its own."""
    with db.read() as session:
        statement = select(RunShard.first, RunShard.last).where(RunShard.run_seq == run_seq)
        rows = session.execute(statement.order_by(RunShard.shard))
        shards = [ShardRange(*row) for row in rows]
    for shard in shards:
        with db.read() as session:
            page = _measured_traces(session, run_seq, shard)
        yield page


def _measured_traces(session: Session, run_seq: int, shard: ShardRange) -> list[MeasuredTrace]:
    statement = (
        select(CollectedTrace.__table__, TraceResult.values.label("metric_values"))
        .join(BenchmarkRun, BenchmarkRun.collection_id == CollectedTrace.collection_id)
        .join(
            TraceResult,
            (TraceResult.run_seq == BenchmarkRun.seq)
            & (TraceResult.position == CollectedTrace.position),
        )
        .where(
            BenchmarkRun.seq == run_seq,
            CollectedTrace.position.between(shard.first, shard.last),
            # Of both tables: where statistics are older than the run, Postgres would read all its results.
            TraceResult.position.between(shard.first, shard.last),
        )
        .order_by(CollectedTrace.position)
    )
    return [
        MeasuredTrace(trace_from_row(row), row.metric_values) for row in session.execute(statement)
    ]
