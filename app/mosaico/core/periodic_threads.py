"""Functions that a process calls again and again, each in a thread of its own."""

import logging
import threading
from collections.abc import Callable

from mosaico.core.errors import AppError

log = logging.getLogger(__name__)


class PeriodicThreads:
    """Calls functions at intervals of the monotonic clock, which nobody can set.

    The calls of one function do not overlap, and one that takes long delays no other function.
    """

    def __init__(self) -> None:
        self._stopping = threading.Event()

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
        first_s = 0.0 if is_first_at_once else interval_s
        threading.Thread(
            target=self._repeat, args=(name, first_s, interval_s, function), name=name, daemon=True
        ).start()

    def stop(self) -> None:
        """Start no further call. A call in progress may take long, and ends with the process."""
        self._stopping.set()

    def _repeat(
        self, name: str, first_s: float, interval_s: float, function: Callable[[], object]
    ) -> None:
        wait_s = first_s
        while not self._stopping.wait(wait_s):
            _call(name, function)
            wait_s = interval_s


def _call(name: str, function: Callable[[], object]) -> None:
    try:
        function()
    except AppError as error:
        log.warning("%s failed and is repeated at its next interval: %s", name, error)
    except Exception:
        log.exception("%s failed and is repeated at its next interval", name)
