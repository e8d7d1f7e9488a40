"""A worker that loses the connection of its presence, and gets another one."""

import asyncio
import threading
from typing import Any

import procrastinate
import psycopg
import pytest
from procrastinate.exceptions import ConnectorException
from procrastinate.manager import JobManager

from mosaico.core.engine import libpq_url
from mosaico.core.resources import Resources
from mosaico.jobs import job_manager, job_runner
from mosaico.jobs.handlers import JobHandlers
from mosaico.jobs.job_manager import FencedJobManager, RunningJobs
from mosaico.jobs.job_runner import Worker
from mosaico.jobs.process_pool import ProcessPool
from mosaico.jobs.queue import enqueue
from mosaico.jobs.worker_process import PRESENCE_LOCK, WorkerPresence
from tests.support.processes import LIVENESS_S, until
from tests.support.running_worker import running_worker
from tests.support.stored import DatabaseReader
from tests.support.toy_jobs import BuildToy, ReportToy

# Of this database: other tests have workers on the same server.
HOLDERS = """
    SELECT pid FROM pg_locks JOIN pg_database ON pg_database.oid = database
    WHERE locktype = 'advisory' AND classid = %s AND datname = current_database()
"""


@pytest.fixture
def rows(service_resources: Resources) -> DatabaseReader:
    return DatabaseReader(service_resources.db.url)


def test_worker__gets_its_presence_back_after_the_database_refused_it(
    service_resources: Resources, rows: DatabaseReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that restarts refuses the connection of a heartbeat."""
    monkeypatch.setattr(job_runner, "HEARTBEAT_INTERVAL_S", 0.1)
    started, may_end, refused = threading.Event(), threading.Event(), threading.Event()
    handlers = JobHandlers()

    @handlers.register(BuildToy, on_failure=ReportToy)
    def build(_job: object, _build: object) -> None:
        started.set()
        assert may_end.wait(LIVENESS_S)

    async def refuse(_: WorkerPresence) -> psycopg.AsyncConnection:
        refused.set()
        raise psycopg.OperationalError("the database system is starting up")

    with service_resources.db.begin() as session:
        enqueue(session, BuildToy())
    # A pool of its own without processes: a worker that stops closes its pool.
    pool = ProcessPool(0, warm_up=lambda: None)
    worker = Worker(service_resources, handlers, pool, concurrency=1)
    with running_worker(worker, may_end):
        assert started.wait(LIVENESS_S)
        [(holder,)] = rows.all(HOLDERS, PRESENCE_LOCK)
        with monkeypatch.context() as outage:
            outage.setattr(WorkerPresence, "_connect", refuse)
            rows.execute("SELECT pg_terminate_backend(%s)", holder)
            assert refused.wait(LIVENESS_S)

        # The old session ended before the refusal, so a holder is a new session.
        until(lambda: len(rows.all(HOLDERS, PRESENCE_LOCK)) == 1)
        may_end.set()
        until(lambda: bool(rows.value("SELECT status = 'succeeded' FROM procrastinate_jobs")))


def test_worker__sends_heartbeats_after_a_failed_fetch_while_a_job_runs(
    service_resources: Resources, rows: DatabaseReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """procrastinate ends its own heartbeats then; a live worker would be rescued after 15 s."""
    monkeypatch.setattr(job_runner, "HEARTBEAT_INTERVAL_S", 0.1)
    started, may_end, failed = threading.Event(), threading.Event(), threading.Event()
    handlers = JobHandlers()

    @handlers.register(BuildToy, on_failure=ReportToy)
    def build(_job: object, _build: object) -> None:
        started.set()
        assert may_end.wait(LIVENESS_S)

    fetch_job = FencedJobManager.fetch_job

    async def fetch(manager: FencedJobManager, **arguments: Any) -> Any:
        # The first fetch gets the job; every later one fails, as while the database is away.
        if started.is_set():
            failed.set()
            raise ConnectorException
        return await fetch_job(manager, **arguments)

    monkeypatch.setattr(FencedJobManager, "fetch_job", fetch)
    with service_resources.db.begin() as session:
        enqueue(session, BuildToy())
    # With one slot the worker would fetch nothing while its job runs.
    worker = Worker(
        service_resources, handlers, ProcessPool(0, warm_up=lambda: None), concurrency=2
    )
    with running_worker(worker, may_end):
        assert failed.wait(LIVENESS_S)
        # A heartbeat on its way at the failure does not count: one second is ten intervals.
        failed_at = rows.value("SELECT clock_timestamp()")
        query = (
            "SELECT last_heartbeat > %s::timestamptz + interval '1 s' FROM procrastinate_workers"
        )
        until(lambda: bool(rows.value(query, failed_at)))


def test_job_manager__fetches_no_job_without_presence(service_resources: Resources) -> None:
    url = libpq_url(service_resources.db.url)
    presence = WorkerPresence(url, connect_timeout_s=LIVENESS_S)
    with service_resources.db.begin() as session:
        enqueue(session, BuildToy())

    async def fetch() -> list[str | None]:
        connector = procrastinate.PsycopgConnector(conninfo=url)
        async with procrastinate.App(connector=connector).open_async():
            manager = FencedJobManager(
                connector,
                presence,
                JobHandlers(),
                RunningJobs(),
                release_unknown=lambda _: None,
                record_outcome=lambda *_: None,
                # An hour: the only heartbeats are those that the test sends.
                heartbeat_interval_s=3600,
            )
            worker_id = await manager.register_worker()
            await presence.release()
            names = [await fetched_name(manager, worker_id)]
            await manager.update_heartbeat(worker_id)
            names.append(await fetched_name(manager, worker_id))
            await manager.unregister_worker(worker_id)
        return names

    assert asyncio.run(fetch()) == [None, "toys.build"]


async def fetched_name(manager: FencedJobManager, worker_id: int) -> str | None:
    job = await manager.fetch_job(queues=None, worker_id=worker_id)
    return job.task_name if job else None


def test_job_manager__listens_again_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """procrastinate's own listener ends when the database refuses it a new connection."""
    monkeypatch.setattr(job_manager, "RECONNECT_DELAY_S", 0.0)
    calls = 0

    async def listen(*_: object, **__: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ConnectorException
        raise StopListeningError

    async def ignore(**_: object) -> None:
        pass

    monkeypatch.setattr(JobManager, "listen_for_jobs", listen)
    connector = procrastinate.PsycopgConnector()
    manager = FencedJobManager(
        connector,
        WorkerPresence("", connect_timeout_s=LIVENESS_S),
        JobHandlers(),
        RunningJobs(),
        release_unknown=lambda _: None,
        record_outcome=lambda *_: None,
        heartbeat_interval_s=3600,
    )

    with pytest.raises(StopListeningError):
        asyncio.run(manager.listen_for_jobs(on_notification=ignore))

    assert calls == 2


class StopListeningError(Exception):
    """Ends a listener that otherwise never returns."""
