"""Runs network work in threads, so that the thread that stores pages never blocks on a wait."""

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, wait
from contextvars import copy_context
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from mosaico.core.http.throttle import CancelToken

T = TypeVar("T")
# The consumer is called this often while it waits, so that it sees a cancel within two seconds.
HEARTBEAT_S: Final = 1.0


def run_in_thread(work: Callable[[], T]) -> "Future[T]":
    """Run `work` in a daemon thread, which never keeps the process from ending."""
    future: Future[T] = Future()
    context = copy_context()  # log records keep the request ID of the caller

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - the consumer would wait for ever
            future.set_exception(error)

    threading.Thread(target=context.run, args=(run,), name="network", daemon=True).start()
    return future


def run_in_order(tasks: Iterable[Callable[[], T]], *, concurrency: int) -> Iterator[T]:
    """Yield the results of the tasks in order; up to `concurrency` tasks run at once."""
    queue = iter(tasks)
    futures = [run_in_thread(task) for task in islice(queue, concurrency)]
    while futures:
        result = futures.pop(0).result()
        futures += [run_in_thread(task) for task in islice(queue, 1)]
        yield result


def with_heartbeat(
    items: Generator[T, None, None], cancel: CancelToken, *, heartbeat_s: float
) -> Iterator[T | None]:
    """Yield the items, produced in a thread, and None after each `heartbeat_s` without an item.

    When the consumer closes the iterator, `cancel` is set, which ends the waits of the producer.
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
        # A generator that still runs in its thread cannot be closed; the cancel ends it there.
        if step is None or step.done():
            items.close()
