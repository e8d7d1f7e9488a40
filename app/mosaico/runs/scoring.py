"""Computes metric values of traces, and of whole runs, in child processes."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from mosaico.jobs.handlers import JobContext
from mosaico.jobs.lost_calls import CallLost, OutOfMemory
from mosaico.metrics.aggregate import Aggregate, with_run_value
from mosaico.metrics.engine import CHUNK_SIZE, failure_of_lost_call, measure, score_within_limits
from mosaico.metrics.registry import provider_for
from mosaico.metrics.run_value import (
    StoredSummary,
    failed_summary,
    is_run_metric,
    merge_summaries,
    summarize_traces,
    value_of_summary,
)
from mosaico.metrics.types import (
    MetricFailed,
    MetricFailureKind,
    MetricRef,
    MetricSpec,
    TraceMeasurements,
)
from mosaico.traces.types import Trace

# A metric that lost so many calls in a shard would lose them on every trace, and each costs time.
MAX_LOST_CALLS = 3


def score_traces(
    traces: Sequence[Trace],
    refs: tuple[MetricRef, ...],
    job: JobContext,
) -> list[TraceMeasurements]:
    """Every metric of every trace of a shard, in order.

    A provider that hangs or kills its process loses one value only, and after `MAX_LOST_CALLS` of
    them its remaining values of the shard.
    """
    scorer = _ShardScorer(job)
    rows: list[TraceMeasurements] = []
    for start in range(0, len(traces), CHUNK_SIZE):
        rows += scorer.rows(traces[start : start + CHUNK_SIZE], refs)
    return rows


class _ShardScorer:
    """Scores one shard; metrics that lose too many calls are disabled."""

    def __init__(self, job: JobContext) -> None:
        self._job = job
        self._lost_calls: Counter[MetricRef] = Counter()
        self._disabled: dict[MetricRef, _DisabledMetric] = {}

    def rows(self, traces: Sequence[Trace], refs: tuple[MetricRef, ...]) -> list[TraceMeasurements]:
        """One row per trace, with a value or the reason for its absence for each metric."""
        enabled = tuple(ref for ref in refs if ref not in self._disabled)
        rows = self._compute(traces, enabled)
        if enabled == refs:
            return rows
        disabled = {ref: self._disabled[ref] for ref in refs if ref not in enabled}
        return [
            _insert_disabled(trace, row, refs, disabled)
            for trace, row in zip(traces, rows, strict=True)
        ]

    def _compute(
        self, traces: Sequence[Trace], refs: tuple[MetricRef, ...], *, is_retry: bool = False
    ) -> list[TraceMeasurements]:
        if not refs:
            return [TraceMeasurements(trace.trace_id, (), {}) for trace in traces]
        job = self._job
        job.checkpoint()
        try:
            return job.pool.run(score_within_limits, traces, refs, timeout_s=job.call_timeout_s)
        except CallLost as lost:
            job.checkpoint()  # a worker that stops ends its pool: not the fault of the metric
            if isinstance(lost, OutOfMemory) and not is_retry:
                # Earlier traces may have filled the memory of the process; the next one is new.
                return self._compute(traces, refs, is_retry=True)
            # Narrow it down: first to one trace, then to one metric.
            if len(traces) > 1:
                return [row for trace in traces for row in self.rows([trace], refs)]
            if len(refs) > 1:
                # Metric by metric: the others keep their values for this trace.
                return [_join_rows([self.rows(traces, (ref,))[0] for ref in refs])]
            return [self._record_loss(traces[0], refs[0], failure_of_lost_call(lost))]

    def _record_loss(
        self, trace: Trace, ref: MetricRef, failure: MetricFailed
    ) -> TraceMeasurements:
        self._lost_calls[ref] += 1
        if self._lost_calls[ref] == MAX_LOST_CALLS:
            self._disabled[ref] = _DisabledMetric(provider_for(ref).spec, failure.kind)
        return TraceMeasurements(trace.trace_id, (None,), {_column(ref): failure})


class _DisabledMetric:
    """Placeholder of a metric that is no longer computed.

    The measurements that the engine makes without the provider remain; all others fail in the same
    way as the calls that were lost.
    """

    def __init__(self, spec: MetricSpec, kind: MetricFailureKind) -> None:
        self.spec = spec
        self._failure = MetricFailed(
            kind, f"not computed: the metric was lost on {MAX_LOST_CALLS} traces before"
        )

    def supports(self, trace: Trace) -> bool:  # noqa: ARG002
        return True

    def compute(self, trace: Trace) -> float:
        raise LookupError(f"{self.spec.key} is disabled, also for {trace.trace_id}")

    def row(self, trace: Trace) -> TraceMeasurements:
        """A row with this metric only."""
        row = measure(trace, [self])
        raised = any(isinstance(reason, MetricFailed) for reason in row.missing.values())
        return row._replace(missing={self.spec.key: self._failure}) if raised else row


def _insert_disabled(
    trace: Trace,
    row: TraceMeasurements,
    refs: tuple[MetricRef, ...],
    disabled: Mapping[MetricRef, _DisabledMetric],
) -> TraceMeasurements:
    """The row with the disabled metrics at their positions."""
    disabled_rows = {ref: metric.row(trace) for ref, metric in disabled.items()}
    values = iter(row.values)
    missing = dict(row.missing)
    for disabled_row in disabled_rows.values():
        missing |= disabled_row.missing
    return TraceMeasurements(
        trace_id=row.trace_id,
        values=tuple(
            disabled_rows[ref].values[0] if ref in disabled_rows else next(values) for ref in refs
        ),
        missing=missing,
    )


def _join_rows(rows: Sequence[TraceMeasurements]) -> TraceMeasurements:
    """Join rows of one trace that contain one metric each to one row."""
    return TraceMeasurements(
        trace_id=rows[0].trace_id,
        values=tuple(value for row in rows for value in row.values),
        missing={key: reason for row in rows for key, reason in row.missing.items()},
    )


def summarize(
    traces: Sequence[Trace],
    rows: Sequence[TraceMeasurements],
    refs: tuple[MetricRef, ...],
    job: JobContext,
    *,
    cached: Mapping[str, StoredSummary] | None = None,
) -> dict[str, StoredSummary]:
    """Summaries by column of the metrics that have a value of the whole run.

    `cached` summaries are taken as they are.
    """
    summaries = dict(cached or {})
    for index, ref in enumerate(refs):
        if is_run_metric(ref) and _column(ref) not in summaries:
            job.checkpoint()
            column = [row.values[index] for row in rows]
            summaries[_column(ref)] = _run_in_child(job, summarize_traces, ref, column, traces)
    return summaries


class RunValues:
    """The values of a whole run, computed from the stored summaries of its shards."""

    def __init__(self, refs: Sequence[MetricRef], job: JobContext) -> None:
        self._refs = {_column(ref): ref for ref in refs if is_run_metric(ref)}
        self._job = job
        self._summaries: dict[str, StoredSummary] = {}

    def __bool__(self) -> bool:
        return bool(self._refs)

    def add(self, shards: Sequence[Mapping[str, StoredSummary]]) -> None:
        """Merge the summaries of some shards, in any order, each shard once."""
        for column, ref in self._refs.items():
            self._job.checkpoint()
            merged = [self._summaries[column]] if column in self._summaries else []
            summaries = merged + [shard[column] for shard in shards if column in shard]
            if summaries:
                self._summaries[column] = _run_in_child(self._job, merge_summaries, ref, summaries)

    def into(self, aggregates: Mapping[str, Aggregate]) -> dict[str, Aggregate]:
        """The aggregates with these values as their means, where a metric has any value at all."""
        replaced = dict(aggregates)
        for column, summary in self._summaries.items():
            if replaced[column].n:
                replaced[column] = with_run_value(replaced[column], self._value(column, summary))
        return replaced

    def _value(self, column: str, summary: StoredSummary) -> float | MetricFailed | None:
        self._job.checkpoint()
        try:
            return self._job.pool.run(
                value_of_summary, self._refs[column], summary, timeout_s=self._job.call_timeout_s
            )
        except CallLost as lost:
            self._job.checkpoint()
            return failure_of_lost_call(lost)


def _run_in_child(
    job: JobContext, function: Callable[..., StoredSummary], *arguments: object
) -> StoredSummary:
    try:
        return job.pool.run(function, *arguments, timeout_s=job.call_timeout_s)
    except CallLost as lost:
        job.checkpoint()
        return failed_summary(failure_of_lost_call(lost))


def _column(ref: MetricRef) -> str:
    return provider_for(ref).spec.key
