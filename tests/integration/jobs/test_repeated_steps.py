"""A worker may die between the write of a step and the outcome of its job: the step runs again."""

from typing import Any

import pytest

from app.jobs.queue import enqueue
from app.runs.shards import SCORE_JOB
from tests.support.service import Service, pair
from tests.support.stored import DatabaseReader


def run_job(service: Service, name: str, **arguments: Any) -> None:
    with service.resources.db.begin() as session:
        enqueue(session, name, **arguments)
    service.work()


@pytest.mark.parametrize("job", ["runs.begin", "runs.collect", SCORE_JOB, "runs.finish"])
def test_run_step__repetition_changes_nothing(service: Service, job: str) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"], measures=[{"name": "quality", "formula": "ROUGE"}])
    service.upload([pair(1), pair(2, output="a b")])
    run = service.complete_run()
    rows = DatabaseReader(service.resources.db.url)
    stored_before = rows.stored_run(run["id"])

    step_arguments: dict[str, Any] = {"shard": 0} if job == SCORE_JOB else {}
    run_job(service, job, run_id=run["id"], **step_arguments)

    assert stored_before.run[0] == "COMPLETED"
    assert rows.stored_run(run["id"]) == stored_before
    assert rows.value("SELECT count(*) FROM collected_traces") == 2
    assert rows.value("SELECT bool_and(status = 'succeeded') FROM procrastinate_jobs")


@pytest.mark.parametrize(
    "job", ["runs.begin", "runs.collect", SCORE_JOB, "runs.finish", "runs.on_failure"]
)
def test_run_step__deleted_run_is_ignored(service: Service, job: str) -> None:
    step_arguments: dict[str, dict[str, Any]] = {
        SCORE_JOB: {"shard": 0},
        "runs.on_failure": {"code": "X", "message": "y"},
    }

    run_job(service, job, run_id="unknown-run", **step_arguments.get(job, {}))

    assert DatabaseReader(service.resources.db.url).all(
        "SELECT status::text FROM procrastinate_jobs"
    ) == [("succeeded",)]


def test_begin_step__repetition_ignores_later_changes_of_the_benchmark(
    service: Service,
) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"])
    service.upload([pair(1)])
    run = service.complete_run()
    rows = DatabaseReader(service.resources.db.url)
    rows.execute("UPDATE benchmark_runs SET status = 'RUNNING'")
    rows.execute("""UPDATE benchmarks SET metrics = '["WITHDRAWN"]'""")

    run_job(service, "runs.begin", run_id=run["id"])

    assert rows.status(run["id"]) == "RUNNING"
