"""The threads of an API process: they run routes, and what else of a request waits or computes.

Those of anyio, which FastAPI uses, go through the event loop twice before a thread starts and take twice the
CPU; `asyncio.to_thread` takes half more than these.
"""

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

# Until the application knows its connections.
DEFAULT_THREADS: Final = 10

P = ParamSpec("P")
T = TypeVar("T")


class _Work(NamedTuple):
    """A call with the context of its request, and the future of its result."""

    call: Callable[[], Any]
    context: Context
    result: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop

    def run(self) -> None:
        try:
            value = self.context.run(self.call)
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            self._settle(self._fail, error)
        else:
            self._settle(self._succeed, value)

    def _settle(self, settle: Callable[[Any], None], outcome: object) -> None:
        # A loop that ended meanwhile has nobody who waits.
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(settle, outcome)

    def _succeed(self, value: object) -> None:
        # Done already: the request was cancelled.
        if not self.result.done():
            self.result.set_result(value)

    def _fail(self, error: BaseException) -> None:
        if not self.result.done():
            self.result.set_exception(error)


class ThreadPool:
    """Threads that start when they are needed, up to `size`, and end with the process."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._queue: SimpleQueue[_Work] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        # Negative: so many calls wait.
        self._idle = 0

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a call in a thread; raises what the call raises."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()
        call = partial(function, *args, **kwargs)
        self._queue.put(_Work(call, copy_context(), result, loop))
        self._take_thread()
        return await result

    def _take_thread(self) -> None:
        with self._lock:
            self._idle -= 1
            if self._idle >= 0 or self._started >= self.size:
                return
            self._started += 1
            self._idle += 1
        # A daemon: a process that stops does not wait for a call whose request was given up.
        threading.Thread(target=self._work_forever, name="request", daemon=True).start()

    def _work_forever(self) -> None:
        while True:
            self._queue.get().run()
            with self._lock:
                self._idle += 1


_THREADS: Final = ThreadPool(DEFAULT_THREADS)


def limit_threads(size: int) -> None:
    """Set the number of threads of this process; those that exist stay."""
    _THREADS.size = size


run_in_thread: Final = _THREADS.run
