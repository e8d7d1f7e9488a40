"""Runs a computation in a process that ends afterwards and so releases its memory."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from mosaico.core.db import Database
from mosaico.core.errors import Unavailable
from mosaico.jobs.process_pool import CallLost, CallTimeout, ProcessPool
from mosaico.metrics.registry import load_metrics

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

TIMEOUT_S = 120.0
MAX_WAIT_S = 60.0
# One child at a time: it takes more memory than the whole service.
_CHILD_SLOT = threading.BoundedSemaphore(1)


class ComparisonBusy(Unavailable):
    """Another comparison is being computed; try again in a minute."""


class ComparisonFailed(Unavailable):
    """The comparison could not be computed; try again, or compare runs of fewer traces."""

    code = "comparison-lost"


def run_in_child(function: Callable[..., R], *arguments: Any) -> R:
    """Calls a function in a process that ends afterwards, and logs what it logs there. A process that is lost, and not for
    its time, is replaced once.

    Raises: `ComparisonBusy`, `ComparisonFailed`.
    """
    if not _CHILD_SLOT.acquire(timeout=MAX_WAIT_S):
        raise ComparisonBusy
    try:
        try:
            answer = _call_once(function, arguments)
        except CallTimeout:
            # It would take as long again.
            raise
        except CallLost as error:
            log.warning("a comparison is computed again: %s", error)
            answer = _call_once(function, arguments)
    except CallLost as error:
        log.error("a comparison could not be computed: %s", error)  # noqa: TRY400 - the message says all
        raise ComparisonFailed(
            f"the comparison could not be computed: {error}; try again, or compare runs of fewer traces"
        ) from error
    finally:
        _CHILD_SLOT.release()
    for record in answer.records:
        logging.getLogger(record.logger).log(record.level, "%s", record.message)
    result: R = answer.result
    return result


class _LogRecord(NamedTuple):
    """A log line of a child process, whose own log is not that of this program."""

    logger: str
    level: int
    message: str


class _Answer(NamedTuple):
    result: Any
    records: list[_LogRecord]


class _RecordList(logging.Handler):
    """Keeps the records of a logger."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.records: list[_LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(_LogRecord(record.name, record.levelno, record.getMessage()))


def _call_once(function: Callable[..., Any], arguments: tuple[Any, ...]) -> _Answer:
    """Call a function in a child process. Raises: `CallLost`."""
    # A pool for one call: its process ends with it and gives all memory back.
    pool = ProcessPool(1, warm_up=load_metrics)
    try:
        answer: _Answer = pool.run(_call_and_record, function, arguments, timeout_s=TIMEOUT_S)
    finally:
        pool.close()
    return answer


def _call_and_record(function: Callable[..., Any], arguments: tuple[Any, ...]) -> _Answer:
    """Call a function in the child process."""
    handler = _RecordList()
    logger = logging.getLogger("mosaico")
    logger.addHandler(handler)
    try:
        return _Answer(function(*arguments), handler.records)
    finally:
        logger.removeHandler(handler)


def query_in_child(
    db: Database,
    function: Callable[Concatenate[Database, P], R],
    *args: P.args,
    **options: P.kwargs,
) -> R:
    """Calls a function of a database in a process that ends afterwards.

    Raises: the errors of `run_in_child`.
    """
    answer: R = run_in_child(_call_with_database, db.direct_url, function, args, options)
    return answer


def _call_with_database(
    url: str, function: Callable[..., R], args: tuple[Any, ...], options: Mapping[str, Any]
) -> R:
    # A connection of its own: one that is inherited by a child process would be used by two.
    with Database(url, pool_size=1, name="mosaico-compare") as db:
        return function(db, *args, **options)
