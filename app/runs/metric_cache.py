"""What an earlier run measured on the same traces is not measured again.

A value is taken over when a completed run has measured the same collection by the same version of
the same metric. Values that could not be measured are tried again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from sqlalchemy import select, tuple_
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import Session

from app.metrics.run_value import StoredSummary, is_run_metric
from app.metrics.types import (
    Measurement,
    MetricRef,
    MetricSkipped,
    Missing,
    SkipReason,
    TraceMeasurements,
)
from app.results.models import BenchmarkRun, RunMetric, RunShard, TraceResult
from app.results.plan import PlannedMetric
from app.results.rules import RunStatus
from app.runs.leases import ShardLease
from app.traces.models import CollectedTrace
from app.traces.types import Trace

Column: TypeAlias = list[Measurement | None]
Measure: TypeAlias = Callable[[Sequence[Trace], tuple[MetricRef, ...]], Sequence[TraceMeasurements]]


class _Columns(NamedTuple):
    """What was measured by column, and the reasons of models by place and column."""

    columns: dict[str, Column]
    reasons: dict[int, dict[str, str]]


class _Donor(NamedTuple):
    """Where a column was measured: the run, and the place in its rows."""

    run_seq: int
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What is known of a shard of `size` traces: a measurement of each by column, None where it is
    not. `reasons` are those that models gave, by place and column; `summaries` are those of the columns that are known as a whole. Without a column
    `trace_ids` is empty.
    """

    metrics: tuple[PlannedMetric, ...]
    size: int
    trace_ids: Sequence[str] = ()
    columns: Mapping[str, Column] = field(default_factory=dict)
    reasons: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    summaries: Mapping[str, StoredSummary] = field(default_factory=dict)

    @property
    def values(self) -> int:
        """How many values are known."""
        return sum(isinstance(one, float) for column in self.columns.values() for one in column)

    @property
    def needs_traces(self) -> bool:
        """Whether something is left to be computed from the traces."""
        return bool(self._gaps()) or any(
            is_run_metric(metric.ref) and metric.column not in self.summaries
            for metric in self.metrics
        )

    def completed(self, traces: Sequence[Trace], measure: Measure) -> Sequence[TraceMeasurements]:
        """The whole rows of the shard; only what is not known is measured.

        `traces` are those of the shard; nobody looks at them unless it `needs_traces`.
        """
        if not self.columns:
            return measure(traces, tuple(metric.ref for metric in self.metrics))
        columns = {name: list(column) for name, column in self.columns.items()}
        reasons = {place: dict(theirs) for place, theirs in self.reasons.items()}
        for gaps, metrics in self._gaps().items():
            rows = measure([traces[place] for place in gaps], tuple(one.ref for one in metrics))
            for place, row in zip(gaps, rows, strict=True):
                if row.reasons:
                    reasons.setdefault(place, {}).update(row.reasons)
            for number, metric in enumerate(metrics):
                column = columns.setdefault(metric.column, [None] * self.size)
                for place, row in zip(gaps, rows, strict=True):
                    value = row.values[number]
                    column[place] = row.missing[metric.column] if value is None else value
        ordered = [columns[metric.column] for metric in self.metrics]
        return [
            self._row(self.trace_ids[place], row)._replace(reasons=reasons.get(place))
            for place, row in enumerate(zip(*ordered, strict=True))
        ]

    def _gaps(self) -> dict[tuple[int, ...], list[PlannedMetric]]:
        """The metrics that are not fully known, by the places that they lack."""
        found: dict[tuple[int, ...], list[PlannedMetric]] = {}
        for metric in self.metrics:
            column = self.columns.get(metric.column, [None] * self.size)
            gaps = tuple(place for place, one in enumerate(column) if one is None)
            if gaps:
                found.setdefault(gaps, []).append(metric)
        return found

    def _row(self, trace_id: str, row: Sequence[Measurement | None]) -> TraceMeasurements:
        missing: dict[str, Missing] = {
            metric.column: one
            for metric, one in zip(self.metrics, row, strict=True)
            if one is not None and not isinstance(one, float)
        }
        values = tuple(one if isinstance(one, float) else None for one in row)
        return TraceMeasurements(trace_id, values, missing)


