"""How a job ends: done, tried again, or failed for good; said only by the worker that holds it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import text
from sqlalchemy.orm import Session

from app.core.errors import Unavailable
from app.jobs.handlers import MAX_ATTEMPTS, JobHandler, JobHandlers, WorkerStopping, describe_error
from app.jobs.queue import enqueue

FIRST_RETRY_DELAY_S = 1.0
MAX_RETRY_DELAY_S = 60.0

# A worker that was frozen may find its job given to another, or to itself once more.
_LOCK_LEASE = text(
    """
    SELECT id FROM procrastinate_jobs
    WHERE id = :id AND status = 'doing' AND worker_id = :worker_id AND attempts = :attempts
    FOR UPDATE
    """
)
_FINISH_JOB = text("SELECT procrastinate_finish_job_v1(:id, :status, false)")
_RETRY_JOB = text(
    "SELECT procrastinate_retry_job_v2(:id, now() + make_interval(secs => :after), NULL, NULL, NULL)"
)
_RELEASE_JOB = text(
    """
    UPDATE procrastinate_jobs
    SET status = 'todo', scheduled_at = now() + make_interval(secs => :after) WHERE id = :id
    """
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLease:
    """A job as a worker was given it; `attempts` counts those before this one."""

    id: int
    name: str
    arguments: Mapping[str, Any]
    attempts: int
    worker_id: int | None


@dataclass(frozen=True, slots=True)
class JobSucceeded:
    """The job did what it was for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReleased:
    """The job waits for another worker, as if nobody had begun it."""

    delay_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRetry:
    """The attempt counts, and a next one follows."""

    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailed:
    """Nobody tries again; the handler's `give_up` is told why."""

    code: str
    message: str


JobOutcome: TypeAlias = JobSucceeded | JobReleased | JobRetry | JobFailed


def decide_outcome(error: Exception, attempts: int, handler: JobHandler) -> JobOutcome:
    """What becomes of a job that raised, after so many attempts before this one.

    Only what may pass by itself is tried again. A job without a `give_up` has nobody to tell
    that it failed, so it is tried until it succeeds.
    """
    if isinstance(error, WorkerStopping):
        return JobReleased()
    is_last_attempt = handler.on_failure is not None and attempts + 1 >= MAX_ATTEMPTS
    if isinstance(error, Unavailable) and not is_last_attempt:
        return JobRetry(delay_s=min(FIRST_RETRY_DELAY_S * 4 ** min(attempts, 8), MAX_RETRY_DELAY_S))
    return JobFailed(**describe_error(error))


def record_outcome(
    session: Session, lease: JobLease, outcome: JobOutcome, handlers: JobHandlers
) -> bool:
    """Write how a job ended; False, and nothing written, when this worker does not hold it."""
    fencing_token = {"id": lease.id, "worker_id": lease.worker_id, "attempts": lease.attempts}
    if session.scalar(_LOCK_LEASE, fencing_token) is None:
        return False
    match outcome:
        case JobSucceeded():
            session.execute(_FINISH_JOB, {"id": lease.id, "status": "succeeded"})
        case JobReleased(delay_s=after_s):
            session.execute(_RELEASE_JOB, {"id": lease.id, "after": after_s})
        case JobRetry(delay_s=after_s):
            session.execute(_RETRY_JOB, {"id": lease.id, "after": after_s})
        case JobFailed():
            fail_job(session, lease, outcome, handlers)
    return True


def fail_job(session: Session, lease: JobLease, failure: JobFailed, handlers: JobHandlers) -> None:
    """End a job as failed and enqueue its `give_up`, together."""
    session.execute(_FINISH_JOB, {"id": lease.id, "status": "failed"})
    handler = handlers.find(lease.name)
    if handler is not None and handler.on_failure is not None:
        arguments = {**lease.arguments, "code": failure.code, "message": failure.message}
        enqueue(session, handler.on_failure, **arguments)
