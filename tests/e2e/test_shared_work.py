"""Several workers on one database, and the effects of failing third-party code."""

from tests.support.deployment import TRACES, Deployment
from tests.support.processes import until

MANY = 12_000
OPEN_JOBS = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"


def test_workers__share_the_shards_of_one_run(deployment: Deployment) -> None:
    deployment.upload("night", count=MANY)
    first, second = deployment.programs.workers(2, MOSAICO_WORKER_CONCURRENCY="1")

    run_id = deployment.start("night")

    deployment.completed_run(run_id)
    assert len(deployment.rows.stored(run_id).results) == MANY
    shares = deployment.rows.all(
        """
        SELECT worker_id, count(*) FROM procrastinate_jobs
        WHERE task_name = 'runs.score' GROUP BY worker_id
        """
    )
    assert len(shares) == 2, (shares, first.log, second.log)
    shards = deployment.rows.value("SELECT shards_total FROM benchmark_runs WHERE id = %s", run_id)
    assert sum(count for _, count in shares) == shards >= 6
    assert "rescued" not in first.log + second.log  # busy is not dead


def test_workers__a_metric_that_hangs_or_crashes_costs_one_value(
    deployment: Deployment,
) -> None:
    deployment.upload("hangs", tags=["hang"], count=100)
    deployment.upload("crashes", tags=["segfault"], count=100)
    worker = deployment.programs.worker(MOSAICO_METRIC_TIMEOUT_S="1")

    runs = [deployment.start("hangs"), deployment.start("crashes")]

    for run_id, kind in zip(runs, ("HANG", "DIED"), strict=True):
        run = deployment.completed_run(run_id)
        assert run["metricsComputed"] == 3 * 100 - 1, worker.log
        [result] = [
            result
            for result in deployment.service.get(f"/benchmark-runs/{run_id}/results", limit=200)[
                "items"
            ]
            if result["missing"]
        ]
        assert result["traceId"] == "t-99"
        assert result["missing"]["GATE"]["failed"] == kind
        assert result["values"]["ROUGE"] is not None


def test_workers__a_failing_source_fails_the_run_with_its_code(deployment: Deployment) -> None:
    deployment.programs.worker()

    run = deployment.ended_run(deployment.start("nobody-uploaded-this"))

    assert (run["status"], run["errorCode"]) == ("FAILED", "DATASET_NOT_FOUND")
    assert "upload" in run["errorMessage"]


def test_workers__a_job_of_a_newer_version_waits(deployment: Deployment) -> None:
    deployment.upload("night")
    deployment.rows.execute(
        "INSERT INTO procrastinate_jobs (queue_name, task_name, args)"
        " VALUES ('runs', 'runs.of_tomorrow', '{}')"
    )
    deployment.programs.worker()

    deployment.completed_run(deployment.start("night"))

    waits = """
        SELECT status = 'todo' AND attempts = 0 AND scheduled_at > now()
        FROM procrastinate_jobs WHERE task_name = 'runs.of_tomorrow'
    """
    until(lambda: bool(deployment.rows.value(waits)))


def test_delete_run__while_it_is_scored_leaves_nothing(
    deployment: Deployment,
) -> None:
    deployment.upload("night", tags=["gate:metric"])
    deployment.programs.worker()
    run_id = deployment.start("night")
    until(deployment.programs.gate("metric").was_reached)

    deployment.service.post(f"/benchmark-runs/{run_id}/cancel")
    deployment.service.delete(f"/benchmark-runs/{run_id}")
    deployment.programs.gate("metric").open()

    until(lambda: deployment.rows.value(OPEN_JOBS) == 0)
    assert deployment.rows.value("SELECT count(*) FROM trace_results") == 0
    assert deployment.rows.value("SELECT count(*) FROM collected_traces") == 0
    assert deployment.rows.value("SELECT bool_and(status = 'succeeded') FROM procrastinate_jobs")
    deployment.completed_run(deployment.start("night"))
    assert deployment.rows.value("SELECT count(*) FROM trace_results") == TRACES
