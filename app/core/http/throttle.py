"""How those wait who ask somebody else's server: for a turn, as long as it wants, and no longer than
somebody wants the answer.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

IN_FLIGHT: Final = 8
LOOK_UP_S: Final = 0.2

Pause = Callable[[float], None]


class Cancelled(Exception):
    """Nobody wants the answer any more."""


class CancelToken:
    """Ends the waits of those who ask; once set it stays set."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def pause(self, seconds: float) -> None:
        """Wait so long. Raises: `Abandoned` as soon as it is set."""
        if self._event.wait(seconds):
            raise Cancelled


class Throttle:
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


_turns: dict[str, Throttle] = {}
_guard = threading.Lock()


def turns_at(name: str) -> Throttle:
    """The turns that all of this process take at one server, or with one key at it."""
    with _guard:
        return _turns.setdefault(name, Throttle())
