"""Measuring in child processes, and turning what was measured into columns."""

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from app.jobs.handlers import JobContext
from app.jobs.pool import CallLost, OutOfMemory
from app.metrics.aggregate import Aggregate, aggregate, with_run_value
from app.metrics.engine import CHUNK_SIZE, measure, score_within_limits
from app.metrics.lost_calls import failure_of_lost_call
from app.metrics.registry import provider_for
from app.metrics.run_value import (
    StoredSummary,
    failed_summary,
    is_run_metric,
    merge_summaries,
    summarize_traces,
    value_of_summary,
)
from app.metrics.types import (
    MetricFailed,
    MetricFailureKind,
    MetricRef,
    MetricSpec,
    SkipReason,
    TraceMeasurements,
)
from app.results.queries import ScoredTrace
from app.results.rules import TraceTally
from app.traces.types import Trace

# A metric that is lost so often in a shard is lost on every trace, and each costs its time.
MAX_LOST_CALLS = 3

NOT_COLLECTED = "NOT_COLLECTED"

# A metric that lacks one of these texts says nothing of the trace.
TEXT_IS_MISSING = frozenset({SkipReason.NO_EXPECTED_OUTPUT, SkipReason.NO_OUTPUT})


def score_traces(
    traces: Sequence[Trace],
    refs: tuple[MetricRef, ...],
    job: JobContext,
    checkpoint: Callable[[], None],
) -> list[TraceMeasurements]:
    """Every metric of every trace of a shard, in order; a provider that hangs or kills its process
    costs its own value only, and after `MOST_LOSSES` of them its other values of the shard.

    `checkpoint` is called before each wait for a child and raises when there is nothing to wait
    for any more.
    """
    scoring = _Scoring(job, checkpoint)
    measured: list[TraceMeasurements] = []
    for start in range(0, len(traces), CHUNK_SIZE):
        measured += scoring.rows(traces[start : start + CHUNK_SIZE], refs)
    return measured


class _Scoring:
    """The scoring of one shard; knows which metrics were lost too often to be tried again."""

    def __init__(self, job: JobContext, checkpoint: Callable[[], None]) -> None:
        self._job = job
        self._checkpoint = checkpoint
        self._losses: Counter[MetricRef] = Counter()
        self._given_up: dict[MetricRef, _GivenUp] = {}

    def rows(self, traces: Sequence[Trace], refs: tuple[MetricRef, ...]) -> list[TraceMeasurements]:
        """One row a trace, with a value or the reason why there is none for each metric."""
        tried = tuple(ref for ref in refs if ref not in self._given_up)
        rows = self._tried(traces, tried)
        if tried == refs:
            return rows
        given_up = {ref: self._given_up[ref] for ref in refs if ref not in tried}
        return [
            _completed(trace, row, refs, given_up) for trace, row in zip(traces, rows, strict=True)
        ]

    def _tried(
        self, traces: Sequence[Trace], refs: tuple[MetricRef, ...], *, again: bool = False
    ) -> list[TraceMeasurements]:
        if not refs:
            return [TraceMeasurements(trace.trace_id, (), {}) for trace in traces]
        self._checkpoint()
        job = self._job
        try:
            return job.pool.run(score_within_limits, traces, refs, timeout_s=job.call_timeout_s)
        except CallLost as lost:
            job.checkpoint()  # a worker that stops ends its pool: that is not the metric's fault
            if isinstance(lost, OutOfMemory) and not again:
                # What filled the process may have come with earlier traces; the next one is empty.
                return self._tried(traces, refs, again=True)
            if len(traces) > 1:
                return [row for trace in traces for row in self.rows([trace], refs)]
            if len(refs) > 1:
                return [_side_by_side([self.rows(traces, (ref,))[0] for ref in refs])]
            return [self._lost(traces[0], refs[0], failure_of_lost_call(lost))]

    def _lost(self, trace: Trace, ref: MetricRef, failure: MetricFailed) -> TraceMeasurements:
        self._losses[ref] += 1
        if self._losses[ref] == MAX_LOST_CALLS:
            self._given_up[ref] = _GivenUp(provider_for(ref).spec, failure.kind)
        return TraceMeasurements(trace.trace_id, (None,), {_column(ref): failure})


class _GivenUp:
    """In the place of a metric that is not asked any more: what the engine knows of a trace by
    itself stays known, and the rest fails in the way in which the metric was lost.
    """

    def __init__(self, spec: MetricSpec, kind: MetricFailureKind) -> None:
        self.spec = spec
        self._failure = MetricFailed(
            kind, f"not tried: it was lost on {MAX_LOST_CALLS} traces before"
        )

    def supports(self, trace: Trace) -> bool:  # noqa: ARG002
        return True

    def compute(self, trace: Trace) -> float:
        raise LookupError(f"{self.spec.key} is not asked for {trace.trace_id}")

    def row(self, trace: Trace) -> TraceMeasurements:
        """The row of this metric alone."""
        row = measure(trace, [self])
        raised = any(isinstance(why, MetricFailed) for why in row.missing.values())
        return row._replace(missing={self.spec.key: self._failure}) if raised else row


def _completed(
    trace: Trace,
    row: TraceMeasurements,
    refs: tuple[MetricRef, ...],
    given_up: Mapping[MetricRef, _GivenUp],
) -> TraceMeasurements:
    """The row with the metrics that were not asked in their places."""
    others = {ref: metric.row(trace) for ref, metric in given_up.items()}
    values = iter(row.values)
    missing = dict(row.missing)
    for other in others.values():
        missing |= other.missing
    return TraceMeasurements(
        trace_id=row.trace_id,
        values=tuple(others[ref].values[0] if ref in others else next(values) for ref in refs),
        missing=missing,
    )


