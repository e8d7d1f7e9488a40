"""The job manager of procrastinate with presence and fencing: it registers workers, fetches jobs and
records no outcome.
"""

import asyncio
import logging
import platform
from collections.abc import Callable, Iterable
from contextlib import suppress

import procrastinate
import psycopg
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job as QueuedJob
from procrastinate.jobs import Status
from procrastinate.manager import JobManager, NotificationCallback

from mosaico.core.batches import STATEMENT_ROWS
from mosaico.jobs.deaths import may_start, runs_alone
from mosaico.jobs.handlers import JobHandlers
from mosaico.jobs.outcomes import JobClaim, JobOutcome, JobReleased
from mosaico.jobs.queue import split_arguments
from mosaico.jobs.worker_process import WorkerPresence

log = logging.getLogger(__name__)

RECONNECT_DELAY_S = 1.0

_REGISTER_PROCESS = """
    WITH forgotten AS (
        DELETE FROM worker_processes WHERE worker_id IN (
            SELECT worker_id FROM worker_processes AS process
            WHERE NOT EXISTS (SELECT FROM procrastinate_workers AS worker
                              WHERE worker.id = process.worker_id)
            LIMIT %(forgotten)s)
    )
    INSERT INTO worker_processes (worker_id, machine) VALUES (%(worker_id)s, %(machine)s)
"""
_SIGN_OFF = "DELETE FROM worker_processes WHERE worker_id = %(worker_id)s"
_HEARTBEAT = "UPDATE procrastinate_workers SET last_heartbeat = now() WHERE id = %(worker_id)s"


class RunningJobs:
    """The jobs that this process holds, and which of them run alone; used by its event loop and the threads
    of its jobs.
    """

    def __init__(self) -> None:
        self._alone: dict[int, bool] = {}

    def may_start(self, *, alone: bool = False) -> bool:
        """See `mosaico.jobs.deaths.may_start`."""
        return may_start(alone=alone, running=self._alone.values())

    def add(self, job_id: int, *, alone: bool) -> None:
        self._alone[job_id] = alone

    def share(self, job_id: int) -> None:
        """Others may run beside the job from now on."""
        if job_id in self._alone:
            self._alone[job_id] = False

    def remove(self, job_id: int) -> None:
        self._alone.pop(job_id, None)


class FencedJobManager(JobManager):
    """Registers workers with their presence, lets jobs run alone that must, and suppresses procrastinate's
    own finish and retry, which have no fencing.

    The runner has recorded the outcome already, under its claim. procrastinate itself would also
    finish a job that was rescued and now belongs to another worker.
    """

    def __init__(
        self,
        connector: procrastinate.PsycopgConnector,
        presence: WorkerPresence,
        handlers: JobHandlers,
        running: RunningJobs,
        *,
        release_unknown: Callable[[JobClaim], None],
        record_outcome: Callable[[JobClaim, JobOutcome], None],
        heartbeat_interval_s: float,
    ) -> None:
        super().__init__(connector)
        self._heartbeat_interval_s = heartbeat_interval_s
        self._heartbeats: asyncio.Task[None] | None = None
        self._presence = presence
        self._handlers = handlers
        self._running = running
        self._release_unknown = release_unknown
        self._record_outcome = record_outcome
        self._worker_id: int | None = None

    async def register_worker(self) -> int:
        worker_id = await super().register_worker()
        await self.connector.execute_query_async(
            query=_REGISTER_PROCESS,
            worker_id=worker_id,
            machine=platform.node(),
            # The next worker forgets the others.
            forgotten=STATEMENT_ROWS,
        )
        self._worker_id = worker_id
        # Before the first job is fetched: a worker without presence counts as dead.
        await self._presence.execute(worker_id, _HEARTBEAT)
        # procrastinate ends its own heartbeats after a failed fetch, and then waits for the running jobs.
        self._heartbeats = asyncio.create_task(self._send_heartbeats(worker_id))
        return worker_id

    async def _send_heartbeats(self, worker_id: int) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_interval_s)
            await self.update_heartbeat(worker_id)

    async def update_heartbeat(self, worker_id: int) -> None:
        """Send a heartbeat; one that fails is repeated at the next interval.

        procrastinate sends none after an error, and does not notice it: it stops to watch its tasks
        when the first of them returns, which the one for periodic jobs does at once.
        """
        try:
            await self._presence.execute(worker_id, _HEARTBEAT)
        except (psycopg.Error, OSError) as error:
            log.warning("the heartbeat failed: %s", error)

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> QueuedJob | None:
        # A worker without presence counts as dead: each of its jobs would be rescued at once.
        if not self._presence.is_held or not self._running.may_start():
            return None
        job = await super().fetch_job(queues, worker_id)
        if job is None:
            return None
        claim = claim_of(job)
        alone = runs_alone(split_arguments(claim.arguments).deaths)
        if not self._running.may_start(alone=alone):
            # An idle worker may have it now. Otherwise this one fetches it again and again, as only short jobs
            # precede it, until its own jobs have ended.
            await asyncio.to_thread(self._record_outcome, claim, JobReleased())
            return None
        self._running.add(claim.id, alone=alone)
        return job

    async def listen_for_jobs(
        self, *, on_notification: NotificationCallback, queues: Iterable[str] | None = None
    ) -> None:
        """Listen until cancelled; jobs are fetched by polling while the database is away."""
        while True:
            with suppress(ConnectorException):
                await super().listen_for_jobs(on_notification=on_notification, queues=queues)
            await asyncio.sleep(RECONNECT_DELAY_S)

    async def sign_off(self) -> None:
        """Record that this process stops in order: a job that it cannot return in time is no death."""
        try:
            await self.connector.execute_query_async(query=_SIGN_OFF, worker_id=self._worker_id)
        except ConnectorException as error:
            log.warning("the stop of this worker is not recorded: %s", error)

    async def unregister_worker(self, worker_id: int) -> None:
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            with suppress(asyncio.CancelledError):
                await self._heartbeats
        await self._presence.release()
        await super().unregister_worker(worker_id)

    async def finish_job(self, job: QueuedJob, status: Status, delete_job: bool) -> None:  # noqa: ARG002, FBT001 - the signature of the base class
        claim = claim_of(job)
        self._running.remove(claim.id)
        # An unknown job has no runner that could have recorded an outcome; procrastinate would fail
        # it.
        if self._handlers.find(job.task_name) is None:
            await asyncio.to_thread(self._release_unknown, claim)

    async def retry_job(self, job: QueuedJob, *_: object, **__: object) -> None:
        self._running.remove(claim_of(job).id)


def claim_of(job: QueuedJob) -> JobClaim:
    """The claim that procrastinate gave to this worker."""
    assert job.id is not None
    return JobClaim(
        id=job.id,
        name=job.task_name,
        arguments=job.task_kwargs,
        attempts=job.attempts,
        worker_id=job.worker_id,
    )
