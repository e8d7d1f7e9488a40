"""Jobs whose worker is gone: procrastinate starts none of them again by itself."""

from datetime import datetime

from sqlalchemy import text
from sqlalchemy.orm import Session

from app.core.batch_delete import BATCH_ROWS
from app.core.db import IDLE_IN_TRANSACTION_TIMEOUT_MS
from app.jobs.handlers import MAX_ATTEMPTS, JobHandlers
from app.jobs.outcomes import JobFailed, JobLease, fail_job

HEARTBEAT_INTERVAL_S = 2.0
STALLED_AFTER_S = 6.0
RESCUE_INTERVAL_S = 2.0

_RESCUE_LOCK = 0x4D4F5341  # any constant: the advisory lock of this task

# After a restart of the database every heartbeat is old; the living get the time to send one.
_SELECT_STALLED = text(
    """
    SELECT job.id, job.task_name, job.args, job.attempts, job.worker_id
    FROM procrastinate_jobs AS job
    LEFT JOIN procrastinate_workers AS worker ON worker.id = job.worker_id
    WHERE job.status = 'doing'
      AND (worker.id IS NULL OR worker.last_heartbeat < now() - make_interval(secs => :stalled))
      AND pg_postmaster_start_time() < now() - make_interval(secs => :stalled)
    FOR UPDATE OF job SKIP LOCKED
    """
)
# The server itself does not notice a silent client in the middle of a COPY or of a pipeline (there
# its timeout for idle transactions is off), and the locks of a frozen process would stay for ever.
_TERMINATE_SILENT = text(
    """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()
      AND application_name LIKE 'mosaico%' AND wait_event_type = 'Client'
      AND xact_start IS NOT NULL AND state_change < now() - make_interval(secs => :silent)
    """
)
_RETRY_JOB = text("SELECT procrastinate_retry_job_v2(:id, now(), NULL, NULL, NULL)")
_DELETE_FINISHED = text(
    """
    DELETE FROM procrastinate_jobs WHERE id IN (
        SELECT id FROM procrastinate_jobs AS job
        WHERE job.status IN ('succeeded', 'failed', 'cancelled', 'aborted')
          AND NOT EXISTS (SELECT FROM procrastinate_events AS event
                          WHERE event.job_id = job.id AND event.at > now() - interval '7 days')
        LIMIT :at_once
    ) RETURNING id
    """
)


def rescue_jobs(
    session: Session, handlers: JobHandlers, *, stalled_after_s: float = STALLED_AFTER_S
) -> int:
    """Give the jobs of dead workers to the living; returns how many there were.

    A job that has cost `MAX_ATTEMPTS` workers their life is poison: it fails for good.
    Locks:   one rescuer at a time; the others return 0 at once.
    """
    if not session.scalar(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _RESCUE_LOCK}):
        return 0
    terminate_silent_sessions(session)
    stalled = session.execute(_SELECT_STALLED, {"stalled": stalled_after_s}).all()
    for job_id, name, arguments, attempts, worker_id in stalled:
        job = JobLease(
            id=job_id, name=name, arguments=arguments, attempts=attempts, worker_id=worker_id
        )
        if attempts + 1 < MAX_ATTEMPTS:
            session.execute(_RETRY_JOB, {"id": job_id})
        else:
            fail_job(session, job, _poison_failure(job), handlers)
    return len(stalled)


def terminate_silent_sessions(
    session: Session, *, silent_s: float = IDLE_IN_TRANSACTION_TIMEOUT_MS / 1000
) -> int:
    """End the sessions of ours whose process has left a transaction open and says nothing, so that
    what it has locked is free; returns how many there were.
    """
    ended: int = session.execute(_TERMINATE_SILENT, {"silent": silent_s}).scalar_one()
    return ended


def _poison_failure(job: JobLease) -> JobFailed:
    message = f"the job {job.name} ended {MAX_ATTEMPTS} workers; look at their logs"
    return JobFailed(code="POISON", message=message)


def delete_finished_jobs(session: Session, _: datetime) -> int:
    """Delete some of the jobs that ended more than a week ago, by the clock of the database; see
    `delete_some`.
    """
    return len(session.execute(_DELETE_FINISHED, {"at_once": BATCH_ROWS}).all())
