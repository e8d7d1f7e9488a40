"""Work beside the thread that stores pages, so that this one is never stuck in a wait."""

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, wait
from contextvars import copy_context
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

from app.core.http.throttle import CancelToken

T = TypeVar("T")

# While nothing comes, whoever waits is called so often: a cancel is seen within two seconds.
HEARTBEAT_S: Final = 1.0


def run_in_thread(work: Callable[[], T]) -> "Future[T]":
    """Do `work` in a thread of its own, which never keeps a process from ending."""
    future: Future[T] = Future()
    context = copy_context()  # the id of the request that all of this belongs to

    def run() -> None:
        with _FutureGuard(future):
            future.set_result(work())

    threading.Thread(target=context.run, args=(run,), name="langfuse", daemon=True).start()
    return future


def run_in_order(tasks: Iterable[Callable[[], T]], *, concurrency: int) -> Iterator[T]:
    """What each piece of work brings, in their order, some of them at once."""
    left = iter(tasks)
    flights = [run_in_thread(work) for work in islice(left, concurrency)]
    while flights:
        result = flights.pop(0).result()
        flights += [run_in_thread(work) for work in islice(left, 1)]
        yield result


def with_heartbeat(
    items: Generator[T, None, None], cancel: CancelToken, *, heartbeat_s: float
) -> Iterator[T | None]:
    """The items, made in the background; None whenever `beat_s` seconds brought no new one.

    When its consumer leaves, `stop` is set, and waits of the background end.
    """
    step: Future[T | None] | None = None
    try:
        while True:
            step = run_in_thread(partial(next, items, None))
            while not wait([step], timeout=heartbeat_s).done:
                yield None
            item = step.result()
            if item is None:
                return
            yield item
    finally:
        cancel.set()
        if step is None or step.done():
            items.close()


class _FutureGuard(Generic[T]):
    """Hands whatever ends its block early to those who wait for the future."""

    def __init__(self, future: "Future[T]") -> None:
        self._future = future

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | Any
    ) -> bool:
        if error is not None:
            self._future.set_exception(error)
        return True
