"""How a job ends: done, tried again, or failed for good; said only by the worker that holds it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import text
from sqlalchemy.orm import Session

from app.core.errors import Unavailable
from app.jobs.handlers import MAX_ATTEMPTS, HandBack, Handler, Handlers, describe
from app.jobs.queue import enqueue

FIRST_RETRY_S = 1.0
LAST_RETRY_S = 60.0

# A worker that was frozen may find its job given to another, or to itself once more.
_HELD = text(
    """
    SELECT id FROM procrastinate_jobs
    WHERE id = :id AND status = 'doing' AND worker_id = :worker_id AND attempts = :attempts
    FOR UPDATE
    """
)
_FINISH = text("SELECT procrastinate_finish_job_v1(:id, :status, false)")
_RETRY = text(
    "SELECT procrastinate_retry_job_v2(:id, now() + make_interval(secs => :after), NULL, NULL, NULL)"
)
_HAND_BACK = text(
    """
    UPDATE procrastinate_jobs
    SET status = 'todo', scheduled_at = now() + make_interval(secs => :after) WHERE id = :id
    """
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldJob:
    """A job as a worker was given it; `attempts` counts those before this one."""

    id: int
    name: str
    arguments: Mapping[str, Any]
    attempts: int
    worker_id: int | None


@dataclass(frozen=True, slots=True)
class Done:
    """The job did what it was for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedBack:
    """The job waits for another worker, as if nobody had begun it."""

    after_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedAgain:
    """The attempt counts, and a next one follows."""

    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedForGood:
    """Nobody tries again; the handler's `give_up` is told why."""

    code: str
    message: str


Ending: TypeAlias = Done | HandedBack | TriedAgain | FailedForGood


def ending_of(error: Exception, attempts: int, handler: Handler) -> Ending:
    """What becomes of a job that raised, after so many attempts before this one.

    Only what may pass by itself is tried again. A job without a `give_up` has nobody to tell
    that it failed, so it is tried until it succeeds.
    """
    if isinstance(error, HandBack):
        return HandedBack()
    last = handler.give_up is not None and attempts + 1 >= MAX_ATTEMPTS
    if isinstance(error, Unavailable) and not last:
        return TriedAgain(after_s=min(FIRST_RETRY_S * 4 ** min(attempts, 8), LAST_RETRY_S))
    return FailedForGood(**describe(error))


def close(session: Session, job: HeldJob, ending: Ending, handlers: Handlers) -> bool:
    """Write how a job ended; False, and nothing written, when this worker does not hold it."""
    held = {"id": job.id, "worker_id": job.worker_id, "attempts": job.attempts}
    if session.scalar(_HELD, held) is None:
        return False
    match ending:
        case Done():
            session.execute(_FINISH, {"id": job.id, "status": "succeeded"})
        case HandedBack(after_s=after_s):
            session.execute(_HAND_BACK, {"id": job.id, "after": after_s})
        case TriedAgain(after_s=after_s):
            session.execute(_RETRY, {"id": job.id, "after": after_s})
        case FailedForGood():
            fail(session, job, ending, handlers)
    return True


def fail(session: Session, job: HeldJob, why: FailedForGood, handlers: Handlers) -> None:
    """End a job as failed and enqueue its `give_up`, together."""
    session.execute(_FINISH, {"id": job.id, "status": "failed"})
    handler = handlers.find(job.name)
    if handler is not None and handler.give_up is not None:
        told = {**job.arguments, "code": why.code, "message": why.message}
        enqueue(session, handler.give_up, **told)
