"""A worker may die between the write of a step and the outcome of its job: the step runs again."""

from collections.abc import Callable
from functools import partial

import pytest

from mosaico.jobs.declarations import (
    BeginRun,
    CollectTraces,
    FailRun,
    FinishRun,
    JobRequest,
    ScoreShard,
)
from mosaico.jobs.queue import enqueue
from tests.support.service import Service, pair
from tests.support.stored import DatabaseReader

MakeStep = Callable[..., JobRequest]
STEPS: tuple[MakeStep, ...] = (BeginRun, CollectTraces, partial(ScoreShard, shard=0), FinishRun)


def run_job(service: Service, request: JobRequest) -> None:
    with service.resources.db.begin() as session:
        enqueue(session, request)
    service.work()


@pytest.mark.parametrize("make_step", STEPS)
def test_run_step__repetition_changes_nothing(service: Service, make_step: MakeStep) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"], measures=[{"name": "quality", "formula": "ROUGE"}])
    service.upload([pair(1), pair(2, output="a b")])
    run = service.complete_run()
    rows = DatabaseReader(service.resources.db.url)
    stored_before = rows.stored_run(run["id"])

    run_job(service, make_step(run_id=run["id"]))

    assert stored_before.run[0] == "COMPLETED"
    assert rows.stored_run(run["id"]) == stored_before
    assert rows.value("SELECT count(*) FROM collected_traces") == 2
    assert rows.value("SELECT bool_and(status = 'succeeded') FROM procrastinate_jobs")


@pytest.mark.parametrize("make_step", [*STEPS, partial(FailRun, code="X", message="y")])
def test_run_step__deleted_run_is_ignored(service: Service, make_step: MakeStep) -> None:
    run_job(service, make_step(run_id="unknown-run"))

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
    # The step ignores a run that has ended: only one in progress shows that its plan is frozen.
    rows.execute("UPDATE benchmark_runs SET status = 'RUNNING'")
    # A plan that is made anew fails, because no such metric exists.
    rows.execute("""UPDATE benchmarks SET metrics = '["WITHDRAWN"]'""")

    run_job(service, BeginRun(run_id=run["id"]))

    assert rows.status(run["id"]) == "RUNNING"
