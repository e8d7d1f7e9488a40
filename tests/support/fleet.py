"""Workers and their jobs in the tables of the database, without processes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from mosaico.core.resources import Resources
from mosaico.jobs.deaths import JobDeaths, runs_alone
from mosaico.jobs.handlers import JobHandlers
from mosaico.jobs.models import WorkerProcess
from mosaico.jobs.queue import ALONE_PRIORITY, DEATHS, enqueue, enqueue_once, split_arguments
from mosaico.jobs.rescue import rescue_jobs
from mosaico.jobs.silent_sessions import SilentSessions
from tests.support.stored import DatabaseReader
from tests.support.toy_jobs import BuildToy, ReportToy

HANDLERS = JobHandlers()
HANDLERS.register(BuildToy, on_failure=ReportToy)(lambda _job, _build: None)

SET_DEATHS = text(
    """
    UPDATE procrastinate_jobs SET args = args || CAST(:deaths AS jsonb), priority = :priority
    WHERE args ->> 'toy' = :toy
    """
)


@dataclass(frozen=True, slots=True)
class Fleet:
    """Workers and their jobs in the tables of the database, without processes."""

    resources: Resources
    rows: DatabaseReader

    def enqueue(self, *toys: str, deaths: Mapping[str, JobDeaths] | None = None) -> None:
        """Jobs that have had these deaths of workers before, by their toys."""
        with self.resources.db.begin() as session:
            for toy in toys:
                enqueue(session, BuildToy(toy=toy))
            for toy, earlier in (deaths or {}).items():
                stored = json.dumps({DEATHS: earlier._asdict()})
                priority = ALONE_PRIORITY if runs_alone(earlier) else 0
                session.execute(SET_DEATHS, {"toy": toy, "deaths": stored, "priority": priority})

    def enqueue_once(self, toy: str) -> None:
        """A job of which one at a time waits, such as a poll."""
        with self.resources.db.begin() as session:
            assert enqueue_once(session, BuildToy(toy=toy), key="poll")

    def register(self) -> int:
        """A worker that is alive now."""
        with self.resources.db.begin() as session:
            worker_id = session.scalar(
                text("INSERT INTO procrastinate_workers DEFAULT VALUES RETURNING id")
            )
            assert isinstance(worker_id, int)
            session.add(WorkerProcess(worker_id=worker_id, machine="pelican"))
        return worker_id

    def fetch(self, worker_id: int, count: int = 10) -> list[str]:
        """Let a worker fetch jobs as procrastinate does; returns their toys."""
        query = """
            SELECT job.args ->> 'toy' FROM procrastinate_fetch_job_v2(NULL, %s) AS job
            WHERE job.id IS NOT NULL
        """
        with self.resources.db.begin() as session:
            cursor = session.connection().connection.driver_connection.cursor()  # type: ignore[union-attr]
            toys = [cursor.execute(query, (worker_id,)).fetchone() for _ in range(count)]
        return [toy for row in toys if row is not None for toy in row]

    def lose(self, worker_id: int) -> None:
        """The worker has been silent for a minute."""
        self.rows.execute(
            "UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 minute' WHERE id = %s",
            worker_id,
        )

    def rescue(self) -> int:
        with self.resources.db.begin() as session:
            # The server of the tests may have started seconds ago; with its real value the rescue would
            # wait.
            return rescue_jobs(session, HANDLERS, SilentSessions(), reconnect_s=0)

    def run_and_die(self, count: int = 10) -> list[str]:
        """A new worker fetches so many jobs, if there are, and dies; returns the toys of its jobs."""
        worker_id = self.register()
        toys = self.fetch(worker_id, count)
        self.lose(worker_id)
        assert self.rescue() == len(toys)
        return toys

    def status(self, toy: str) -> str:
        query = (
            "SELECT status::text FROM procrastinate_jobs"
            " WHERE task_name = 'toys.build' AND args ->> 'toy' = %s"
        )
        return str(self.rows.value(query, toy))

    def deaths(self, toy: str) -> JobDeaths:
        query = "SELECT args FROM procrastinate_jobs WHERE args ->> 'toy' = %s"
        arguments: dict[str, Any] = self.rows.value(query, toy)
        return split_arguments(arguments).deaths
