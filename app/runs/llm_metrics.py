"""Measures the traces of a shard by metrics that need a model.

    requests (child process) → LLM cache → model server → values (child process)

After a kill only the requests in flight are sent again. No transaction waits for the server.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from app.core.resources import LlmServer
from app.jobs.handlers import JobContext
from app.jobs.process_pool import CallLost
from app.llm.completion_pool import CompletionPool
from app.llm.errors import LlmNotConfigured
from app.llm.retry import COMPLETION_RETRIES, LlmRetryPolicy
from app.llm.types import ModelRequest, request_key
from app.metrics.engine import CHUNK_SIZE
from app.metrics.lost_process_failures import failure_of_lost_call
from app.metrics.model_metrics import (
    AnsweredTrace,
    JudgedTrace,
    TraceRequests,
    is_remote,
    judge_traces,
    requests_for_traces,
)
from app.metrics.registry import provider_for
from app.metrics.types import (
    Measurement,
    MetricFailed,
    MetricFailureKind,
    MetricRef,
    Missing,
    TraceMeasurements,
)
from app.runs.completion_fetcher import AnswersByKey, Checkpoint, CompletionFetcher
from app.runs.llm_cache import evict_answers, get_answers
from app.runs.scoring import MAX_LOST_CALLS, score_traces
from app.traces.types import Trace

Input = TypeVar("Input")
Output = TypeVar("Output")

# Bounds the requests and answers that are in memory at a time.
TRACE_BATCH_SIZE: Final = 256

RETRIES: LlmRetryPolicy = COMPLETION_RETRIES


def measure_traces(
    traces: Sequence[Trace],
    refs: tuple[MetricRef, ...],
    *,
    job: JobContext,
    run_seq: int,
    checkpoint: Checkpoint,
    cache_suffix: str = "",
) -> list[TraceMeasurements]:
    """Every metric of every trace of a shard, in order: first the local metrics, then the others.

    `checkpoint` raises when the values are no longer needed; answers are shared with runs of the
    same `cache_suffix` only.
    """
    remote = tuple(ref for ref in refs if is_remote(ref))
    local = tuple(ref for ref in refs if ref not in remote)
    local_rows = score_traces(traces, local, job, checkpoint)
    if not remote:
        return local_rows
    remote_rows = measure_remote(
        traces, remote, job=job, run_seq=run_seq, checkpoint=checkpoint, cache_suffix=cache_suffix
    )
    return [_merge_rows(refs, local, *rows) for rows in zip(local_rows, remote_rows, strict=True)]


def measure_remote(
    traces: Sequence[Trace],
    refs: tuple[MetricRef, ...],
    *,
    job: JobContext,
    run_seq: int,
    checkpoint: Checkpoint,
    cache_suffix: str = "",
) -> list[TraceMeasurements]:
    """The values of metrics that need a model, one row per trace.

    Raises: the errors of `app.llm.errors`, when no request can succeed.
    """
    # The SDK takes half a second to import, and most workers never need it.
    from app.llm.completions import open_completions

    access = _require_access(job.resources.llm_server)
    client = open_completions(access, policy=job.resources.outbound, retries=RETRIES)
    cache_scope = access.base_url + cache_suffix
    rows: list[TraceMeasurements] = []
    with CompletionPool(client) as pool:
        measurement = _RemoteMeasurement(
            job=job,
            checkpoint=checkpoint,
            cache_scope=cache_scope,
            fetcher=CompletionFetcher(job, run_seq, cache_scope, pool),
        )
        for start in range(0, len(traces), TRACE_BATCH_SIZE):
            rows += measurement.rows(traces[start : start + TRACE_BATCH_SIZE], refs)
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _RemoteMeasurement:
    """The measurement of one shard; counts the lost calls of each metric."""

    job: JobContext
    checkpoint: Checkpoint
    cache_scope: str
    fetcher: CompletionFetcher
    lost_calls: Counter[MetricRef] = field(default_factory=Counter)

    def rows(self, traces: Sequence[Trace], refs: Sequence[MetricRef]) -> list[TraceMeasurements]:
        """One row per trace, in the order of the metrics."""
        request_columns = [self._in_child(requests_for_traces, ref, traces) for ref in refs]
        answers = self._answers(
            request
            for column in request_columns
            for requests in column
            if isinstance(requests, list)
            for request in requests
        )
        columns = [
            self._judge_column(ref, traces, column, answers)
            for ref, column in zip(refs, request_columns, strict=True)
        ]
        names = [provider_for(ref).spec.key for ref in refs]
        return [
            _row(trace, dict(zip(names, row, strict=True)))
            for trace, row in zip(traces, zip(*columns, strict=True), strict=True)
        ]

    def _answers(self, requests: Iterable[ModelRequest]) -> AnswersByKey:
        """The answers by request key, from the LLM cache or the server."""
        # Equal requests of several traces or metrics are sent once.
        by_key = {self._key(request): request for request in requests}
        with self.job.resources.db.read() as session:
            cached = get_answers(session, list(by_key))
        missing = [request for key, request in by_key.items() if key not in cached]
        return {**cached, **self.fetcher.fetch(missing, self.checkpoint)}

    def _judge_column(
        self,
        ref: MetricRef,
        traces: Sequence[Trace],
        requests: Sequence[TraceRequests | Measurement],
        answers: AnswersByKey,
    ) -> list[JudgedTrace]:
        """The values of one metric, in the order of the traces."""
        judged: dict[int, JudgedTrace] = {}
        answered_traces: dict[int, AnsweredTrace] = {}
        for index, trace in enumerate(traces):
            match self._collect_answers(trace, requests[index], answers):
                case AnsweredTrace() as with_answers:
                    answered_traces[index] = with_answers
                case measurement:
                    judged[index] = JudgedTrace(measurement)
        verdicts = self._in_child(judge_traces, ref, list(answered_traces.values()))
        for index, verdict in zip(answered_traces, verdicts, strict=True):
            judged[index] = JudgedTrace(verdict) if isinstance(verdict, MetricFailed) else verdict
        # Otherwise the same unusable answer would be read again in every later run.
        self._evict(requests[index] for index in answered_traces if _is_judge_error(judged[index]))
        return [judged[index] for index in range(len(traces))]

    def _collect_answers(
        self, trace: Trace, requests: TraceRequests | Measurement, answers: AnswersByKey
    ) -> AnsweredTrace | Measurement:
        """The trace with its answers; its measurement when that is known without them."""
        if not isinstance(requests, list):
            return requests
        trace_answers = [answers[self._key(request)] for request in requests]
        # A trace with one failed request has no value: an average of the other answers would
        # measure something else.
        failure = next(
            (answer for answer in trace_answers if isinstance(answer, MetricFailed)), None
        )
        return failure or AnsweredTrace(
            trace, tuple(answer for answer in trace_answers if not isinstance(answer, MetricFailed))
        )

    def _evict(self, unusable: Iterable[TraceRequests | Measurement]) -> None:
        """Remove unusable answers from the LLM cache, so that a later run requests new ones."""
        keys = {
            self._key(request)
            for requests in unusable
            if isinstance(requests, list)
            for request in requests
        }
        if keys:
            with self.job.resources.db.begin() as session:
                evict_answers(session, sorted(keys))

    def _in_child(
        self,
        function: Callable[[MetricRef, Sequence[Input]], list[Output]],
        ref: MetricRef,
        inputs: Sequence[Input],
    ) -> list[Output | MetricFailed]:
        """The outputs of a function of the provider, computed in child processes.

        A provider that hangs or kills its process loses one output only, and after
        `MAX_LOST_CALLS` of them the remaining outputs of the shard.
        """
        outputs: list[Output | MetricFailed] = []
        for start in range(0, len(inputs), CHUNK_SIZE):
            chunk = self._chunk(function, ref, inputs[start : start + CHUNK_SIZE])
            outputs += chunk
        return outputs

    def _chunk(
        self,
        function: Callable[[MetricRef, Sequence[Input]], list[Output]],
        ref: MetricRef,
        inputs: Sequence[Input],
    ) -> Sequence[Output | MetricFailed]:
        if self.lost_calls[ref] >= MAX_LOST_CALLS:
            reason = f"not computed: the metric was lost on {MAX_LOST_CALLS} traces before"
            return [MetricFailed(MetricFailureKind.DIED, reason)] * len(inputs)
        self.checkpoint()
        try:
            return self.job.pool.run(function, ref, inputs, timeout_s=self.job.call_timeout_s)
        except CallLost as lost:
            self.job.checkpoint()  # a worker that stops ends its pool: not the fault of the metric
            if len(inputs) > 1:  # one by one, to find the trace that causes it
                return [
                    output for single in inputs for output in self._chunk(function, ref, [single])
                ]
            self.lost_calls[ref] += 1
            return [failure_of_lost_call(lost)]

    def _key(self, request: ModelRequest) -> bytes:
        return request_key(self.cache_scope, request)


def _is_judge_error(judged: JudgedTrace) -> bool:
    measurement = judged.measurement
    return (
        isinstance(measurement, MetricFailed) and measurement.kind is MetricFailureKind.JUDGE_ERROR
    )


def _row(trace: Trace, judged: Mapping[str, JudgedTrace]) -> TraceMeasurements:
    measurements = {name: verdict.measurement for name, verdict in judged.items()}
    missing: dict[str, Missing] = {
        name: measurement
        for name, measurement in measurements.items()
        if not isinstance(measurement, float)
    }
    return TraceMeasurements(
        trace_id=trace.trace_id,
        values=tuple(
            measurement if isinstance(measurement, float) else None
            for measurement in measurements.values()
        ),
        missing=missing,
        reasons={name: verdict.reason for name, verdict in judged.items() if verdict.reason}
        or None,
    )


def _merge_rows(
    refs: Sequence[MetricRef],
    local: Sequence[MetricRef],
    local_row: TraceMeasurements,
    remote_row: TraceMeasurements,
) -> TraceMeasurements:
    """One row with the values in the order of `refs`."""
    local_values, remote_values = iter(local_row.values), iter(remote_row.values)
    return remote_row._replace(
        values=tuple(next(local_values if ref in local else remote_values) for ref in refs),
        missing={**local_row.missing, **remote_row.missing},
    )


def _require_access(access: LlmServer | None) -> LlmServer:
    if access is None:
        raise LlmNotConfigured(
            "This worker has no model server; set MOSAICO_LLM_BASE_URL for every worker."
        )
    return access
