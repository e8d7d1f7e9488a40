"""The worker process: does the jobs that the API and other jobs put on the queue."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy.orm import Session

from mosaico.access.audit import delete_old_entries
from mosaico.access.rate_limits import delete_old_windows
from mosaico.access.service import delete_expired_responses
from mosaico.access.sessions import delete_expired_sessions
from mosaico.alerts import missing_runs, publishing
from mosaico.core.batch_delete import delete_in_batches, purge_in_batches, trusted_now
from mosaico.core.clock import utc_now
from mosaico.core.errors import Misconfigured
from mosaico.core.malloc import limit_arenas
from mosaico.core.periodic_functions import call_logged
from mosaico.core.resources import Resources
from mosaico.core.settings import Settings, base_url
from mosaico.jobs.declarations import Deliver, queue_of
from mosaico.jobs.handlers import HANDLERS
from mosaico.jobs.job_runner import Worker
from mosaico.jobs.process_pool import ProcessPool
from mosaico.jobs.rescue import delete_finished_jobs
from mosaico.metrics.registry import load_metrics
from mosaico.notifications import tasks as notification_tasks
from mosaico.notifications.inbox import delete_old_notifications
from mosaico.plugin_loading import load_plugins
from mosaico.runs import tasks as run_tasks
from mosaico.runs.llm_cache import evict_expired_answers
from mosaico.runs.retention import purge_expired_runs
from mosaico.runs.text_retention import remove_expired_texts
from mosaico.schedules import daily_summary, missed_schedules, nonexistent_times, stale_agents
from mosaico.schedules import tasks as schedule_tasks
from mosaico.startup import opened_resources, set_up_logs
from mosaico.traces.otel.service import delete_expired_traces
from mosaico.triggers import tasks as trigger_tasks
from mosaico.triggers.service import delete_expired_events

log = logging.getLogger(__name__)

PURGE_INTERVAL_S = 600.0
STOP_S = 9.0

# By the name of their mark, which is stored.
PURGES: dict[str, Callable[[Session, datetime], int]] = {
    "idempotency_keys": delete_expired_responses,
    "browser_sessions": delete_expired_sessions,
    "finished_jobs": delete_finished_jobs,
    "trigger_events": delete_expired_events,
    "notifications": delete_old_notifications,
    "audit_log": delete_old_entries,
    "llm_cache": evict_expired_answers,
    "run_texts": remove_expired_texts,
}

# Importing a module of tasks declares its handlers.
TASKS = (notification_tasks, run_tasks, schedule_tasks, trigger_tasks)


def run_worker(
    settings: Settings, queues: Collection[str] | None, *, is_alone: bool = False
) -> None:
    """Do jobs until SIGTERM or SIGINT, then hand back what is not done. `queues`: see `Worker`. A worker that
    `is_alone` does not know the address of the API.

    Raises: `Misconfigured`.
    """
    # First: arenas that exist are not given back.
    limit_arenas()
    set_up_logs(settings)
    require_known_queues(queues or ())
    if is_alone:
        warn_of_links(settings, queues)
    load_plugins()
    pool_size = settings.worker_concurrency + 2
    with opened_resources(settings, name="mosaico-worker", pool_size=pool_size) as resources:
        pool = ProcessPool(settings.metric_processes, warm_up=load_metrics)
        try:
            asyncio.run(_work(settings, resources, pool, queues))
        finally:
            pool.close()


def warn_of_links(settings: Settings, queues: Collection[str] | None) -> None:
    """Say where links in messages lead, if this worker sends messages and nobody named the address of the API."""
    has_deliveries = queues is None or queue_of(Deliver.NAME) in queues
    if has_deliveries and settings.public_url is None:
        log.warning(
            "links in messages begin with %s, which this worker's settings name: set MOSAICO_PUBLIC_URL to the"
            " address that readers use",
            base_url(settings),
        )


def require_known_queues(queues: Collection[str]) -> None:
    """Raise `Misconfigured` for a queue that no job has: its worker would wait for ever."""
    job_queues = {queue_of(handler.name) for handler in HANDLERS}
    if unknown := sorted(set(queues) - job_queues):
        raise Misconfigured(
            f"no job has the queue {', '.join(unknown)}; choose from {', '.join(sorted(job_queues))}"
        )


async def _work(
    settings: Settings,
    resources: Resources,
    pool: ProcessPool,
    queues: Collection[str] | None,
) -> None:
    summary_time = daily_summary.SummaryTime.parse(settings.summary_at)
    worker = Worker(
        resources,
        HANDLERS,
        pool,
        concurrency=settings.worker_concurrency,
        call_timeout_s=settings.metric_timeout_s,
        queues=queues,
        ticks={
            "purge": (
                PURGE_INTERVAL_S,
                lambda: _purge(resources, keep_spans=timedelta(days=settings.otel_keep_days)),
            ),
            "deliveries": (
                notification_tasks.TICK_S,
                lambda: notification_tasks.tick(resources),
            ),
            "gathered": (publishing.TICK_S, lambda: _publish_gathered(resources)),
            "missing": (missing_runs.TICK_S, lambda: _report_missing_runs(resources)),
            "nonexistent": (
                nonexistent_times.TICK_S,
                lambda: _record_nonexistent_times(resources),
            ),
            "stale": (stale_agents.TICK_S, lambda: _report_stale_agents(resources)),
            "missed": (missed_schedules.TICK_S, lambda: _report_missed_schedules(resources)),
            "summary": (
                daily_summary.CHECK_INTERVAL_S,
                lambda: daily_summary.send_summary(resources, summary_time),
            ),
            "triggers": (trigger_tasks.TICK_S, lambda: trigger_tasks.tick(resources)),
        },
    )
    loop = asyncio.get_running_loop()

    def stop() -> None:
        worker.stop()
        _end_anyhow()

    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop)
    await worker.run(on_ready=lambda: log.info("worker is ready"))


def _end_anyhow() -> None:
    """End this process after `STOP_S` even if a job neither ends nor looks up: another worker does it again."""

    def end() -> None:
        log.error("a job does not stop; it is left to another worker")
        os._exit(1)

    timer = threading.Timer(STOP_S, end)
    timer.daemon = True
    timer.start()


def _publish_gathered(resources: Resources) -> None:
    """Publish the alerts that need not wait any longer, those of one agent at a time."""
    agent_id: str | None = ""
    while agent_id is not None:
        with resources.db.begin() as session:
            agent_id = publishing.publish_gathered(session, agent_id, resources.clock())


def _record_nonexistent_times(resources: Resources) -> None:
    recorded = nonexistent_times.BATCH_SIZE
    while recorded >= nonexistent_times.BATCH_SIZE:
        with resources.db.begin() as session:
            recorded = nonexistent_times.record_nonexistent_times(session, resources.clock())


def _report_missed_schedules(resources: Resources) -> None:
    """Raise alerts on missed schedules, by the clock of the database."""
    reported = missed_schedules.BATCH_SIZE
    while reported >= missed_schedules.BATCH_SIZE:
        with resources.db.begin() as session:
            reported = missed_schedules.report_missed_schedules(session, resources.clock())


def _report_missing_runs(resources: Resources) -> None:
    """Raise alerts on agents without runs, by the clock of the database."""
    reported = missing_runs.BATCH_SIZE
    while reported >= missing_runs.BATCH_SIZE:
        with resources.db.begin() as session:
            reported = missing_runs.report_missing_runs(session, resources.clock())


def _report_stale_agents(resources: Resources) -> None:
    """Tell of agents without new data, by the clock of the database."""
    with resources.db.begin() as session:
        stale_agents.report_stale_agents(session, resources.clock())


def _purge(resources: Resources, *, keep_spans: timedelta) -> None:
    """Mark the runs that are older than `keepDays`, and delete what expired a day ago or earlier.

    A purge that fails stops no other one: it is logged, and its rows are kept until the next call.
    Raises: `ClocksDiffer`, before anything is deleted.
    """
    with resources.db.begin() as session:
        trusted_now(session, utc_now())
    for kind, delete_some in (
        ("windows of rate limits", delete_old_windows),
        ("runs", purge_expired_runs),
    ):
        call_logged(
            f"the purge of {kind}", partial(delete_in_batches, resources.db, delete_some, utc_now)
        )
    purges = dict(PURGES)
    purges["received_spans"] = partial(delete_expired_traces, keep=keep_spans)
    for kind, delete_expired in purges.items():
        purge = partial(purge_in_batches, resources.db, kind, delete_expired, utc_now)
        call_logged(f"the purge of {kind}", purge)
