"""Runs comparisons in a process that ends soon afterwards and so releases its memory."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from mosaico.core.db import Database
from mosaico.core.errors import Unavailable
from mosaico.core.row_limits import Visible, current_limit, limited_to
from mosaico.jobs.child_process import ChildLimits, ChildProcesses, ChildrenBusy
from mosaico.jobs.lost_calls import CallLost, CallTimeout
from mosaico.jobs.process_pool import MEMORY_BYTES
from mosaico.metrics.registry import load_metrics

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

LIMITS: Final = ChildLimits(MEMORY_BYTES, timeout_s=120.0)
# Who compares two runs looks at another metric, question or pair next: to start a process takes as long as most
# comparisons.
KEPT_S: Final = 60.0
# One child at a time: it takes more memory than the whole service.
CHILDREN: Final = ChildProcesses(1, warm_up=load_metrics, kept_s=KEPT_S, wait_s=60.0, waiting=16)


class ComparisonBusy(Unavailable):
    """Another comparison is being computed; try again in a minute."""


class ComparisonFailed(Unavailable):
    """The comparison could not be computed; try again, or compare runs of fewer traces."""

    code = "comparison-lost"


def run_in_child(function: Callable[..., R], *arguments: Any) -> R:
    """Calls a function in a process that ends soon afterwards. A process that is lost, and not for its time, is replaced
    once.

    Raises: `ComparisonBusy`, `ComparisonFailed`.
    """
    try:
        try:
            return CHILDREN.run(LIMITS, function, *arguments)
        except CallTimeout:
            # It would take as long again.
            raise
        except CallLost as error:
            log.warning("a comparison is computed again: %s", error)
            return CHILDREN.run(LIMITS, function, *arguments)
    except ChildrenBusy:
        raise ComparisonBusy from None
    except CallLost as error:
        log.error("a comparison could not be computed: %s", error)  # noqa: TRY400 - the message says all
        raise ComparisonFailed(
            f"the comparison could not be computed: {error}; try again, or compare runs of fewer traces"
        ) from error


def query_in_child(
    db: Database,
    function: Callable[Concatenate[Database, P], R],
    *args: P.args,
    **options: P.kwargs,
) -> R:
    """Calls a function of a database in a process that ends soon afterwards.

    Raises: the errors of `run_in_child`.
    """
    limit = current_limit()
    answer: R = run_in_child(_call_with_database, db.direct_url, limit, function, args, options)
    return answer


def _call_with_database(
    url: str,
    limit: Visible,
    function: Callable[..., R],
    args: tuple[Any, ...],
    options: Mapping[str, Any],
) -> R:
    # A connection of its own: one that is inherited by a child process would be used by two.
    with limited_to(limit), Database(url, pool_size=1, name="mosaico-compare") as db:
        return function(db, *args, **options)
