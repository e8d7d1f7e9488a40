"""Job handlers: the function of each job name, and the job to enqueue when it fails for good."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from sqlalchemy.orm import Session

from app.core.resources import Resources
from app.core.text import replace_unstorable
from app.jobs.process_pool import ProcessPool
from app.jobs.queue import enqueue

MAX_ATTEMPTS = 5
MESSAGE_CHARS = 4_000


class WorkerStopping(Exception):
    """The worker is stopping; another worker runs the job again."""


class StartNext(Protocol):
    """Starts the next job in the transaction of a session; `enqueue` and `JobContext.start_next`."""

    def __call__(
        self, session: Session, name: str, *, lock: str | None = None, **arguments: Any
    ) -> None: ...


class JobToken(NamedTuple):
    """Identifies one attempt of one job; all None outside of a worker, where no other can take over."""

    job_id: int | None = None
    job_worker_id: int | None = None
    job_attempts: int | None = None


NO_JOB = JobToken()


# A condition of a statement that has the values of a `JobToken` as parameters: the worker still has the
# job. FOR SHARE: nobody takes the job over before that statement has ended.
HOLDS_JOB = """
    (CAST(%(job_id)s AS bigint) IS NULL OR EXISTS (
        SELECT FROM procrastinate_jobs AS job
        WHERE job.id = %(job_id)s AND job.status = 'doing' AND job.worker_id = %(job_worker_id)s
          AND job.attempts = %(job_attempts)s
        FOR SHARE
    ))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """The context of a handler, in addition to its arguments.

    `call_timeout_s` bounds one call in the process pool. `start_next` starts the following job:
    this worker runs it at once, without the queue, if allowed. `token` proves that the worker has
    the job.
    """

    resources: Resources
    pool: ProcessPool
    is_stopping: Callable[[], bool]
    call_timeout_s: float = 60.0
    start_next: StartNext = enqueue
    token: JobToken = NO_JOB

    def checkpoint(self) -> None:
        """Call between steps; raises `WorkerStopping` when the worker is stopping."""
        if self.is_stopping():
            raise WorkerStopping


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHandler:
    """The handler of one job name.

    `on_failure` names the job to enqueue when this one has failed for good; it gets the same
    arguments plus `code` and `message`.
    """

    name: str
    function: Callable[..., None]
    on_failure: str | None


class JobHandlers:
    """The job handlers of a process, by job name."""

    def __init__(self) -> None:
        self._handlers: dict[str, JobHandler] = {}

    def register(
        self, name: str, *, on_failure: str | None = None
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Declare the decorated function `(job, **arguments)` as the handler of a job."""

        def declare(function: Callable[..., None]) -> Callable[..., None]:
            if name in self._handlers:
                raise ValueError(f"the job {name!r} has two handlers")
            self._handlers[name] = JobHandler(name=name, function=function, on_failure=on_failure)
            return function

        return declare

    def find(self, name: str) -> JobHandler | None:
        return self._handlers.get(name)

    def __iter__(self) -> Iterator[JobHandler]:
        return iter(self._handlers.values())


HANDLERS = JobHandlers()


def describe_error(error: BaseException) -> dict[str, str]:
    """Error code and message of a failed job.

    The message of an unexpected error is hidden: it may contain secrets.
    """
    code = getattr(error, "error_code", None)
    if code is None:
        return {"code": "INTERNAL_ERROR", "message": f"{type(error).__name__} in the worker"}
    return {
        "code": str(code).upper().replace("-", "_"),
        "message": replace_unstorable(str(error)[:MESSAGE_CHARS]),
    }
