"""Runs a coroutine in a background thread and hands its results to a synchronous consumer."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")
Producer = Callable[[Callable[[T], None]], Coroutine[Any, Any, object]]


class _RunningTask(NamedTuple):
    """The task and its event loop; another thread needs both to cancel it."""

    loop: asyncio.AbstractEventLoop
    task: "asyncio.Task[None]"


class _Batch(NamedTuple, Generic[T]):
    """The queued results; `is_last` when the producer has ended."""

    results: list[T]
    is_last: bool


def run_in_background(
    producer: Producer[T], *, heartbeat_s: float
) -> Generator[list[T], None, None]:
    """Yield the results of a producer in batches; an empty batch after `heartbeat_s` without any.

    When the consumer closes the generator, the producer is cancelled and awaited. An exception of
    the producer is raised after the results that it had sent.
    """
    queue: SimpleQueue[T | None] = SimpleQueue()
    started: Future[_RunningTask] = Future()

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        started.set_result(_RunningTask(asyncio.get_running_loop(), task))
        await producer(queue.put)

    def end_queue(_: "Future[None]") -> None:
        # A producer that never started has no task: without this the cleanup below would wait.
        started.cancel()
        queue.put(None)

    # A thread with its own event loop, because the consumer is synchronous and must stay free for
    # heartbeats.
    with ThreadPoolExecutor(1, "evaluation") as pool:
        # The copied context carries the logging and tracing variables of the caller.
        done = pool.submit(copy_context().run, lambda: asyncio.run(run()))
        done.add_done_callback(end_queue)
        try:
            is_last = False
            while not is_last:
                results, is_last = _next_batch(queue, heartbeat_s)
                if results or not is_last:
                    yield results
            # Raises the error of the producer, after its results were yielded.
            done.result()
        finally:
            with suppress(CancelledError):
                _cancel(started.result())


def _next_batch(queue: "SimpleQueue[T | None]", timeout_s: float) -> _Batch[T]:
    results: list[T] = []
    with suppress(Empty):
        result = queue.get(timeout=timeout_s)
        while result is not None:
            results.append(result)
            result = queue.get_nowait()
        return _Batch(results, is_last=True)
    return _Batch(results, is_last=False)


def _cancel(running: _RunningTask) -> None:
    with suppress(RuntimeError):  # the loop is closed: the task has ended
        running.loop.call_soon_threadsafe(running.task.cancel)
