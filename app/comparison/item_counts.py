"""What the values of a whole run are made of, item by item, so that they can be resampled.

An F1 of labels is no mean of items: it is read off how often each label was confused. The traces of
a run are summarized once more, one by one, for metrics that say how such summaries add up.
"""

import logging
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.comparison.item_matrix import ItemCounts, ItemTable
from app.core.db import Database
from app.metrics.engine import attempt
from app.metrics.registry import load_metrics, provider_for
from app.metrics.types import CountedMetric, MetricFailed, MetricRef, Summary
from app.results.models import BenchmarkRun, RunShard, TraceResult
from app.results.queries import ShardRange
from app.traces.models import CollectedTrace
from app.traces.queries import trace_from_row
from app.traces.types import Trace

log = logging.getLogger(__name__)


class ValuedTrace(NamedTuple):
    """A trace of a run and what was measured of it."""

    trace: Trace
    values: Sequence[float | None]


# One table a trace, None where it has no value; or why there is none at all.
Tables: TypeAlias = list[Summary | None] | MetricFailed

# How a page of traces is summarized: here, or in a child process.
Summarize: TypeAlias = Callable[[MetricRef, Sequence[float | None], Sequence[Trace]], Tables]


def tables_of_traces(
    ref: MetricRef, values: Sequence[float | None], traces: Sequence[Trace]
) -> Tables:
    """The summary of each trace that has a value; what it takes and returns can cross processes."""
    load_metrics()
    provider = provider_for(ref)
    assert isinstance(provider, CountedMetric)
    return attempt(
        lambda: [
            None if value is None else provider.summarize([trace])
            for value, trace in zip(values, traces, strict=True)
        ]
    )


def with_counts(
    table: ItemTable,
    db: Database,
    runs: Mapping[int, Sequence[str]],
    counted: Mapping[str, MetricRef],
    summarize: Summarize = tables_of_traces,
) -> ItemTable:
    """The items of some runs with the counts of metrics by column; one that fails is left out.

    `runs` are the metrics of each run by its seq, as for `items_of_runs`.
    Cost:    reads the texts again, a shard at a time.
    """
    if not counted:
        return table
    gathered = {column: _Gathered(table) for column in counted}
    for seq, columns in runs.items():
        known = {column: columns.index(column) for column in counted if column in columns}
        for page in _pages(db, seq) if known else ():
            traces = [each.trace for each in page]
            for column in known.keys() & gathered.keys():
                values = [each.values[known[column]] for each in page]
                found = summarize(counted[column], values, traces)
                if isinstance(found, MetricFailed) or not gathered[column].add(traces, found):
                    log.warning("%s cannot be counted by item: %s", column, found)
                    del gathered[column]
    return replace(table, counts={name: each.counts for name, each in gathered.items()})


class _Gathered:
    """The counts of one metric, put together from the tables of traces."""

    def __init__(self, table: ItemTable) -> None:
        self._places = {item: place for place, item in enumerate(table.items)}
        self._names: dict[str, int] = {}
        self.counts = ItemCounts()

    def add(self, traces: Sequence[Trace], tables: Iterable[Summary | None]) -> bool:
        """Whether the tables are tables: names with as many numbers each as all others."""
        try:
            for trace, table in zip(traces, tables, strict=True):
                if table and trace.item_id in self._places:
                    self._add(self._places[trace.item_id], table)
        except (AttributeError, TypeError, ValueError):
            return False
        return True

    def _add(self, place: int, table: Mapping[str, Sequence[float]]) -> None:
        for name, numbers in table.items():
            if not self.counts.columns:
                self.counts.columns.extend(array("d") for _ in numbers)
            for column, number in zip(self.counts.columns, numbers, strict=True):
                column.append(number)
            self.counts.places.append(place)
            self.counts.of_names.append(self._names.setdefault(name, len(self._names)))
            if len(self.counts.names) < len(self._names):
                self.counts.names.append(name)


def _pages(db: Database, run_seq: int) -> Iterable[list[ValuedTrace]]:
    with db.read() as session:
        shards = select(RunShard.first, RunShard.last).where(RunShard.run_seq == run_seq)
        stretches = [ShardRange(*row) for row in session.execute(shards.order_by(RunShard.shard))]
    for stretch in stretches:
        with db.read() as session:
            page = _valued_traces(session, run_seq, stretch)
        yield page


def _valued_traces(session: Session, run_seq: int, stretch: ShardRange) -> list[ValuedTrace]:
    statement = (
        select(CollectedTrace.__table__, TraceResult.values.label("measured"))
        .join(BenchmarkRun, BenchmarkRun.collection_id == CollectedTrace.collection_id)
        .join(
            TraceResult,
            (TraceResult.run_seq == BenchmarkRun.seq)
            & (TraceResult.position == CollectedTrace.position),
        )
        .where(
            BenchmarkRun.seq == run_seq,
            CollectedTrace.position.between(stretch.first, stretch.last),
        )
        .order_by(CollectedTrace.position)
    )
    return [ValuedTrace(trace_from_row(row), row.measured) for row in session.execute(statement)]
