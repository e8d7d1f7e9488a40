"""Which function does which job, and what happens when a job fails for good."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from app.core.resources import Resources
from app.core.text import replace_unstorable
from app.jobs.pool import ProcessPool

MAX_ATTEMPTS = 5
MESSAGE_CHARS = 4_000


class WorkerStopping(Exception):
    """The worker is stopping; another one does this job again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """What a handler is given beside its arguments; `call_timeout_s` is the longest that one call
    in the pool may take.
    """

    resources: Resources
    pool: ProcessPool
    is_stopping: Callable[[], bool]
    call_timeout_s: float = 60.0

    def checkpoint(self) -> None:
        """Call between steps; raises `HandBack` when the worker is stopping."""
        if self.is_stopping():
            raise WorkerStopping


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHandler:
    """`give_up` names the job to enqueue, with the same arguments and `code` and `message`, when
    this one has failed for good.
    """

    name: str
    function: Callable[..., None]
    on_failure: str | None


class JobHandlers:
    """The handlers of a process, by job name."""

    def __init__(self) -> None:
        self._handlers: dict[str, JobHandler] = {}

    def register(
        self, name: str, *, on_failure: str | None = None
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Declare the decorated function `(job, **arguments)` as the handler of a job."""

        def declare(function: Callable[..., None]) -> Callable[..., None]:
            if name in self._handlers:
                raise ValueError(f"two handlers for the job {name!r}")
            self._handlers[name] = JobHandler(name=name, function=function, on_failure=on_failure)
            return function

        return declare

    def find(self, name: str) -> JobHandler | None:
        return self._handlers.get(name)

    def __iter__(self) -> Iterator[JobHandler]:
        return iter(self._handlers.values())


HANDLERS = JobHandlers()


def describe_error(error: BaseException) -> dict[str, str]:
    """What a `give_up` job is told about an error: a code for programs, a text for people."""
    code = getattr(error, "error_code", None)
    if code is None:
        return {"code": "INTERNAL_ERROR", "message": f"{type(error).__name__} in the worker"}
    return {
        "code": str(code).upper().replace("-", "_"),
        "message": replace_unstorable(str(error)[:MESSAGE_CHARS]),
    }
