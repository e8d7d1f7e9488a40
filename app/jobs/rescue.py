"""Rescue of jobs whose worker is dead, which procrastinate itself does not restart.

A rescue takes the lease away by increasing `attempts`: the former holder, should it come back, can
no longer record an outcome (see `app.jobs.outcomes`).
"""

from datetime import datetime

from sqlalchemy import text
from sqlalchemy.orm import Session

from app.core.batch_delete import BATCH_ROWS
from app.jobs.handlers import MAX_ATTEMPTS, JobHandlers
from app.jobs.outcomes import JobFailed, JobLease, fail_job
from app.jobs.silent_sessions import SilentSessions

# A killed worker's jobs run again within 15 s: three missed heartbeats, one tick of the rescue, and
# the start.
HEARTBEAT_INTERVAL_S = 2.0
STALLED_AFTER_S = 6.0
RESCUE_INTERVAL_S = 2.0

_RESCUE_LOCK = 0x4D4F5341  # advisory lock of the rescue; any constant that nothing else uses

# While the database was down no worker could send a heartbeat. After its restart live workers get
# the time to send one before their jobs count as stalled.
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
_RETRY_JOB = text("SELECT procrastinate_retry_job_v2(:id, now(), NULL, NULL, NULL)")
_DELETE_FINISHED = text(
    """
    DELETE FROM procrastinate_jobs WHERE id IN (
        SELECT id FROM procrastinate_jobs AS job
        WHERE job.status IN ('succeeded', 'failed', 'cancelled', 'aborted')
          AND NOT EXISTS (SELECT FROM procrastinate_events AS event
                          WHERE event.job_id = job.id AND event.at > now() - interval '7 days')
        LIMIT :batch_rows
    ) RETURNING id
    """
)


def rescue_jobs(
    session: Session,
    handlers: JobHandlers,
    silent_sessions: SilentSessions,
    *,
    stalled_after_s: float = STALLED_AFTER_S,
) -> int:
    """Return the jobs of dead workers to the queue; returns how many.

    A job that was lost `MAX_ATTEMPTS` times with its worker fails for good: it probably crashes
    every worker that runs it.
    Locks:   one rescue at a time; concurrent ones return 0 at once.
    """
    # An advisory lock of the transaction ends with its process: a killed rescuer blocks nobody.
    if not session.scalar(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _RESCUE_LOCK}):
        return 0
    # First, because a suspended process may hold the row locks of the jobs that it no longer runs.
    silent_sessions.terminate(session)
    stalled = session.execute(_SELECT_STALLED, {"stalled": stalled_after_s}).all()
    for job_id, name, arguments, attempts, worker_id in stalled:
        lease = JobLease(
            id=job_id, name=name, arguments=arguments, attempts=attempts, worker_id=worker_id
        )
        # Also for jobs without `on_failure`: a job that kills its workers must not go on for ever.
        if attempts + 1 < MAX_ATTEMPTS:
            session.execute(_RETRY_JOB, {"id": job_id})
        else:
            fail_job(session, lease, _fail_after_lost_workers(lease), handlers)
    return len(stalled)


def _fail_after_lost_workers(lease: JobLease) -> JobFailed:
    message = f"{MAX_ATTEMPTS} workers died while running the job {lease.name}; read their logs"
    return JobFailed(code="POISON", message=message)


def delete_finished_jobs(session: Session, _: datetime) -> int:
    """Delete one batch of jobs that ended more than a week ago, by the clock of the database.

    Returns the number of deleted jobs; see `delete_batch`.
    """
    return len(session.execute(_DELETE_FINISHED, {"batch_rows": BATCH_ROWS}).all())