def _side_by_side(rows: Sequence[TraceMeasurements]) -> TraceMeasurements:
    """One row of the rows that each hold one metric of the same trace."""
    return TraceMeasurements(
        trace_id=rows[0].trace_id,
        values=tuple(value for row in rows for value in row.values),
        missing={key: why for row in rows for key, why in row.missing.items()},
    )


def summarize(
    traces: Sequence[Trace],
    measured: Sequence[TraceMeasurements],
    refs: tuple[MetricRef, ...],
    job: JobContext,
    checkpoint: Callable[[], None],
    *,
    known: Mapping[str, StoredSummary] | None = None,
) -> dict[str, StoredSummary]:
    """What the values of the whole run are made of, by column, for metrics that have one; `known`
    is taken as it is. `checkpoint` as in `score_traces`.
    """
    found = dict(known or {})
    for place, ref in enumerate(refs):
        if is_run_metric(ref) and _column(ref) not in found:
            checkpoint()
            column = [row.values[place] for row in measured]
            found[_column(ref)] = _noted(job, summarize_traces, ref, column, traces)
    return found


class RunValues:
    """The values of a whole run, put together from what was stored of its shards."""

    def __init__(self, refs: Sequence[MetricRef], job: JobContext) -> None:
        self._refs = {_column(ref): ref for ref in refs if is_run_metric(ref)}
        self._job = job
        self._notes: dict[str, StoredSummary] = {}

    def __bool__(self) -> bool:
        return bool(self._refs)

    def add(self, shards: Sequence[Mapping[str, StoredSummary]]) -> None:
        """Merge the notes of some shards, in any order, each once."""
        for column, ref in self._refs.items():
            self._job.checkpoint()
            known = [self._notes[column]] if column in self._notes else []
            notes = known + [notes[column] for notes in shards if column in notes]
            if notes:
                self._notes[column] = _noted(self._job, merge_summaries, ref, notes)

    def into(self, aggregates: Mapping[str, Aggregate]) -> dict[str, Aggregate]:
        """The same aggregates, with these values as their means; without a trace there is none."""
        found = dict(aggregates)
        for column, note in self._notes.items():
            if found[column].n:
                found[column] = with_run_value(found[column], self._value(column, note))
        return found

    def _value(self, column: str, note: StoredSummary) -> float | MetricFailed | None:
        self._job.checkpoint()
        try:
            return self._job.pool.run(
                value_of_summary, self._refs[column], note, timeout_s=self._job.call_timeout_s
            )
        except CallLost as lost:
            self._job.checkpoint()
            return failure_of_lost_call(lost)


def _noted(
    job: JobContext, function: Callable[..., StoredSummary], *arguments: object
) -> StoredSummary:
    try:
        return job.pool.run(function, *arguments, timeout_s=job.call_timeout_s)
    except CallLost as lost:
        job.checkpoint()
        return failed_summary(failure_of_lost_call(lost))


def _column(ref: MetricRef) -> str:
    return provider_for(ref).spec.key


class Columns:
    """The values of a run, metric by metric: eight bytes each, whatever the texts were. Where items
    have `trials`, as many for the item of each value, and the ids of the items.
    """

    def __init__(self, columns: Sequence[str], *, trials: bool) -> None:
        self._names = list(columns)
        self._values = [array("d") for _ in columns]
        self._places = [array("l") for _ in columns] if trials else None
        self._items: dict[str, int] = {}
        self._missing: list[Counter[str]] = [Counter() for _ in columns]
        self._index = {name: index for index, name in enumerate(columns)}
        self._total = self._covered = self._lost = self._failed = self._absent = 0

    def add(self, row: ScoredTrace) -> None:
        for column, value in zip(self._values, row.values, strict=True):
            if value is not None:
                column.append(value)
        if self._places is not None:
            item = self._items.setdefault(row.item_id, len(self._items))
            for places, value in zip(self._places, row.values, strict=True):
                if value is not None:
                    places.append(item)
        notes = row.notes or {}
        for name, why in notes.items():
            reason = why.get("skipped") or why.get("failed")
            if reason:
                self._missing[self._index[name]][reason] += 1
        self._total += 1
        lost = row.outcome.is_missing
        self._lost += lost
        self._failed += sum("failed" in why for why in notes.values())
        self._covered += not lost and not any(
            why.get("skipped") in TEXT_IS_MISSING for why in notes.values()
        )

    def add_absent(self, traces: int) -> None:
        """Traces that the source counts and did not give: missing from every metric."""
        if traces <= 0:
            return
        self._absent += traces
        self._total += traces
        for missing in self._missing:
            missing[NOT_COLLECTED] += traces

    def aggregates(self) -> dict[str, Aggregate]:
        """The aggregate of each metric, by column name."""
        return {
            name: aggregate(
                self._values[at],
                expected=self._total,
                missing=self._missing[at],
                items=self._places[at] if self._places is not None else None,
            )
            for name, at in self._index.items()
        }

    def tally(self) -> TraceTally:
        return TraceTally(
            total=self._total,
            covered=self._covered,
            lost=self._lost,
            measurements=(self._total - self._absent - self._lost) * len(self._names),
            failed=self._failed,
        )
