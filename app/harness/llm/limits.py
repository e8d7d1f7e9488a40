"""How much is asked of one server of models, by all that a process does at a time."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

IN_FLIGHT: Final = 8
LOOK_UP_S: Final = 0.2

Pause = Callable[[float], None]


class Turns:
    """At most eight requests in flight, and none before the time that the server named."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slots = threading.BoundedSemaphore(IN_FLIGHT)
        self._not_before = 0.0

    def hold(self, seconds: float) -> None:
        """The server asked to wait: whoever asks it next waits, too."""
        self._not_before = max(self._not_before, self._clock() + seconds)

    @contextmanager
    def turn(self, pause: Pause) -> Iterator[None]:
        """Wait for a turn and have it until the block ends; `pause` may raise to leave."""
        self._take(pause)
        try:
            yield
        finally:
            self._slots.release()

    def _take(self, pause: Pause) -> None:
        while True:
            while (left_s := self._not_before - self._clock()) > 0:
                pause(left_s)
            while not self._slots.acquire(timeout=LOOK_UP_S):
                pause(0)
            if self._not_before <= self._clock():
                return
            self._slots.release()  # while it waited for its turn, another one was told to wait


_turns: dict[str, Turns] = {}
_guard = threading.Lock()


def turns_at(base_url: str) -> Turns:
    """The turns of this process at one server."""
    with _guard:
        return _turns.setdefault(base_url, Turns())
