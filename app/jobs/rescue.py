"""Jobs whose worker is gone: procrastinate starts none of them again by itself."""

from sqlalchemy import text
from sqlalchemy.orm import Session

from app.jobs.closing import FailedForGood, HeldJob, fail
from app.jobs.handlers import MAX_ATTEMPTS, Handlers

HEARTBEAT_INTERVAL_S = 2.0
STALLED_AFTER_S = 6.0
RESCUE_INTERVAL_S = 2.0

_RESCUE_LOCK = 0x4D4F5341  # any constant: the advisory lock of this task

# After a restart of the database every heartbeat is old; the living get the time to send one.
_STALLED = text(
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
_RETRY = text("SELECT procrastinate_retry_job_v2(:id, now(), NULL, NULL, NULL)")
_PURGE = text(
    """
    DELETE FROM procrastinate_jobs AS job
    WHERE job.status IN ('succeeded', 'failed', 'cancelled', 'aborted')
      AND NOT EXISTS (SELECT FROM procrastinate_events AS event
                      WHERE event.job_id = job.id AND event.at > now() - interval '7 days')
    """
)


def rescue(
    session: Session, handlers: Handlers, *, stalled_after_s: float = STALLED_AFTER_S
) -> int:
    """Give the jobs of dead workers to the living; returns how many there were.

    A job that has cost `MAX_ATTEMPTS` workers their life is poison: it fails for good.
    Locks:   one rescuer at a time; the others return 0 at once.
    """
    if not session.scalar(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _RESCUE_LOCK}):
        return 0
    stalled = session.execute(_STALLED, {"stalled": stalled_after_s}).all()
    for job_id, name, arguments, attempts, worker_id in stalled:
        job = HeldJob(
            id=job_id, name=name, arguments=arguments, attempts=attempts, worker_id=worker_id
        )
        if attempts + 1 < MAX_ATTEMPTS:
            session.execute(_RETRY, {"id": job_id})
        else:
            fail(session, job, _poison(job), handlers)
    return len(stalled)


def _poison(job: HeldJob) -> FailedForGood:
    message = f"the job {job.name} ended {MAX_ATTEMPTS} workers; look at their logs"
    return FailedForGood(code="POISON", message=message)


def purge_finished(session: Session) -> None:
    """Delete the jobs that ended more than a week ago."""
    session.execute(_PURGE)
