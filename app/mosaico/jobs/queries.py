"""Reads of the job engine: its workers."""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.core.db import Database
from mosaico.jobs.queue import ALONE_PRIORITY

MAX_WORKERS = 100
_WORKERS = text(
    """
    SELECT worker.id, process.machine, worker.last_heartbeat,
           count(job.id) FILTER (WHERE job.status = 'doing') AS jobs
    FROM procrastinate_workers AS worker
    LEFT JOIN worker_processes AS process ON process.worker_id = worker.id
    LEFT JOIN procrastinate_jobs AS job ON job.worker_id = worker.id
    GROUP BY 1, 2, 3 ORDER BY 3 DESC LIMIT :limit
    """
)

_PREFERRED_JOB_WAITS = """
    SELECT 1 AS waits FROM procrastinate_jobs AS job
    WHERE status = 'todo' AND priority >= %(priority)s
      AND (scheduled_at IS NULL OR scheduled_at <= now())
      AND (%(queues)s::text[] IS NULL OR queue_name = ANY(%(queues)s))
      AND NOT EXISTS (
        SELECT FROM procrastinate_jobs AS running
        WHERE running.lock = job.lock AND running.status = 'doing'
      )
    LIMIT 1
"""


class WorkerState(NamedTuple):
    """A worker process: its last heartbeat, and the number of jobs that it does now."""

    id: int
    machine: str | None
    last_heartbeat: datetime
    jobs: int


def list_workers(session: Session) -> list[WorkerState]:
    """The workers that are registered, the most recently seen first."""
    rows = session.execute(_WORKERS, {"limit": MAX_WORKERS})
    return [WorkerState(*row) for row in rows]


def has_preferred_job(db: Database, queues: Collection[str] | None) -> bool:
    """Return whether a short job of these queues (None: of any), or one that must run alone, could start now."""
    parameters = {
        "priority": ALONE_PRIORITY,
        "queues": None if queues is None else list(queues),
    }
    return db.fetch_row(_PREFERRED_JOB_WAITS, parameters) is not None
