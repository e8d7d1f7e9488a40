"""The execution of a benchmark run, from traces to KPI values, on one screen.

    begin → collect → score × n → finish

Each function is one job. It acquires the lease of its step; after that, the previous holder of the
step can no longer write. It works outside any transaction and writes its output in one transaction,
which fails if the lease is no longer valid or the run has ended. So a job can be killed at any point
and be repeated.
"""

from contextlib import suppress
from functools import partial

from app.alerts.evaluation import AlertEvaluationService, read_budget
from app.comparison.fingerprint import find_fingerprint
from app.core.errors import Unavailable
from app.jobs.handlers import JobContext
from app.results import queries
from app.runs import leases, service, shards
from app.runs.aggregation import compute_result
from app.runs.collection import get_collection, resume_collection
from app.runs.finish import finish_run
from app.runs.llm_metrics import measure_traces
from app.runs.metric_cache import read_cached_shard
from app.runs.plan_builder import make_plan, trace_query
from app.runs.scoring import summarize
from app.runs.source_runs import assign_source_run
from app.runs.write_back import request_write_back
from app.traces.queries import read_traces
from app.traces.registry import TRACE_SOURCES
from app.traces.types import Trace


def begin(job: JobContext, run_id: str) -> None:
    """Freeze the plan of the run: benchmark, formulas, metric versions."""
    res = job.resources
    with res.db.begin() as session:
        if not service.lock_pending(session, run_id):
            return
        plan = make_plan(session, run_id, res.llm_server)
        lock = TRACE_SOURCES.get(plan.source).lock(trace_query(session, plan, res))
        service.begin_run(session, run_id, plan, lock, res.clock())


def collect_traces(job: JobContext, run_id: str) -> None:
    """Copy the traces of the run from their source, after the pages that are stored already."""
    res = job.resources
    with res.db.begin() as session:
        lease = leases.acquire_run_lease(session, run_id)
        if lease is None:
            return
        query = trace_query(session, lease.plan, res)
        collection = get_collection(session, lease)
    # False for a rescored run, and for a repeated job that died after the last page.
    if collection.completed_at is None:
        resume_collection(job, lease, query, collection.cursor)
    with res.db.begin() as session:
        assign_source_run(session, lease)
    with res.db.read() as session:
        ranges = queries.list_shard_ranges(
            session, run_id, traces=shards.SHARD_TRACES, size_bytes=shards.SHARD_BYTES
        )
        # In a read transaction of its own: it reads all items, and must not hold the lock of the
        # run meanwhile.
        fingerprint = find_fingerprint(session, run_id, lease.plan)
        if ranges:
            shards.require_clusters(session, lease)
    with res.db.begin() as session:
        shards.create_shards(session, lease, ranges, fingerprint)


def score(job: JobContext, run_id: str, shard: int) -> None:
    """Measure one shard: every metric of the run that no earlier run measured on these traces."""
    res = job.resources
    with res.db.begin() as session:
        lease = leases.acquire_shard_lease(session, run_id, shard)
    if lease is None:
        return
    with res.db.read() as session:
        cached = read_cached_shard(session, lease)
        traces = list[Trace]()
        if cached.needs_traces:
            traces = read_traces(session, lease.collection_id, lease.first, lease.last)
    checkpoint = partial(_require_lease, job, lease)
    measure = partial(measure_traces, job=job, run_seq=lease.run_seq, checkpoint=checkpoint)
    measured = cached.fill(traces, measure)
    summaries = summarize(
        traces, measured, lease.plan.refs, job, checkpoint, cached=cached.summaries
    )
    with res.db.begin() as session:
        shards.store_shard(
            session, lease, measured, res.clock(), summaries=summaries, reused=cached.value_count
        )


def _require_lease(job: JobContext, lease: leases.ShardLease) -> None:
    """Raise when the worker stops, the run has ended or another worker took the shard over."""
    job.checkpoint()
    # A short outage of the database loses no measured value: `store_shard` checks the lease again.
    with suppress(Unavailable), job.resources.db.read() as session:
        leases.require_shard_lease(session, lease)


def finish(job: JobContext, run_id: str) -> None:
    """Compute the result of the run and what it means for the alert rules, then store all of it."""
    res = job.resources
    with res.db.begin() as session:
        lease = leases.acquire_run_lease(session, run_id)
    if lease is None:
        return
    result = compute_result(job, lease)
    evaluation = AlertEvaluationService(res.db, read_budget(res.options))
    decisions = evaluation.evaluate_alerts_for_run(result)
    with res.db.begin() as session:
        finish_run(session, lease, result, decisions, res.clock())
        # In the transaction that completes the run: a crash cannot lose the write-back.
        request_write_back(session, run_id, res)


def on_failure(job: JobContext, run_id: str, code: str, message: str, **_: object) -> None:
    """Fail the run after one of its jobs has failed for good."""
    with job.resources.db.begin() as session:
        service.fail_run(session, run_id, code, message, job.resources.clock())
