"""Reads of the job engine: its workers."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.orm import Session

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
