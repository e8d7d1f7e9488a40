"""Functions that a process calls again and again, in threads beside its work."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from apscheduler.schedulers.background import BackgroundScheduler

from mosaico.core.errors import AppError

log = logging.getLogger(__name__)


class PeriodicFunctions:
    """Calls functions at intervals, until it is stopped.

    The calls of one function do not overlap, and one that takes long delays no other function. APScheduler
    follows the clock of the machine: after that was set back, the calls wait until the old time comes.
    """

    def __init__(self) -> None:
        self._scheduler = BackgroundScheduler(timezone="UTC")
        self._scheduler.start()

    def start(
        self,
        name: str,
        interval_s: float,
        function: Callable[[], object],
        *,
        is_first_at_once: bool = False,
    ) -> None:
        """Call the function every `interval_s` seconds, for the first time after such an interval or at once.

        A call that fails is logged, and repeated after the interval.
        """
        first: dict[str, Any] = {"next_run_time": datetime.now(UTC)} if is_first_at_once else {}
        self._scheduler.add_job(
            partial(call_logged, name, function),
            "interval",
            seconds=interval_s,
            id=name,
            max_instances=1,
            # One call for all that were missed, however late it is.
            coalesce=True,
            misfire_grace_time=None,
            **first,
        )

    def stop(self) -> None:
        """Start no further call.

        A call in progress goes on: the process waits for it when it exits.
        """
        self._scheduler.shutdown(wait=False)


def call_logged(name: str, function: Callable[[], object]) -> None:
    """Call a function that is called again later: its error is logged with its name, and goes no further."""
    try:
        function()
    except AppError as error:
        log.warning("%s failed and is repeated at its next interval: %s", name, error)
    except Exception:
        log.exception("%s failed and is repeated at its next interval", name)
