"""Metric cache: the values of a shard that earlier runs have measured.

A value is reused when a completed run measured the same collection with the same version of the
same metric and the same rules of errors. Failed values are measured again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from sqlalchemy import cast, func, select, tuple_, type_coerce
from sqlalchemy.dialects.postgresql import JSONB, distinct_on
from sqlalchemy.orm import Session

from mosaico.metrics.run_value import StoredSummary, is_run_metric
from mosaico.metrics.types import (
    Measurement,
    MetricNote,
    MetricRef,
    MetricSkipped,
    MetricSkipReason,
    Missing,
    TraceMeasurements,
)
from mosaico.run_store.models import BenchmarkRun, RunMetricAggregate, RunShard, TraceResult
from mosaico.run_store.plan import PlannedMetric
from mosaico.run_store.rules import RunStatus
from mosaico.runs.leases import ShardLease
from mosaico.traces.models import CollectedTrace
from mosaico.traces.types import Trace

MeasurementColumn: TypeAlias = list[Measurement | None]
Measure: TypeAlias = Callable[[Sequence[Trace], tuple[MetricRef, ...]], Sequence[TraceMeasurements]]


class _CachedColumns(NamedTuple):
    """Measurements by column name, and the reasons of models by row and column name."""

    columns: dict[str, MeasurementColumn]
    reasons: dict[int, dict[str, str]]


class CachedColumn(NamedTuple):
    """The run that measured a column, and the index of the column in its rows."""

    run_seq: int
    column_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedShard:
    """The reusable values of a shard of `size` traces.

    `columns` holds one measurement per trace, None where it has to be measured. `reasons` are
    those that models gave, by row and column. `summaries` are those of complete columns.
    `trace_ids` is empty when there is no column.
    """

    metrics: tuple[PlannedMetric, ...]
    size: int
    trace_ids: Sequence[str] = ()
    columns: Mapping[str, MeasurementColumn] = field(default_factory=dict)
    reasons: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    summaries: Mapping[str, StoredSummary] = field(default_factory=dict)

    @property
    def value_count(self) -> int:
        """The number of reusable values."""
        return sum(
            isinstance(measurement, float)
            for column in self.columns.values()
            for measurement in column
        )

    @property
    def needs_traces(self) -> bool:
        """Return whether something has to be computed from the traces."""
        # Most runs are the first ones over their traces.
        if not self.columns:
            return bool(self.metrics)
        return bool(self._gaps()) or any(
            is_run_metric(metric.ref) and metric.column not in self.summaries
            for metric in self.metrics
        )

    def fill(self, traces: Sequence[Trace], measure: Measure) -> Sequence[TraceMeasurements]:
        """The complete rows of the shard; `measure` is called for the missing values only.

        `traces` are those of the shard; they are not read unless it `needs_traces`.
        """
        if not self.columns:
            return measure(traces, tuple(metric.ref for metric in self.metrics))
        columns = {name: list(column) for name, column in self.columns.items()}
        reasons = {row: dict(row_reasons) for row, row_reasons in self.reasons.items()}
        for gap, metrics in self._gaps().items():
            # One call per set of missing rows, with all its metrics: a metric that was added needs
            # all rows, one that failed needs few.
            measured = measure(
                [traces[row] for row in gap], tuple(metric.ref for metric in metrics)
            )
            for row, measurements in zip(gap, measured, strict=True):
                if measurements.reasons:
                    reasons.setdefault(row, {}).update(measurements.reasons)
            for index, metric in enumerate(metrics):
                column = columns.setdefault(metric.column, [None] * self.size)
                for row, measurements in zip(gap, measured, strict=True):
                    value = measurements.values[index]
                    column[row] = measurements.missing[metric.column] if value is None else value
        ordered = [columns[metric.column] for metric in self.metrics]
        return [
            self._row(self.trace_ids[row], values)._replace(reasons=reasons.get(row))
            for row, values in enumerate(zip(*ordered, strict=True))
        ]

    def _gaps(self) -> dict[tuple[int, ...], list[PlannedMetric]]:
        """The incomplete metrics by their missing rows, so that each set of rows is read once."""
        gaps: dict[tuple[int, ...], list[PlannedMetric]] = {}
        for metric in self.metrics:
            column = self.columns.get(metric.column, [None] * self.size)
            gap = tuple(row for row, measurement in enumerate(column) if measurement is None)
            if gap:
                gaps.setdefault(gap, []).append(metric)
        return gaps

    def _row(self, trace_id: str, measurements: Sequence[Measurement | None]) -> TraceMeasurements:
        missing: dict[str, Missing] = {
            metric.column: measurement
            for metric, measurement in zip(self.metrics, measurements, strict=True)
            if measurement is not None and not isinstance(measurement, float)
        }
        values = tuple(
            measurement if isinstance(measurement, float) else None for measurement in measurements
        )
        return TraceMeasurements(trace_id, values, missing)


def read_cached_shard(session: Session, lease: ShardLease) -> CachedShard:
    """The values that completed runs measured on the traces of a shard."""
    sources, size = _source_runs(session, lease), lease.last - lease.first + 1
    if not sources:
        return CachedShard(metrics=lease.plan.metrics, size=size)
    columns, reasons = _read_columns(session, lease, sources)
    # A summary of an incomplete column lacks the traces that are measured again now.
    complete = {name: sources[name] for name, column in columns.items() if None not in column}
    return CachedShard(
        metrics=lease.plan.metrics,
        size=size,
        trace_ids=_trace_ids(session, lease),
        columns=columns,
        reasons=reasons,
        summaries=_read_summaries(session, lease, complete),
    )


_INFRA_ERRORS: Final = func.coalesce(
    type_coerce(BenchmarkRun.plan, JSONB)["infra_errors"], cast([], JSONB), type_=JSONB
)


def _source_runs(session: Session, lease: ShardLease) -> dict[str, CachedColumn]:
    """The newest completed run that measured each column in the planned version."""
    versions = [(metric.column, metric.full_version) for metric in lease.plan.metrics]
    statement = (
        select(RunMetricAggregate.metric, RunMetricAggregate.run_seq, RunMetricAggregate.ordinal)
        .join(BenchmarkRun, BenchmarkRun.seq == RunMetricAggregate.run_seq)
        .where(
            BenchmarkRun.collection_id == lease.collection_id,
            # A failed or running run may have measured a part only.
            BenchmarkRun.status == RunStatus.COMPLETED,
            # Other rules of errors leave out other traces.
            _INFRA_ERRORS.op("=")(cast(list(lease.plan.infra_errors), JSONB)),
            tuple_(RunMetricAggregate.metric, RunMetricAggregate.version).in_(versions),
        )
        .ext(distinct_on(RunMetricAggregate.metric))
        .order_by(RunMetricAggregate.metric, RunMetricAggregate.run_seq.desc())
    )
    return {
        row.metric: CachedColumn(row.run_seq, row.ordinal) for row in session.execute(statement)
    }


def _read_columns(
    session: Session, lease: ShardLease, sources: Mapping[str, CachedColumn]
) -> _CachedColumns:
    cached = _CachedColumns({name: [] for name in sources}, {})
    for run_seq in {source.run_seq for source in sources.values()}:
        indexes = {
            name: source.column_index
            for name, source in sources.items()
            if source.run_seq == run_seq
        }
        statement = (
            select(TraceResult.values, TraceResult.notes)
            .where(
                TraceResult.run_seq == run_seq,
                TraceResult.position.between(lease.first, lease.last),
            )
            .order_by(TraceResult.position)
        )
        for row, (values, notes) in enumerate(session.execute(statement)):
            for name, index in indexes.items():
                note = (notes or {}).get(name, {})
                cached.columns[name].append(_measurement(values[index], note))
                if "reason" in note:
                    cached.reasons.setdefault(row, {})[name] = note["reason"]
    return cached


def _measurement(value: float | None, note: MetricNote) -> Measurement | None:
    """The measurement behind a stored value and its note; None for a failed one."""
    # Skipped values depend on the trace only and are as valid as numbers; a failure may not happen
    # again.
    if value is None and "skipped" in note:
        return MetricSkipped(MetricSkipReason(note["skipped"]))
    if value is None and not note:
        return MetricSkipped(MetricSkipReason.NOT_SELECTED)
    return value


def _trace_ids(session: Session, lease: ShardLease) -> list[str]:
    statement = (
        select(CollectedTrace.trace_id)
        .where(
            CollectedTrace.collection_id == lease.collection_id,
            CollectedTrace.position.between(lease.first, lease.last),
        )
        .order_by(CollectedTrace.position)
    )
    return list(session.scalars(statement))


def _read_summaries(
    session: Session, lease: ShardLease, sources: Mapping[str, CachedColumn]
) -> dict[str, StoredSummary]:
    """The summaries by column that the source runs stored for a shard with the same limits."""
    statement = select(RunShard.run_seq, RunShard.summaries).where(
        RunShard.run_seq.in_({source.run_seq for source in sources.values()}),
        # Shards of other limits summarize other traces.
        RunShard.first == lease.first,
        RunShard.last == lease.last,
        RunShard.summaries.is_not(None),
    )
    by_run = {row.run_seq: row.summaries for row in session.execute(statement)}
    summaries = {name: by_run.get(source.run_seq, {}).get(name) for name, source in sources.items()}
    # A failed summary holds no "summary"; it is computed again.
    return {
        name: summary for name, summary in summaries.items() if summary and "summary" in summary
    }
