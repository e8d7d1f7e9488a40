"""Workers that serve some queues only."""

import asyncio

import pytest

from mosaico.jobs.handlers import HANDLERS
from mosaico.jobs.job_runner import Worker
from mosaico.worker import UnknownQueue, require_known_queues
from tests.support.service import Service, pair
from tests.support.stored import DatabaseReader


def drain(service: Service, queue: str) -> None:
    worker = Worker(service.resources, HANDLERS, service.pool, concurrency=1, queues=[queue])
    asyncio.run(worker.drain())


def test_worker_queues__each_worker_does_its_steps_of_a_run(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"])
    service.upload([pair(1)])
    run = service.start_run()
    rows = DatabaseReader(service.resources.db.url)
    waiting = "SELECT task_name FROM procrastinate_jobs WHERE status = 'todo' AND args ? 'run_id'"

    drain(service, "score")
    assert rows.all(waiting) == [("runs.begin",)]
    drain(service, "runs")
    assert rows.all(waiting) == [("score.shard",)]
    drain(service, "score")
    assert rows.all(waiting) == [("runs.finish",)]
    drain(service, "runs")

    assert rows.status(run["id"]) == "COMPLETED"


def test_worker_queues__an_unknown_queue_is_refused(plugins: None) -> None:
    with pytest.raises(UnknownQueue, match=r"no job has the queue scores; choose from .*score"):
        require_known_queues(["score", "scores"])
