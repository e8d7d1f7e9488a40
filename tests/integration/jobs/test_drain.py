"""`Worker.drain` runs what this process can run, and returns."""

import asyncio

import pytest
from sqlalchemy import text

from mosaico.core.resources import Resources
from mosaico.jobs.declarations import JobRequest
from mosaico.jobs.handlers import JobHandlers
from mosaico.jobs.job_runner import Worker
from mosaico.jobs.queue import enqueue
from tests.support.service import Service
from tests.support.toy_jobs import BuildToy, SellToy


class SailToy(BuildToy):
    """`BuildToy` of a newer version, with one argument more."""

    sail: str = "red"


@pytest.mark.parametrize("newer", [SellToy(), SailToy()])
def test_drain__job_of_a_newer_version_stays_in_the_queue(
    service: Service, service_resources: Resources, newer: JobRequest
) -> None:
    """A job of an unknown name, and one with an unknown argument."""
    done: list[str] = []
    handlers = JobHandlers()
    handlers.register(BuildToy)(lambda _job, build: done.append(build.toy))
    with service_resources.db.begin() as session:
        # The newer job is the first of the queue: the worker fetches it before the known one.
        enqueue(session, newer)
        enqueue(session, BuildToy())

    asyncio.run(Worker(service_resources, handlers, service.pool, concurrency=1).drain())

    assert done == ["boat"]
    with service_resources.db.read() as session:
        jobs = session.execute(
            text(
                "SELECT task_name, args, status::text, attempts FROM procrastinate_jobs ORDER BY id"
            )
        ).all()
    assert jobs == [
        # No attempt counts: fetches by old workers bring a job no closer to MAX_ATTEMPTS.
        (newer.NAME, newer.arguments(), "todo", 0),
        ("toys.build", {"toy": "boat"}, "succeeded", 1),
    ]
