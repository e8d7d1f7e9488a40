"""Threads that ask side by side, and never keep a process or a job from ending."""

import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import NamedTuple, Self

from app.core.http.throttle import MAX_IN_FLIGHT, Cancelled, CancelToken
from app.llm.types import ModelRequest
from app.llm.wire import Reply

Batch = Sequence[ModelRequest]


class Arrived(NamedTuple):
    """A batch, and what became of it."""

    batch: Batch
    result: Reply | Exception


class Crew:
    """Asks batches as they are put, at most eight at a time; results come in any order.

    Whoever leaves the block leaves at once: waits end, and requests that are under way are given
    up. `close` is called when the last of them has ended, which may be later.
    """

    def __init__(
        self, ask: Callable[[Batch], Reply], stop: CancelToken, *, close: Callable[[], None]
    ) -> None:
        self._ask = ask
        self._stop = stop
        self._close = close
        self._lock = threading.Lock()
        self._left = False
        self._waiting: SimpleQueue[Batch | None] = SimpleQueue()
        self._arrived: SimpleQueue[Arrived] = SimpleQueue()
        self._threads = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        for _ in range(MAX_IN_FLIGHT):
            self._waiting.put(None)
        with self._lock:
            self._left = True
        self._close_when_alone()

    def put(self, batch: Batch) -> None:
        """Have a batch asked."""
        self._waiting.put(batch)
        with self._lock:
            if self._threads == MAX_IN_FLIGHT:
                return
            self._threads += 1
        threading.Thread(target=self._work, name="ask", daemon=True).start()

    def take(self, timeout_s: float) -> list[Arrived]:
        """What has arrived by now; waits so long for the first."""
        found = []
        try:
            found.append(self._arrived.get(timeout=timeout_s))
            while True:
                found.append(self._arrived.get_nowait())
        except Empty:
            return found

    def _work(self) -> None:
        try:
            self._ask_on()
        finally:
            with self._lock:
                self._threads -= 1
            self._close_when_alone()

    def _close_when_alone(self) -> None:
        with self._lock:
            if not self._left or self._threads:
                return
        self._close()  # once more does no harm

    def _ask_on(self) -> None:
        while (batch := self._waiting.get()) is not None:
            try:
                self._stop.pause(0)
                result: Reply | Exception = self._ask(batch)
            except Cancelled:
                return
            except Exception as error:  # noqa: BLE001 - raised where the result is taken
                result = error
            self._arrived.put(Arrived(batch, result))
