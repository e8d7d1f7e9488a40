"""Workers of several machines and their jobs in the tables of the database, without processes."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from sqlalchemy import text

from mosaico.core.resources import Resources
from mosaico.jobs.deaths import PLACE_SUSPECTS, read_deaths, write_deaths
from mosaico.jobs.handlers import JobHandlers
from mosaico.jobs.models import WorkerProcess
from mosaico.jobs.queue import DEATHS, enqueue, enqueue_once, split_arguments
from mosaico.jobs.rescue import rescue_jobs
from mosaico.jobs.silent_sessions import SilentSessions
from mosaico.jobs.worker_process import ProcessOrigin
from tests.support.stored import DatabaseReader
from tests.support.toy_jobs import BuildShip, BuildToy, ReportToy

HANDLERS = JobHandlers()
HANDLERS.register(BuildToy, on_failure=ReportToy)(lambda _job, _build: None)
BUILD_OF_QUEUE = {"toys": BuildToy, "ships": BuildShip}
# A process that starts again on its machine is another one, whatever else they have in common.
INSTANCES = itertools.count()


def machine(name: str, *, boot: int = 1, supervisor: str = "") -> ProcessOrigin:
    return ProcessOrigin(machine=name, boot_id=f"{name}-{boot}", supervisor=supervisor, instance="")


def new_process(origin: ProcessOrigin) -> ProcessOrigin:
    return replace(origin, instance=f"process {next(INSTANCES)}")


PELICAN, HERON = machine("pelican"), machine("heron")


@dataclass(frozen=True, slots=True)
class Fleet:
    """Workers and their jobs in the tables of the database, without processes."""

    resources: Resources
    rows: DatabaseReader

    def enqueue(self, *toys: str, lock: str | None = None, queue: str = "toys") -> None:
        with self.resources.db.begin() as session:
            for toy in toys:
                enqueue(session, BUILD_OF_QUEUE[queue](toy=toy), lock=lock)

    def enqueue_once(self, toy: str) -> None:
        """A job of which one at a time waits, such as a poll."""
        with self.resources.db.begin() as session:
            assert enqueue_once(session, BuildToy(toy=toy), key="poll")

    def register(self, origin: ProcessOrigin, queues: Sequence[str] | None = None) -> int:
        """A worker that is alive now, of a new process unless the origin has an instance."""
        if not origin.instance:
            origin = new_process(origin)
        with self.resources.db.begin() as session:
            worker_id = session.scalar(
                text("INSERT INTO procrastinate_workers DEFAULT VALUES RETURNING id")
            )
            assert isinstance(worker_id, int)
            process = WorkerProcess(
                worker_id=worker_id,
                machine=origin.machine,
                boot_id=origin.boot_id,
                supervisor=origin.supervisor,
                instance=origin.instance,
                queues=None if queues is None else list(queues),
            )
            session.add(process)
            session.flush()
            # As a worker does when it registers: suspects may wait for the queues that it serves.
            session.execute(text(PLACE_SUSPECTS))
        return worker_id

    def fetch(self, worker_id: int, count: int = 10) -> list[str]:
        """Let a worker fetch jobs as procrastinate does; returns their toys."""
        # The function of procrastinate itself: which jobs run beside each other is decided by their locks.
        query = """
            SELECT job.args ->> 'toy' FROM worker_processes AS process,
                procrastinate_fetch_job_v2(process.queues::varchar[], process.worker_id) AS job
            WHERE process.worker_id = %s AND job.id IS NOT NULL
        """
        with self.resources.db.begin() as session:
            cursor = session.connection().connection.driver_connection.cursor()  # type: ignore[union-attr]
            toys = [cursor.execute(query, (worker_id,)).fetchone() for _ in range(count)]
        return [toy for row in toys if row is not None for toy in row]

    def lose(self, *worker_ids: int) -> None:
        """The workers have been silent for a minute."""
        for worker_id in worker_ids:
            self.set_heartbeat(worker_id, timedelta(minutes=-1))

    def set_heartbeat(self, worker_id: int, since_now: timedelta) -> None:
        self.rows.execute(
            "UPDATE procrastinate_workers SET last_heartbeat = now() + %s WHERE id = %s",
            since_now,
            worker_id,
        )

    def rescue(self, rescuer: ProcessOrigin) -> int:
        if not rescuer.instance:
            rescuer = new_process(rescuer)
        with self.resources.db.begin() as session:
            return rescue_jobs(
                session,
                HANDLERS,
                SilentSessions(),
                rescuer,
                # The server of the tests may have started seconds ago; with
                # its real value the rescue would wait.
                reconnect_s=0,
            )

    def restart_database(self) -> None:
        """Every job started before the database did."""
        # Instead of a restart: other tests use the server.
        self.rows.execute(
            "UPDATE procrastinate_events SET at = pg_postmaster_start_time() - interval '1 s'"
        )

    def run_and_die(
        self, origin: ProcessOrigin, rescuer: ProcessOrigin, *, with_database: bool = False
    ) -> list[str]:
        """A new worker fetches every job that it may, and dies; returns the toys of its jobs."""
        worker_id = self.register(origin)
        toys = self.fetch(worker_id)
        self.lose(worker_id)
        if with_database:
            self.restart_database()
        assert self.rescue(rescuer) == len(toys)
        return toys

    def wait_until_due(self) -> None:
        self.rows.execute(
            "UPDATE procrastinate_jobs SET scheduled_at = now() WHERE status = 'todo'"
        )

    def let_time_pass(self, toy: str, duration: timedelta) -> None:
        """Everything that happened to a job and its workers happened earlier."""
        self.rows.execute(
            "UPDATE procrastinate_workers SET last_heartbeat = last_heartbeat - %s",
            duration,
        )
        [(job_id, arguments)] = self.rows.all(
            "SELECT id, args FROM procrastinate_jobs WHERE args ->> 'toy' = %s", toy
        )
        deaths = [
            replace(death, rescued_at=death.rescued_at - duration)
            for death in read_deaths(split_arguments(arguments).deaths)
        ]
        self.rows.execute(
            "UPDATE procrastinate_jobs SET args = args || %s::jsonb WHERE id = %s",
            json.dumps({DEATHS: write_deaths(deaths)}),
            job_id,
        )

    def status(self, toy: str) -> str:
        query = (
            "SELECT status::text FROM procrastinate_jobs"
            " WHERE task_name = 'toys.build' AND args ->> 'toy' = %s"
        )
        return str(self.rows.value(query, toy))

    def lock(self, toy: str) -> str | None:
        lock: str | None = self.rows.value(
            "SELECT lock FROM procrastinate_jobs WHERE args ->> 'toy' = %s", toy
        )
        return lock

    def deaths(self, toy: str) -> int:
        query = "SELECT args FROM procrastinate_jobs WHERE args ->> 'toy' = %s"
        arguments: dict[str, Any] = self.rows.value(query, toy)
        return len(split_arguments(arguments).deaths)

    def finish(self, toy: str) -> None:
        self.rows.execute(
            "SELECT procrastinate_finish_job_v1(id, 'succeeded', false)"
            " FROM procrastinate_jobs WHERE args ->> 'toy' = %s",
            toy,
        )
