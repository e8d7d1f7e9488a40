"""Runs a computation in a process that ends afterwards and so releases its memory."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

from mosaico.core.db import Database
from mosaico.core.errors import Unavailable
from mosaico.jobs.process_pool import CallLost, ProcessPool
from mosaico.metrics.registry import load_metrics

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
    """Calls a function in a process that ends afterwards.

    Raises: `ComparisonBusy`, `ComparisonFailed`.
    """
    if not _CHILD_SLOT.acquire(timeout=MAX_WAIT_S):
        raise ComparisonBusy
    try:
        # A pool for one call: its process ends with it and gives all memory back.
        pool = ProcessPool(1, warm_up=load_metrics)
        try:
            return pool.run(function, *arguments, timeout_s=TIMEOUT_S)
        except CallLost as error:
            raise ComparisonFailed(
                f"the comparison could not be computed: {error}; try again, or compare runs of"
                " fewer traces"
            ) from error
        finally:
            pool.close()
    finally:
        _CHILD_SLOT.release()


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
