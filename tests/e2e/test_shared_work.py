"""Several workers on one database, and the effects of failing third-party code."""

from tests.support.deployment import COLLECTED_TRACES, TRACES, Deployment
from tests.support.gated_source import SHARD_TRACES
from tests.support.processes import until

SIX_SHARDS = 6 * SHARD_TRACES
SCORING_WORKERS = """
    SELECT count(DISTINCT worker_id) FROM procrastinate_jobs WHERE task_name = 'score.shard'
"""
OPEN_JOBS = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"


def test_workers__share_the_shards_of_one_run(deployment: Deployment) -> None:
    deployment.upload("run-1", tags=["gate:shard"], tagged=0, count=SIX_SHARDS)
    first, second = deployment.programs.workers(
        # The metric at the gate waits longer than the usual limit.
        2,
        MOSAICO_WORKER_CONCURRENCY="1",
        MOSAICO_METRIC_TIMEOUT_S="300",
    )

    run_id = deployment.start("run-1")
    # The gate holds the worker of one shard until the other worker has taken a shard, too.
    until(lambda: deployment.database.value(SCORING_WORKERS) == 2, what=first.log + second.log)
    deployment.programs.gate("shard").open()

    deployment.completed_run(run_id)
    assert len(deployment.database.stored_run(run_id).results) == SIX_SHARDS
    shares = deployment.database.all(
        """
        SELECT worker_id, count(*) FROM procrastinate_jobs
        WHERE task_name = 'score.shard' GROUP BY worker_id
        """
    )
    assert len(shares) == 2, (shares, first.log, second.log)
    shards = deployment.database.value(
        "SELECT shards_total FROM benchmark_runs WHERE id = %s", run_id
    )
    assert sum(count for _, count in shares) == shards >= 6
    assert "rescued" not in first.log + second.log  # a busy worker still sends heartbeats


def test_delete_run__while_it_is_scored_leaves_nothing(
    deployment: Deployment,
) -> None:
    deployment.upload("run-1", tags=["gate:metric"])
    deployment.programs.worker()
    run_id = deployment.start("run-1")
    until(deployment.programs.gate("metric").is_reached)

    deployment.service.post(f"/benchmark-runs/{run_id}/cancel")
    deployment.service.delete(f"/benchmark-runs/{run_id}")
    deployment.programs.gate("metric").open()

    until(lambda: deployment.database.value(OPEN_JOBS) == 0)
    assert deployment.database.value("SELECT count(*) FROM trace_results") == 0
    assert deployment.database.value(COLLECTED_TRACES) == 0
    assert deployment.database.value(
        "SELECT bool_and(status = 'succeeded') FROM procrastinate_jobs"
    )
    deployment.completed_run(deployment.start("run-1"))
    assert deployment.database.value("SELECT count(*) FROM trace_results") == TRACES
