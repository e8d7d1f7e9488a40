"""Client-side throttling of outbound requests: per-server concurrency, Retry-After, cancellation."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

MAX_IN_FLIGHT: Final = 8
CANCEL_CHECK_S: Final = 0.2

Pause = Callable[[float], None]


class Cancelled(Exception):
    """The caller no longer needs the response."""


class CancelToken:
    """Ends all waits of the requests that share it; once set it stays set."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def pause(self, seconds: float) -> None:
        """Wait that long. Raises `Cancelled` as soon as the token is set."""
        if self._event.wait(seconds):
            raise Cancelled


class Throttle:
    """At most eight requests in flight, and none before the time that the server requested."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slots = threading.BoundedSemaphore(MAX_IN_FLIGHT)
        self._not_before = 0.0

    def delay_requests(self, seconds: float) -> None:
        """Delay all requests by that time, after a Retry-After of the server."""
        self._not_before = max(self._not_before, self._clock() + seconds)

    @contextmanager
    def slot(self, pause: Pause) -> Iterator[None]:
        """Wait for a slot and keep it until the block ends; `pause` may raise to stop waiting."""
        self._acquire(pause)
        try:
            yield
        finally:
            self._slots.release()

    def _acquire(self, pause: Pause) -> None:
        while True:
            while (wait_s := self._not_before - self._clock()) > 0:
                pause(wait_s)
            # A semaphore cannot be interrupted: wake up now and then to notice a cancellation.
            while not self._slots.acquire(timeout=CANCEL_CHECK_S):
                pause(0)
            # Another request may have been asked to wait while this one waited for its slot.
            if self._not_before <= self._clock():
                return
            self._slots.release()


_throttles: dict[str, Throttle] = {}
_throttles_lock = threading.Lock()


def get_throttle(name: str) -> Throttle:
    """The throttle that this process shares for one server, or for one key at a server."""
    with _throttles_lock:
        return _throttles.setdefault(name, Throttle())


class AsyncThrottle:
    """`Throttle` for the tasks of one event loop; cancelling a task ends its wait."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._slots = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._not_before = 0.0

    def delay_requests(self, seconds: float) -> None:
        """Delay all further requests, after a Retry-After of the server."""
        self._not_before = max(self._not_before, self._clock() + seconds)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot and keep it until the block ends."""
        async with self._slots:
            # The slot is kept during the wait: no other request could use it.
            while (wait_s := self._not_before - self._clock()) > 0:
                await self._sleep(wait_s)
            yield


_async_throttles: dict[str, AsyncThrottle] = {}


def get_async_throttle(name: str) -> AsyncThrottle:
    """The throttle that all tasks of this process share for one server."""
    with _throttles_lock:
        return _async_throttles.setdefault(name, AsyncThrottle())
