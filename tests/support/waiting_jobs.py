"""Does the waiting jobs of a service one after the other, in the thread that asks.

To fetch them, a worker of its own has a loop, threads and three sessions of the database, which take longer
than most jobs. What it does with a fetched job happens here, too: it is run under its claim, and its outcome is recorded.
"""

from types import SimpleNamespace
from typing import Any, cast

from procrastinate.jobs import Job as QueuedJob

from mosaico.core.db import Database
from mosaico.core.resources import Resources
from mosaico.jobs.handlers import HANDLERS
from mosaico.jobs.job_manager import claim_of
from mosaico.jobs.job_runner import Worker
from mosaico.jobs.outcomes import MAX_RETRY_DELAY_S
from mosaico.jobs.process_pool import ProcessPool

_REGISTER = "INSERT INTO procrastinate_workers DEFAULT VALUES RETURNING id"
_UNREGISTER = "DELETE FROM procrastinate_workers WHERE id = %(id)s RETURNING id"
_FETCH = "SELECT * FROM procrastinate_fetch_job_v2(NULL, %(worker_id)s) WHERE id IS NOT NULL"
_NEXT_RETRY = """
    SELECT * FROM procrastinate_jobs
    WHERE status = 'todo' AND scheduled_at <= now() + make_interval(secs => %(delay_s)s)
    ORDER BY scheduled_at LIMIT 1
"""
_BRING_FORWARD = "UPDATE procrastinate_jobs SET scheduled_at = now() WHERE id = %(id)s RETURNING id"


def do_waiting_jobs(resources: Resources, pool: ProcessPool) -> None:
    """As `Worker.drain`, but nobody waits until a retry is due."""
    db = resources.db
    worker = Worker(resources, HANDLERS, pool, concurrency=1)
    registered = db.fetch_row(_REGISTER, {})
    assert registered is not None
    while _run_next(worker, db, registered["id"]) or _bring_retry_forward(worker, db):
        pass
    db.fetch_row(_UNREGISTER, registered)


def _run_next(worker: Worker, db: Database, worker_id: object) -> bool:
    row = db.fetch_row(_FETCH, {"worker_id": worker_id})
    if row is None:
        return False
    context = SimpleNamespace(job=QueuedJob.from_row(row), should_abort=lambda: False)
    worker._run(cast("Any", context))
    return True


def _bring_retry_forward(worker: Worker, db: Database) -> bool:
    row = db.fetch_row(_NEXT_RETRY, {"delay_s": MAX_RETRY_DELAY_S})
    if row is None or worker._find_handler(claim_of(QueuedJob.from_row(row))) is None:
        return False
    return db.fetch_row(_BRING_FORWARD, {"id": row["id"]}) is not None
