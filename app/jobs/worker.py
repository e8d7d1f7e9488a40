"""The loop that does the jobs: start, watch over, stop."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import procrastinate
from apscheduler.schedulers.background import BackgroundScheduler
from procrastinate import JobContext, RetryDecision
from procrastinate.jobs import Job as QueuedJob
from procrastinate.retry import BaseRetryStrategy

from app.core.db import libpq_url
from app.core.errors import Unavailable
from app.core.resources import Resources
from app.jobs.handlers import MAX_ATTEMPTS, HandBack, Handler, Handlers, Job, describe
from app.jobs.pool import ProcessPool
from app.jobs.queue import enqueue
from app.jobs.rescue import HEARTBEAT_INTERVAL_S, RESCUE_INTERVAL_S, STALLED_AFTER_S, rescue

log = logging.getLogger(__name__)

GRACE_S = 4.0
RECONNECT_S = 1.0
POLL_S = 1.0
FIRST_RETRY_S = 1.0


class Worker:
    """One worker process: `concurrency` jobs at a time, each in a thread of its own."""

    def __init__(
        self,
        resources: Resources,
        handlers: Handlers,
        pool: ProcessPool,
        *,
        concurrency: int,
        ticks: dict[str, tuple[float, Callable[[], object]]] | None = None,
    ) -> None:
        self._resources = resources
        self._handlers = handlers
        self._pool = pool
        self._concurrency = concurrency
        self._ticks = {"rescue": (RESCUE_INTERVAL_S, self._rescue), **(ticks or {})}
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def stop(self) -> None:
        """Ask the loop to end; safe from a signal handler or another thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def run(self, *, on_ready: Callable[[], None] = lambda: None) -> None:
        """Do jobs until `stop`; a lost database is waited for, not a reason to end."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(self._concurrency, "job"))
        ticker = self._start_ticker()
        try:
            while not self._stopping.is_set():
                await self._run_until_lost(on_ready)
        finally:
            ticker.shutdown(wait=False)

    async def drain(self) -> None:
        """Do the jobs that wait, and those that they put on the queue, then return."""
        async with self._app().open_async() as app:
            while await app.job_manager.list_jobs_async(status="todo"):
                await app.run_worker_async(
                    concurrency=self._concurrency, wait=False, install_signal_handlers=False
                )

    async def _run_until_lost(self, on_ready: Callable[[], None]) -> None:
        try:
            async with self._app().open_async() as app:
                on_ready()
                await self._serve(app)
        except Exception as error:  # noqa: BLE001 - whatever broke the loop, the next round may work
            log.warning("worker lost its database, trying again: %s", error)
        if not self._stopping.is_set():
            await asyncio.wait([asyncio.ensure_future(self._stopping.wait())], timeout=RECONNECT_S)

    async def _serve(self, app: procrastinate.App) -> None:
        serving = asyncio.ensure_future(
            app.run_worker_async(
                concurrency=self._concurrency,
                install_signal_handlers=False,
                update_heartbeat_interval=HEARTBEAT_INTERVAL_S,
                stalled_worker_timeout=STALLED_AFTER_S * 10,
                fetch_job_polling_interval=POLL_S,
                abort_job_polling_interval=POLL_S,
                shutdown_graceful_timeout=GRACE_S,
            )
        )
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not serving.done():
            serving.cancel()
        try:
            await serving
        except asyncio.CancelledError:
            log.info("worker stopped")

    def _app(self) -> procrastinate.App:
        connector = procrastinate.PsycopgConnector(
            conninfo=libpq_url(self._resources.db.url),
            min_size=1,
            max_size=self._concurrency + 3,
            kwargs={"application_name": "mosaico-jobs", "connect_timeout": 5},
        )
        app = procrastinate.App(connector=connector)
        for handler in self._handlers:
            app.task(name=handler.name, pass_context=True, retry=RetryUnavailable())(
                self._runner(handler)
            )
        return app

    def _runner(self, handler: Handler) -> Callable[..., None]:
        def run(context: JobContext, **arguments: Any) -> None:
            job = Job(
                resources=self._resources,
                pool=self._pool,
                must_stop=lambda: context.should_abort() or self._stopping.is_set(),
            )
            try:
                handler.function(job, **arguments)
            except HandBack:
                raise
            except Exception as error:
                if handler.give_up and is_final(error, context.job.attempts):
                    with self._resources.db.begin() as session:
                        enqueue(session, handler.give_up, **arguments, **describe(error))
                raise

        return run

    def _start_ticker(self) -> BackgroundScheduler:
        ticker = BackgroundScheduler(timezone="UTC")
        for name, (interval_s, tick) in self._ticks.items():
            ticker.add_job(
                _survive(name, tick), "interval", seconds=interval_s, max_instances=1, coalesce=True
            )
        ticker.start()
        return ticker

    def _rescue(self) -> None:
        with self._resources.db.begin() as session:
            rescued = rescue(session, self._handlers)
        if rescued:
            log.warning("rescued %d jobs of dead workers", rescued)


def is_final(error: BaseException, attempts: int) -> bool:
    """Whether a job that failed so is not tried again; `attempts` counts those before this one."""
    return not isinstance(error, Unavailable) or attempts + 1 >= MAX_ATTEMPTS


class RetryUnavailable(BaseRetryStrategy):
    """Only what may pass by itself is tried again: an unavailable service, a stopping worker."""

    def get_retry_decision(
        self, *, exception: BaseException, job: QueuedJob
    ) -> RetryDecision | None:
        if isinstance(exception, HandBack):
            return RetryDecision(retry_in={"seconds": 0})
        if is_final(exception, job.attempts):
            return None
        delay = timedelta(seconds=FIRST_RETRY_S * 4**job.attempts)
        return RetryDecision(retry_in={"seconds": int(delay.total_seconds())})


def _survive(name: str, tick: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        try:
            tick()
        except Exception as error:  # noqa: BLE001 - a tick that failed is tried at the next
            log.warning("tick %s failed, it is tried again: %s", name, error)

    return run
