"""`Worker.drain` runs what this process can run, and returns."""

import asyncio

from sqlalchemy import text

from app.core.resources import Resources
from app.jobs.handlers import JobHandlers
from app.jobs.job_runner import Worker
from app.jobs.queue import enqueue
from tests.support.service import Service
from tests.support.toy_jobs import BuildToy, SellToy


def test_drain__job_without_a_handler_stays_in_the_queue(
    service: Service, service_resources: Resources
) -> None:
    done: list[str] = []
    handlers = JobHandlers()
    handlers.register(BuildToy)(lambda _job, build: done.append(build.toy))
    with service_resources.db.begin() as session:
        enqueue(session, SellToy())
        enqueue(session, BuildToy())

    asyncio.run(Worker(service_resources, handlers, service.pool, concurrency=1).drain())

    assert done == ["boat"]
    with service_resources.db.read() as session:
        jobs = session.execute(text("SELECT task_name, status::text FROM procrastinate_jobs")).all()
    assert set(jobs) == {("toys.sell", "todo"), ("toys.build", "succeeded")}
