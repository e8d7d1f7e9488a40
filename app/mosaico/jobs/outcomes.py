"""Outcome of a job: succeeded, released, retried or failed; written only by the holder of its claim."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import event, text
from sqlalchemy.orm import Session

from mosaico.core.correlation import bind_correlation
from mosaico.core.errors import Unavailable
from mosaico.jobs.handlers import (
    MAX_ATTEMPTS,
    JobHandler,
    JobHandlers,
    JobToken,
    WorkerStopping,
    describe_error,
)
from mosaico.jobs.queue import (
    DEATHS,
    enqueue_failure,
    split_arguments,
)

# Waits of 1, 4, 16 and 60 s.
FIRST_RETRY_DELAY_S = 1.0
MAX_RETRY_DELAY_S = 60.0
RETRY_DELAY_FACTOR = 4

# The fencing check. A worker that was suspended (a frozen container, a laptop asleep) may wake up
# after its job was rescued and given to another worker, or to itself again. `worker_id` and
# `attempts` together identify the claim: each rescue increases `attempts`.
_LOCK_CLAIM = text(
    """
    SELECT id FROM procrastinate_jobs
    WHERE id = :job_id AND status = 'doing' AND worker_id = :job_worker_id AND attempts = :job_attempts
    FOR UPDATE
    """
)
# Check and end in one statement, for the driver: most jobs end like this.
FINISH_CLAIMED_JOB = """
    SELECT procrastinate_finish_job_v1(held.id, 'succeeded', false)
    FROM (
        SELECT id FROM procrastinate_jobs
        WHERE id = %(job_id)s AND status = 'doing' AND worker_id = %(job_worker_id)s
          AND attempts = %(job_attempts)s
        FOR UPDATE
    ) AS held
"""
_FORGET_DEATHS = text(
    f"""
    UPDATE procrastinate_jobs SET args = args - '{DEATHS}', priority = 0
    WHERE id = :job_id AND status = 'doing' AND worker_id = :job_worker_id AND attempts = :job_attempts
    """  # noqa: S608 - a constant
)
# A job that goes back to the queue beside a waiting one of its key (`enqueue_once`) would violate the unique
# index of keys, and with it the whole rescue.
_HAS_WAITING_TWIN = text(
    """
    SELECT EXISTS (
        SELECT FROM procrastinate_jobs AS job JOIN procrastinate_jobs AS twin USING (queueing_lock)
        WHERE job.id = :id AND twin.status = 'todo'
    )
    """
)
_FINISH_JOB = text("SELECT procrastinate_finish_job_v1(:id, :status, false)")
_RETRY_JOB = text(
    "SELECT procrastinate_retry_job_v2(:id, now() + make_interval(secs => :after), NULL, NULL, NULL)"
)
# procrastinate's own retry would count an attempt: a released job must not come closer to
# MAX_ATTEMPTS because workers were restarted.
_RELEASE_JOB = text(
    """
    UPDATE procrastinate_jobs
    SET status = 'todo', scheduled_at = now() + make_interval(secs => :after) WHERE id = :id
    """
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClaim:
    """A worker's right to run and finish a job.

    `token` has its `worker_id` and its `attempts`, which are the attempts before this one.
    """

    id: int
    name: str
    arguments: Mapping[str, Any]
    attempts: int
    worker_id: int | None

    @property
    def retries(self) -> int:
        """The earlier attempts that ended with an error, and not with a rescue."""
        return self.attempts - split_arguments(self.arguments).rescues

    @property
    def token(self) -> JobToken:
        return JobToken(self.id, self.worker_id, self.attempts)


class JobProgress:
    """Forgets the deaths of a job when it stores a part of its work, which no later attempt repeats.

    `share` is then called with the ID of the job: it need not run alone any more.
    """

    def __init__(self, claim: JobClaim, share: Callable[[int], None]) -> None:
        self._claim = claim
        self._share = share
        self._has_deaths = split_arguments(claim.arguments).deaths.total > 0

    def record(self, session: Session) -> None:
        """See `RecordProgress`."""
        # Almost always without a statement.
        if self._has_deaths:
            session.execute(_FORGET_DEATHS, self._claim.token._asdict())
            event.listen(session, "after_commit", self._forget, once=True)

    def _forget(self, _: Session) -> None:
        self._has_deaths = False
        self._share(self._claim.id)


@dataclass(frozen=True, slots=True)
class JobSucceeded:
    """The job is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReleased:
    """The job goes back to the queue; the attempt does not count."""

    delay_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRetry:
    """The attempt failed; the job is tried again after the delay."""

    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailed:
    """The job failed for good; the `on_failure` job of its handler gets code and message."""

    code: str
    message: str


