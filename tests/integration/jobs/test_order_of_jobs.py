"""The order in which a worker starts jobs: short ones, then steps of runs that have begun, then all others."""

import asyncio

from mosaico.core.resources import Resources
from mosaico.jobs.handlers import JobContext, JobHandlers
from mosaico.jobs.job_runner import Worker
from mosaico.jobs.process_pool import ProcessPool
from mosaico.jobs.queue import enqueue_many, enqueue_next
from mosaico.worker import TASKS
from tests.support.service import Service, pair
from tests.support.stored import DatabaseReader
from tests.support.toy_jobs import PaintToy, RingBell, SawToy


def test_worker__next_step_starts_before_first_steps_and_after_short_jobs(
    service_resources: Resources, metric_pool: ProcessPool
) -> None:
    handlers, order = JobHandlers(), list[str]()

    @handlers.register(SawToy)
    def saw(job: JobContext, _: SawToy) -> None:
        order.append("saw")
        with job.resources.db.begin() as session:
            enqueue_next(session, PaintToy())
            enqueue_many(session, [RingBell()], is_short=True)

    handlers.register(PaintToy)(lambda _job, _paint: order.append("paint"))
    handlers.register(RingBell)(lambda _job, _ring: order.append("ring"))
    with service_resources.db.begin() as session:
        enqueue_many(session, [SawToy(), SawToy()])

    # With two slots both toys would be sawn at once.
    asyncio.run(Worker(service_resources, handlers, metric_pool, concurrency=1).drain())

    assert order == ["saw", "ring", "paint"] * 2


def test_worker__deliveries_are_made_before_runs_that_were_started_earlier(
    service: Service,
) -> None:
    # The import of this list has registered the handlers of all jobs.
    assert TASKS
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"])
    service.upload([pair(1)])
    for _ in range(2):
        service.start_run()
    # Nobody listens at port 1: only the order of the starts counts here.
    endpoint = {"channel": "WEBHOOK", "recipient": "https://127.0.0.1:1/hook"}
    service.post("/notifications/test", endpoint)

    service.work()

    started = DatabaseReader(service.resources.db.url).all(
        "SELECT job.task_name FROM procrastinate_events AS event"
        " JOIN procrastinate_jobs AS job ON job.id = event.job_id"
        " WHERE event.type = 'started' ORDER BY event.id LIMIT 1"
    )
    assert started == [("notifications.deliver",)]
