"""How much is asked of one server with one key, by all collections of this process together."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

IN_FLIGHT: Final = 8
LOOK_UP_S: Final = 0.2

Pause = Callable[[float], None]


class Limiter:
    """At most eight requests in flight, and none before the time that the server named."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slots = threading.BoundedSemaphore(IN_FLIGHT)
        self._not_before = 0.0

    def hold(self, seconds: float) -> None:
        """The server asked everybody to wait."""
        self._not_before = max(self._not_before, self._clock() + seconds)

    @contextmanager
    def turn(self, pause: Pause) -> Iterator[None]:
        """Wait for a turn to ask, and have it until the block ends; `pause` may raise to leave."""
        self._enter(pause)
        try:
            yield
        finally:
            self._slots.release()

    def _enter(self, pause: Pause) -> None:
        while True:
            while (left := self._not_before - self._clock()) > 0:
                pause(left)
            while not self._slots.acquire(timeout=LOOK_UP_S):
                pause(0)
            if self._not_before <= self._clock():
                return
            # While this request waited for its turn, another one was told to wait.
            self._slots.release()


_limiters: dict[tuple[str, str], Limiter] = {}
_guard = threading.Lock()


def limiter_for(host: str, key: str) -> Limiter:
    """The one limiter of this process for a server and a key."""
    with _guard:
        return _limiters.setdefault((host, key), Limiter())
