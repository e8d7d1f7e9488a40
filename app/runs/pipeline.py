"""The execution of a benchmark run, from traces to KPI values, on one screen.

    begin → collect → score × n → finish

Each function is one job. It acquires the lease of its step; after that, the previous holder of the
step can no longer write. It works outside any transaction and writes its output in one transaction,
which fails if the lease is no longer valid or the run has ended. So a job can be killed at any point
and be repeated. The transaction also starts the next step: the same worker continues with it, and the
other shards wait in the queue for any worker.
"""

from collections.abc import Sequence
from functools import partial

from app.alerts.evaluation.run_evaluation import AlertEvaluationService, read_budget
from app.jobs.declarations import BeginRun, CollectTraces, FailRun, FinishRun, ScoreShard
from app.jobs.handlers import JobContext
from app.runs import leases, service
from app.runs.aggregation import compute_result
from app.runs.collection import collect_run
from app.runs.finish import finish_run
from app.runs.llm_metrics import measure_traces
from app.runs.metric_cache import read_cached_shard
from app.runs.plan_builder import collect_lock, make_plan
from app.runs.scoring import summarize
from app.runs.shards import split_run, store_shard
from app.runs.write_back import request_write_back
from app.traces.stored_traces import read_traces
from app.traces.types import Trace


def begin(job: JobContext, step: BeginRun) -> None:
    """Freeze the plan of the run: benchmark, formulas, metric versions."""
    res = job.resources
    with res.db.begin() as session:
        run = service.lock_pending(session, step.run_id)
        if run is None:
            return
        plan = make_plan(session, run, res.llm_server)
        lock = collect_lock(session, plan, res)
        service.begin_run(session, run, plan, lock, res.clock(), start_next=job.start_next)


def collect_traces(job: JobContext, step: CollectTraces) -> None:
    """Copy the traces of the run from their source, after the pages that are stored already."""
    lease = leases.acquire_run_lease(job.resources.db, step.run_id, job.token)
    if lease is None:
        return
    job = leases.watch_lease(job, lease)
    run = collect_run(job, lease)
    split_run(job, lease, run)


def score(job: JobContext, step: ScoreShard) -> None:
    """Measure one shard: every metric of the run that no earlier run measured on these traces."""
    res = job.resources
    lease = leases.acquire_shard_lease(res.db, step.run_id, step.shard, job.token)
    if lease is None:
        return
    with res.db.read() as session:
        cached = read_cached_shard(session, lease)
        traces: Sequence[Trace] = ()
        if cached.needs_traces:
            traces = read_traces(session, lease.collection_id, lease.first, lease.last)
    job = leases.watch_lease(job, lease)
    measured = cached.fill(traces, partial(measure_traces, job=job, run_seq=lease.run_seq))
    summaries = summarize(traces, measured, lease.plan.refs, job, cached=cached.summaries)
    with res.db.begin() as session:
        store_shard(
            session,
            lease,
            measured,
            res.clock(),
            summaries=summaries,
            reused=cached.value_count,
            start_next=job.start_next,
        )


def finish(job: JobContext, step: FinishRun) -> None:
    """Compute the result of the run and what it means for the alert rules, then store all of it."""
    res = job.resources
    lease = leases.acquire_run_lease(res.db, step.run_id, job.token)
    if lease is None:
        return
    result = compute_result(leases.watch_lease(job, lease), lease)
    evaluation = AlertEvaluationService(res.db, read_budget(res.options))
    decisions = evaluation.evaluate_alerts_for_run(result)
    with res.db.begin() as session:
        finish_run(session, lease, result, decisions, res.clock(), start_next=job.start_next)
        # In the transaction that completes the run: a crash cannot lose the write-back.
        if lease.plan.write_back.is_requested:
            request_write_back(session, step.run_id, res)


def on_failure(job: JobContext, failure: FailRun) -> None:
    """Fail the run after one of its jobs has failed for good."""
    with job.resources.db.begin() as session:
        now = job.resources.clock()
        service.fail_run(session, failure.run_id, failure.code, failure.message, now)
