"""Job handlers: the function of each job name, and the job to enqueue when it fails for good."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

from sqlalchemy.orm import Session

from mosaico.core.resources import Resources
from mosaico.core.text import replace_unstorable
from mosaico.jobs.declarations import FailureReport, JobRequest
from mosaico.jobs.process_pool import ProcessPool

MAX_ATTEMPTS = 5
MESSAGE_CHARS = 4_000


class WorkerStopping(Exception):
    """The worker is stopping; another worker runs the job again."""


# Records in the transaction of a session that it stores a part of the work of a job: the earlier deaths of
# its workers do not count any more. `ignore_progress` and `JobContext.record_progress`.
RecordProgress: TypeAlias = Callable[[Session], None]


class JobToken(NamedTuple):
    """Identifies one attempt of one job; all None outside of a worker, where no other can take over."""

    job_id: int | None = None
    job_worker_id: int | None = None
    job_attempts: int | None = None


NO_JOB = JobToken()


def _no_lease() -> None:
    """A job without a lease, whose work is always needed."""


def ignore_progress(_: Session) -> None:
    """For a job outside of a worker, which nobody repeats."""


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

    `call_timeout_s` bounds one call in the process pool. `record_progress` is called with each part of
    the work that is stored. `token` proves that the worker has the job. `check_lease` raises when the
    output of the job is no longer needed.
    """

    resources: Resources
    pool: ProcessPool
    is_stopping: Callable[[], bool]
    call_timeout_s: float = 60.0
    record_progress: RecordProgress = ignore_progress
    token: JobToken = NO_JOB
    check_lease: Callable[[], None] = _no_lease

    def checkpoint(self) -> None:
        """Call between steps; raises `WorkerStopping` when the worker is stopping, and what `check_lease`
        raises.
        """
        if self.is_stopping():
            raise WorkerStopping
        self.check_lease()


RequestT = TypeVar("RequestT", bound=JobRequest)
HandlerFunction: TypeAlias = Callable[[JobContext, RequestT], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHandler:
    """The handler of one kind of job; `on_failure` is the job to enqueue when it has failed for good."""

    request_type: type[JobRequest]
    function: Callable[[JobContext, Any], None]
    on_failure: type[FailureReport] | None

    @property
    def name(self) -> str:
        return self.request_type.NAME

    def knows_arguments(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether this version declares each of the stored arguments of a job."""
        request_type = self.request_type
        return (
            request_type.model_config.get("extra") == "ignore"
            or arguments.keys() <= request_type.model_fields.keys()
        )

    def run(self, job: JobContext, arguments: Mapping[str, Any]) -> None:
        """Run a job with its stored arguments. Raises: `ValidationError` when they are not those of the
        declaration.
        """
        self.function(job, self.request_type.model_validate(arguments))


class JobHandlers:
    """The job handlers of a process, by job name."""

    def __init__(self) -> None:
        self._handlers: dict[str, JobHandler] = {}

    def register(
        self, request_type: type[RequestT], *, on_failure: type[FailureReport] | None = None
    ) -> Callable[[HandlerFunction[RequestT]], HandlerFunction[RequestT]]:
        """Make the decorated function the handler of a kind of job."""

        def declare(function: HandlerFunction[RequestT]) -> HandlerFunction[RequestT]:
            handler = JobHandler(
                request_type=request_type, function=function, on_failure=on_failure
            )
            if handler.name in self._handlers:
                raise ValueError(f"the job {handler.name!r} has two handlers")
            self._handlers[handler.name] = handler
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