JobOutcome: TypeAlias = JobSucceeded | JobReleased | JobRetry | JobFailed


def decide_outcome(error: Exception, retries: int, handler: JobHandler) -> JobOutcome:
    """The outcome of a job that raised an error, after `retries` earlier errors.

    Only temporary errors (`Unavailable`) are retried. A job without `on_failure` is retried
    without limit, because no other job would report its failure.
    """
    # The worker is stopped by its operator, which says nothing about the job.
    if isinstance(error, WorkerStopping):
        return JobReleased()
    is_last_attempt = handler.on_failure is not None and retries + 1 >= MAX_ATTEMPTS
    if isinstance(error, Unavailable) and not is_last_attempt:
        return JobRetry(
            delay_s=min(
                # The exponent is bounded, because a job without `on_failure` may be retried for
                # days.
                FIRST_RETRY_DELAY_S * RETRY_DELAY_FACTOR ** min(retries, 8),
                MAX_RETRY_DELAY_S,
            )
        )
    return JobFailed(**describe_error(error))


def record_outcome(
    session: Session, claim: JobClaim, outcome: JobOutcome, handlers: JobHandlers
) -> bool:
    """Write the outcome of a job.

    Returns False, and writes nothing, when the worker has lost the claim.
    Locks:   the row of the job, so that no rescue takes place between check and write.
    """
    # Not an error: the new holder does the same work, and its outcome counts.
    if session.scalar(_LOCK_CLAIM, claim.token._asdict()) is None:
        return False
    if isinstance(outcome, JobReleased | JobRetry) and finish_twin(session, claim):
        return True
    match outcome:
        case JobSucceeded():
            session.execute(_FINISH_JOB, {"id": claim.id, "status": "succeeded"})
        case JobReleased(delay_s=delay_s):
            session.execute(_RELEASE_JOB, {"id": claim.id, "after": delay_s})
        case JobRetry(delay_s=delay_s):
            session.execute(_RETRY_JOB, {"id": claim.id, "after": delay_s})
        case JobFailed():
            fail_job(session, claim, outcome, handlers)
    return True


def finish_twin(session: Session, claim: JobClaim) -> bool:
    """Finish a job for which another one of the same key waits, which does its work; False for others."""
    if not session.scalar(_HAS_WAITING_TWIN, {"id": claim.id}):
        return False
    session.execute(_FINISH_JOB, {"id": claim.id, "status": "succeeded"})
    return True


def fail_job(session: Session, claim: JobClaim, failure: JobFailed, handlers: JobHandlers) -> None:
    """Mark a job as failed and enqueue its `on_failure` job, in one transaction."""
    session.execute(_FINISH_JOB, {"id": claim.id, "status": "failed"})
    # In the same transaction: a process that dies between the two would lose the report of the
    # failure.
    handler = handlers.find(claim.name)
    if handler is not None and handler.on_failure is not None:
        job_call = split_arguments(claim.arguments)
        with bind_correlation(job_call.correlation):
            enqueue_failure(
                session,
                handler.on_failure,
                job_call.arguments,
                {"code": failure.code, "message": failure.message},
            )