def measured_before(session: Session, step: ShardLease) -> Before:
    """What completed runs measured on the traces of a shard."""
    donors, size = _donors(session, step), step.last - step.first + 1
    if not donors:
        return Before(metrics=step.plan.metrics, size=size)
    columns, reasons = _columns(session, step, donors)
    whole = {name: donors[name] for name, column in columns.items() if None not in column}
    return Before(
        metrics=step.plan.metrics,
        size=size,
        trace_ids=_trace_ids(session, step),
        columns=columns,
        reasons=reasons,
        summaries=_summaries(session, step, whole),
    )


def _donors(session: Session, step: ShardLease) -> dict[str, _Donor]:
    """The newest run that measured each column in the version that is wanted."""
    wanted = [(metric.column, metric.version) for metric in step.plan.metrics]
    statement = (
        select(RunMetric.metric, RunMetric.run_seq, RunMetric.ordinal)
        .join(BenchmarkRun, BenchmarkRun.seq == RunMetric.run_seq)
        .where(
            BenchmarkRun.collection_id == step.collection_id,
            BenchmarkRun.status == RunStatus.COMPLETED,
            tuple_(RunMetric.metric, RunMetric.version).in_(wanted),
        )
        .ext(distinct_on(RunMetric.metric))
        .order_by(RunMetric.metric, RunMetric.run_seq.desc())
    )
    return {row.metric: _Donor(row.run_seq, row.ordinal) for row in session.execute(statement)}


def _columns(session: Session, step: ShardLease, donors: Mapping[str, _Donor]) -> _Columns:
    found = _Columns({name: [] for name in donors}, {})
    for run_seq in {donor.run_seq for donor in donors.values()}:
        theirs = {name: donor.place for name, donor in donors.items() if donor.run_seq == run_seq}
        statement = (
            select(TraceResult.values, TraceResult.notes)
            .where(
                TraceResult.run_seq == run_seq,
                TraceResult.position.between(step.first, step.last),
            )
            .order_by(TraceResult.position)
        )
        for row, (values, notes) in enumerate(session.execute(statement)):
            for name, place in theirs.items():
                note = (notes or {}).get(name, {})
                found.columns[name].append(_measurement(values[place], note))
                if "reason" in note:
                    found.reasons.setdefault(row, {})[name] = note["reason"]
    return found


def _measurement(value: float | None, note: Mapping[str, str]) -> Measurement | None:
    """What a stored value and its note say; None for one that could not be measured."""
    if value is None and "skipped" in note:
        return MetricSkipped(SkipReason(note["skipped"]))
    return value


def _trace_ids(session: Session, step: ShardLease) -> list[str]:
    statement = (
        select(CollectedTrace.trace_id)
        .where(
            CollectedTrace.collection_id == step.collection_id,
            CollectedTrace.position.between(step.first, step.last),
        )
        .order_by(CollectedTrace.position)
    )
    return list(session.scalars(statement))


def _summaries(
    session: Session, step: ShardLease, donors: Mapping[str, _Donor]
) -> dict[str, StoredSummary]:
    """What the same runs have summarized of exactly this stretch, unless it failed."""
    statement = select(RunShard.run_seq, RunShard.summaries).where(
        RunShard.run_seq.in_({donor.run_seq for donor in donors.values()}),
        RunShard.first == step.first,
        RunShard.last == step.last,
        RunShard.summaries.is_not(None),
    )
    found = {row.run_seq: row.summaries for row in session.execute(statement)}
    notes = {name: found.get(donor.run_seq, {}).get(name) for name, donor in donors.items()}
    return {name: note for name, note in notes.items() if note and "summary" in note}
