"""Worker process: fetches jobs, runs them in threads, records their outcomes, stops gracefully."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import procrastinate
import psycopg
import structlog
from procrastinate import JobContext as ProcrastinateContext

from mosaico.core.correlation import bind_correlation
from mosaico.core.engine import libpq_url
from mosaico.core.errors import AppError, Unavailable
from mosaico.core.periodic_functions import PeriodicFunctions
from mosaico.core.resources import Resources
from mosaico.jobs.declarations import queue_of
from mosaico.jobs.handlers import JobContext, JobHandler, JobHandlers, WorkerStopping
from mosaico.jobs.job_manager import RECONNECT_DELAY_S, FencedJobManager, RunningJobs, claim_of
from mosaico.jobs.outcomes import (
    FINISH_CLAIMED_JOB,
    MAX_RETRY_DELAY_S,
    JobClaim,
    JobFailed,
    JobOutcome,
    JobProgress,
    JobReleased,
    JobSucceeded,
    decide_outcome,
    record_outcome,
)
from mosaico.jobs.process_pool import ProcessPool
from mosaico.jobs.queue import split_arguments
from mosaico.jobs.rescue import HEARTBEAT_INTERVAL_S, RESCUE_INTERVAL_S, Rescue
from mosaico.jobs.worker_process import WorkerPresence

log = logging.getLogger(__name__)

# Jobs get this time to reach a checkpoint, then their computations are ended: the process must exit
# within the 10 s after which container runtimes kill it.
SHUTDOWN_GRACE_S = 4.0
CONNECT_TIMEOUT_S = 5
POLL_INTERVAL_S = 1.0
# A job of a newer version is offered again twice a minute, until a worker knows it and its arguments.
UNKNOWN_JOB_DELAY_S = 30.0
FORGET_WORKER_AFTER_S = 24 * 3600.0


class Worker:
    """Runs `concurrency` jobs at a time, each in a thread of its own.

    `queues` are the queues of its jobs; None: all. `ticks` are periodic functions by name, with their
    intervals in seconds.
    """

    def __init__(
        self,
        resources: Resources,
        handlers: JobHandlers,
        pool: ProcessPool,
        *,
        concurrency: int,
        call_timeout_s: float = 60.0,
        queues: Collection[str] | None = None,
        ticks: dict[str, tuple[float, Callable[[], object]]] | None = None,
    ) -> None:
        self._resources = resources
        self._handlers = handlers
        self._pool = pool
        self._concurrency = concurrency
        self._call_timeout_s = call_timeout_s
        self._queues = queues
        self._running = RunningJobs()
        self._ticks = ticks or {}
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def stop(self) -> None:
        """Stop the worker; may be called from a signal handler or another thread."""
        if self._loop is not None:
            # asyncio events are not thread-safe.
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def run(self, *, on_ready: Callable[[], None] = lambda: None) -> None:
        """Run jobs until `stop`; when the database is lost, wait until it is back."""
        self._loop = asyncio.get_running_loop()
        # procrastinate runs handlers in the default executor: its size is the number of jobs at a
        # time.
        self._loop.set_default_executor(ThreadPoolExecutor(self._concurrency, "job"))
        ticks = self._start_ticks()
        try:
            while not self._stopping.is_set():
                await self._run_until_lost(on_ready)
        finally:
            ticks.stop()

    async def drain(self) -> None:
        """Run the waiting jobs, and the jobs that they enqueue, then return.

        Jobs that this process does not know stay in the queue, and so do those of a later time than
        a retry has.
        """
        async with self._app().open_async() as app:
            while await self._has_job_to_drain(app):
                await app.run_worker_async(
                    queues=cast("Collection[str]", self._queues),
                    concurrency=self._concurrency,
                    wait=False,
                    install_signal_handlers=False,
                )

    async def _has_job_to_drain(self, app: procrastinate.App) -> bool:
        horizon = datetime.now(UTC) + timedelta(seconds=MAX_RETRY_DELAY_S)
        waiting = await app.job_manager.list_jobs_async(status="todo")
        return any(
            self._may_run(job.task_name)
            and self._find_handler(claim_of(job)) is not None
            and (job.scheduled_at is None or job.scheduled_at <= horizon)
            for job in waiting
        )

    async def _run_until_lost(self, on_ready: Callable[[], None]) -> None:
        try:
            # Fails at once when no server listens; procrastinate itself would wait much longer.
            await asyncio.to_thread(self._resources.db.ping)
            async with self._app().open_async() as app:
                on_ready()
                await self._serve(app)
        except Exception as error:  # noqa: BLE001 - the next attempt may work, whatever failed
            log.warning("worker lost its database, trying again: %s", error)
        if not self._stopping.is_set():
            await asyncio.wait(
                [asyncio.ensure_future(self._stopping.wait())], timeout=RECONNECT_DELAY_S
            )

    async def _serve(self, app: procrastinate.App) -> None:
        serving = asyncio.ensure_future(
            app.run_worker_async(
                # The signature omits None, which means all queues.
                queues=cast("Collection[str]", self._queues),
                concurrency=self._concurrency,
                install_signal_handlers=False,
                # The job manager sends its own.
                update_heartbeat_interval=FORGET_WORKER_AFTER_S,
                # procrastinate only removes the rows of such workers; the rescue restarts their
                # jobs much earlier.
                stalled_worker_timeout=FORGET_WORKER_AFTER_S,
                fetch_job_polling_interval=POLL_INTERVAL_S,
                # Nobody asks procrastinate to abort a job: a run that is cancelled voids its leases.
                abort_job_polling_interval=FORGET_WORKER_AFTER_S,
                shutdown_graceful_timeout=SHUTDOWN_GRACE_S,
            )
        )
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not serving.done():
            serving.cancel()
            # A thread that waits for a computation cannot be interrupted: closing the pool ends the
            # call, and the job is released.
            asyncio.get_running_loop().call_later(SHUTDOWN_GRACE_S, self._pool.close)
            await cast("FencedJobManager", app.job_manager).sign_off()
        try:
            await serving
        except asyncio.CancelledError:
            log.info("worker stopped")

    def _app(self) -> procrastinate.App:
        # Both need one session: procrastinate listens for new jobs, the presence is a lock.
        direct_url = libpq_url(self._resources.db.direct_url)
        connector = procrastinate.PsycopgConnector(
            conninfo=direct_url,
            min_size=1,
            max_size=self._concurrency + 3,
            timeout=CONNECT_TIMEOUT_S,
            configure=_set_autocommit,
            kwargs={"application_name": "mosaico-jobs", "connect_timeout": CONNECT_TIMEOUT_S},
        )
        app = procrastinate.App(connector=connector)
        presence = WorkerPresence(direct_url, connect_timeout_s=CONNECT_TIMEOUT_S)
        app.job_manager = FencedJobManager(
            connector,
            presence,
            self._handlers,
            self._running,
            release_unknown=self._release_unknown,
            record_outcome=self._record_outcome,
            heartbeat_interval_s=HEARTBEAT_INTERVAL_S,
        )
        for handler in self._handlers:
            app.task(name=handler.name, pass_context=True)(self._run)
        return app

    def _run(self, context: ProcrastinateContext, /, **_: Any) -> None:
        """Run a job."""
        claim = claim_of(context.job)
        call = split_arguments(claim.arguments)
        with (
            bind_correlation(call.correlation),
            structlog.contextvars.bound_contextvars(**_ids_of(call.arguments)),
        ):
            self._run_claimed(context, claim, call.arguments)

    def _run_claimed(
        self, context: ProcrastinateContext, claim: JobClaim, arguments: dict[str, Any]
    ) -> None:
        handler = self._find_handler(claim)
        if handler is None:
            self._release_unknown(claim)
            return
        job = JobContext(
            resources=self._resources,
            pool=self._pool,
            # procrastinate's own flag is set only after its grace period.
            is_stopping=lambda: context.should_abort() or self._stopping.is_set(),
            call_timeout_s=self._call_timeout_s,
            record_progress=JobProgress(claim, self._running.share).record,
            token=claim.token,
        )
        outcome: JobOutcome = JobSucceeded()
        try:
            job.checkpoint()
            handler.run(job, arguments)
        except Exception as error:  # noqa: BLE001 - any error is an outcome of the job
            outcome = decide_outcome(error, claim.retries, handler)
            _log_outcome(claim, outcome, error)
        self._record_outcome(claim, outcome)

    def _may_run(self, name: str) -> bool:
        """Return whether this worker runs jobs of a name."""
        is_served = self._queues is None or queue_of(name) in self._queues
        return is_served and self._handlers.find(name) is not None

    def _find_handler(self, claim: JobClaim) -> JobHandler | None:
        """The handler of a job; None for a job of a newer version, whose name or argument this one lacks."""
        handler = self._handlers.find(claim.name)
        arguments = split_arguments(claim.arguments).arguments
        return handler if handler is not None and handler.knows_arguments(arguments) else None

    def _release_unknown(self, unknown: JobClaim) -> None:
        """Release a job of a newer version: a worker of that version may run it."""
        log.warning(
            "job %s (%d) waits for a worker of a newer version, which knows its name and arguments",
            unknown.name,
            unknown.id,
        )
        self._record_outcome(unknown, JobReleased(delay_s=UNKNOWN_JOB_DELAY_S))

    def _record_outcome(self, claim: JobClaim, outcome: JobOutcome) -> None:
        """Write the outcome, and wait for a lost database.

        A worker that is stopping does not wait: the rescue of another worker restarts the job.
        """
        while True:
            try:
                is_recorded = self._write_outcome(claim, outcome)
            except Unavailable as error:
                log.warning(
                    "the outcome of job %s (%d) is not recorded yet: %s",
                    claim.name,
                    claim.id,
                    error,
                )
                if self._stopping.is_set():
                    return
                # The thread waits and not the loop: this runs in the job's thread, and no other job
                # is delayed.
                time.sleep(RECONNECT_DELAY_S)
            else:
                if not is_recorded:
                    log.warning(
                        "job %s (%d) belongs to another worker now; its outcome is not recorded",
                        claim.name,
                        claim.id,
                    )
                return

    def _write_outcome(self, claim: JobClaim, outcome: JobOutcome) -> bool:
        """Returns False when the worker has lost the claim."""
        db = self._resources.db
        if isinstance(outcome, JobSucceeded):
            return db.fetch_row(FINISH_CLAIMED_JOB, claim.token._asdict()) is not None
        with db.begin() as session:
            return record_outcome(session, claim, outcome, self._handlers)

    def _start_ticks(self) -> PeriodicFunctions:
        # Threads beside the event loop, so that a slow tick delays no heartbeat.
        ticks = PeriodicFunctions()
        rescue = Rescue(self._resources.db, self._handlers)
        # At once: after a restart of all workers nobody else rescues the jobs.
        ticks.start("rescue", RESCUE_INTERVAL_S, rescue, is_first_at_once=True)
        for name, (interval_s, tick) in self._ticks.items():
            ticks.start(name, interval_s, tick)
        return ticks


async def _set_autocommit(connection: psycopg.AsyncConnection) -> None:
    # procrastinate sends one statement at a time: BEGIN and COMMIT would be two more round trips.
    await connection.set_autocommit(True)


def _ids_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The IDs in the arguments of a job: every log line has them, so that the ID of a run finds the lines of
    its jobs.
    """
    return {name: value for name, value in arguments.items() if name.endswith("_id")}


def _log_outcome(claim: JobClaim, outcome: JobOutcome, error: Exception) -> None:
    if isinstance(error, WorkerStopping):
        log.info("job %s (%d) is released", claim.name, claim.id)
    elif isinstance(outcome, JobFailed):
        is_expected = isinstance(error, AppError)
        log.error(
            "job %s (%d) failed: %s",
            claim.name,
            claim.id,
            error,
            exc_info=None if is_expected else error,
        )
    else:
        log.warning("job %s (%d) is retried: %s", claim.name, claim.id, error)
