"""Measures the traces of a shard, also by metrics that need a model, in the processes of a worker.

No transaction waits for the model server.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from mosaico.core.extras import require_extra
from mosaico.core.llm_server import LlmServer
from mosaico.jobs.handlers import JobContext
from mosaico.jobs.lost_calls import CallLost
from mosaico.llm.completion_pool import CompletionPool
from mosaico.llm.errors import LlmNotConfigured
from mosaico.llm.retry import COMPLETION_RETRIES, LlmRetryPolicy
from mosaico.metrics.completion_fetcher import CompletionFetcher
from mosaico.metrics.engine import CHUNK_SIZE, failure_of_lost_call
from mosaico.metrics.model_metrics import is_remote
from mosaico.metrics.remote_measurement import RemoteMeasurement, merge_rows
from mosaico.metrics.types import MetricFailed, MetricFailureKind, MetricRef, TraceMeasurements
from mosaico.runs.leases import ShardLease
from mosaico.runs.llm_cache import CachedAnswers
from mosaico.runs.metric_cache import read_cached_shard
from mosaico.runs.scoring import MAX_LOST_CALLS, score_traces, summarize
from mosaico.runs.shards import MeasuredShard
from mosaico.traces.error_rules import excuse_error
from mosaico.traces.stored_traces import read_traces
from mosaico.traces.types import Trace

Input = TypeVar("Input")
Output = TypeVar("Output")

RETRIES: LlmRetryPolicy = COMPLETION_RETRIES


def measure_shard(job: JobContext, lease: ShardLease) -> MeasuredShard:
    """Every metric of the run on the traces of a shard, of which earlier runs have measured some."""
    with job.resources.db.read() as session:
        cached = read_cached_shard(session, lease)
        traces: Sequence[Trace] = ()
        if cached.needs_traces:
            traces = read_traces(session, lease.collection_id, lease.first, lease.last)
    if lease.plan.infra_errors:
        # The traces are stored as their source delivered them: other runs with other rules share them.
        traces = [excuse_error(trace, lease.plan.infra_errors) for trace in traces]
    rows = cached.fill(traces, partial(measure_traces, job=job, run_seq=lease.run_seq))
    summaries = summarize(traces, rows, lease.plan.refs, job, cached=cached.summaries)
    return MeasuredShard(rows, summaries, cached.value_count)


def measure_traces(
    traces: Sequence[Trace],
    refs: tuple[MetricRef, ...],
    *,
    job: JobContext,
    run_seq: int,
    cache_suffix: str = "",
) -> list[TraceMeasurements]:
    """Every metric of every trace of a shard, in order: first the local metrics, then the others.

    Answers are shared with runs of the same `cache_suffix` only.
    """
    remote = tuple(ref for ref in refs if is_remote(ref))
    local = tuple(ref for ref in refs if ref not in remote)
    local_rows = score_traces(traces, local, job)
    if not remote:
        return local_rows
    remote_rows = measure_remote(
        traces, remote, job=job, run_seq=run_seq, cache_suffix=cache_suffix
    )
    return [merge_rows(refs, local, *rows) for rows in zip(local_rows, remote_rows, strict=True)]


def measure_remote(
    traces: Sequence[Trace],
    refs: tuple[MetricRef, ...],
    *,
    job: JobContext,
    run_seq: int,
    cache_suffix: str = "",
) -> list[TraceMeasurements]:
    """The values of metrics that need a model, one row per trace.

    Raises: the errors of `mosaico.llm.errors`, when no request can succeed; `MissingPackages`.
    """
    require_extra("models", "metrics that call a model")
    # The SDK takes half a second to import, and most workers never need it.
    from mosaico.llm.completions import open_completions

    res = job.resources
    access = _require_access(res.llm_server)
    client = open_completions(access, policy=res.outbound, retries=RETRIES)
    cache_scope = access.base_url + cache_suffix
    store = CachedAnswers(res.db, run_seq, res.clock, job.record_progress)
    with CompletionPool(client) as pool:
        return RemoteMeasurement(
            cache_scope=cache_scope,
            store=store,
            fetcher=CompletionFetcher(store, cache_scope, pool, job.checkpoint),
            call_provider=_ChildCaller(job),
            checkpoint=job.checkpoint,
        ).rows(traces, refs)


@dataclass(frozen=True, slots=True)
class _ChildCaller:
    """Calls functions of providers in child processes, for one shard. Provides `ProviderCaller`.

    A provider that hangs or kills its process loses one output only, and after `MAX_LOST_CALLS` of
    them the remaining outputs of the shard.
    """

    job: JobContext
    lost_calls: Counter[MetricRef] = field(default_factory=Counter)

    def __call__(
        self,
        function: Callable[[MetricRef, Sequence[Input]], list[Output]],
        ref: MetricRef,
        inputs: Sequence[Input],
    ) -> list[Output | MetricFailed]:
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
        self.job.checkpoint()
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


def _require_access(access: LlmServer | None) -> LlmServer:
    if access is None:
        raise LlmNotConfigured(
            "This worker has no model server; set MOSAICO_LLM_BASE_URL for every worker."
        )
    return access
