"""The execution of a benchmark run, from traces to KPI values, on one screen.

    begin → collect → score × n → finish

Each function is one job. It acquires the lease of its step, after which the previous holder can no
longer write, works outside any transaction, and writes its output in one transaction, which fails if the
lease is void or the run has ended. So a job can be killed at any point and be repeated. The transaction
also enqueues the next step, which starts before the first steps of other runs.
"""

from mosaico.alerts.evaluation.run_evaluation import AlertEvaluationService, read_false_pages
from mosaico.alerts.service import StaleDecision
from mosaico.comparison.baseline_comparison import BaselineOutdated
from mosaico.jobs.declarations import BeginRun, CollectTraces, FailRun, FinishRun, ScoreShard
from mosaico.jobs.handlers import JobContext
from mosaico.runs import leases, service
from mosaico.runs.aggregation import compute_result
from mosaico.runs.collection import collect_run
from mosaico.runs.finish import finish_run
from mosaico.runs.late_scores import watch_late_scores
from mosaico.runs.llm_metrics import measure_shard
from mosaico.runs.plan_builder import collect_lock, make_plan
from mosaico.runs.shards import split_run, store_shard
from mosaico.runs.write_back import request_write_back

# To finish a run: parallel runs of one agent that end together are judged one after the other.
ATTEMPTS = 5


def begin(job: JobContext, step: BeginRun) -> None:
    """Freeze the plan of the run: benchmark, formulas, metric versions."""
    res = job.resources
    with res.db.begin() as session:
        if (run := service.lock_pending(session, step.run_id)) is not None:
            plan = make_plan(session, run, res.llm_server)
            lock = collect_lock(session, plan, res)
            service.begin_run(session, run, plan, lock, res.clock())


def collect_traces(job: JobContext, step: CollectTraces) -> None:
    """Store the traces of the run from their source, after the pages that are stored already, or take over
    those that the service holds.
    """
    job, lease = leases.lease_run(job, step.run_id)
    split_run(job, lease, collect_run(job, lease))


def score(job: JobContext, step: ScoreShard) -> None:
    """Measure one shard: every metric of the run that no earlier run measured on these traces."""
    job, lease = leases.lease_shard(job, step.run_id, step.shard)
    shard = measure_shard(job, lease)
    res = job.resources
    with res.db.begin() as session:
        store_shard(session, lease, shard, res.clock())


def finish(job: JobContext, step: FinishRun) -> None:
    """Compute the result of the run and what it means for the alert rules, then store all of it."""
    job, lease = leases.lease_run(job, step.run_id)
    for attempts_left in reversed(range(ATTEMPTS)):
        try:
            _finish(job, lease)
        except StaleDecision:
            if not attempts_left:
                raise
            job.checkpoint()
        else:
            return


def _finish(job: JobContext, lease: leases.RunLease) -> None:
    """Raises: `StaleDecision` when another run of the agent has ended in the meantime."""
    res = job.resources
    try:
        result = compute_result(job, lease, may_wait=True)
    except BaselineOutdated as outdated:
        with res.db.begin() as session:
            run = leases.lock_leased_run(session, lease)
            # The end of the rescored baseline starts this step again.
            if service.wait_for_baseline(session, run, outdated.run_id):
                return
        result = compute_result(job, lease)
    alerts = AlertEvaluationService(res.db, read_false_pages(res.options))
    decisions = alerts.evaluate_alerts_for_run(result)
    with res.db.begin() as session:
        run = finish_run(session, lease, result, decisions, res.clock())
        watch_late_scores(session, run, res, res.clock())
        # In the transaction that completes the run: a crash cannot lose the write-back.
        if lease.plan.write_back.is_requested:
            request_write_back(session, lease.run_id, res)


def on_failure(job: JobContext, failure: FailRun) -> None:
    """Fail the run after one of its jobs has failed for good."""
    with job.resources.db.begin() as session:
        now = job.resources.clock()
        service.fail_run(session, failure.run_id, failure.code, failure.message, now)
