"""An evaluation beside the thread that stores its results."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")
Work = Callable[[Callable[[T], None]], Coroutine[Any, Any, object]]


class _Running(NamedTuple):
    """Work on its loop, so that another thread can end it."""

    loop: asyncio.AbstractEventLoop
    task: "asyncio.Task[None]"


class _Taken(NamedTuple, Generic[T]):
    """What was told meanwhile, and whether nothing more comes."""

    results: list[T]
    ended: bool


def in_background(work: Work[T], *, beat_s: float) -> Generator[list[T], None, None]:
    """What the work tells, as soon as it does; an empty list whenever `beat_s` brought nothing.

    When the consumer leaves, the work is cancelled and waited for. Raises what the work raises,
    once all that it told was handed on.
    """
    told: SimpleQueue[T | None] = SimpleQueue()
    started: Future[_Running] = Future()

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        started.set_result(_Running(asyncio.get_running_loop(), task))
        await work(told.put)

    def close(_: "Future[None]") -> None:
        started.cancel()  # for work that never began
        told.put(None)

    with ThreadPoolExecutor(1, "evaluation") as pool:
        done = pool.submit(copy_context().run, lambda: asyncio.run(run()))
        done.add_done_callback(close)
        try:
            ended = False
            while not ended:
                results, ended = _take(told, beat_s)
                if results or not ended:
                    yield results
            done.result()
        finally:
            with suppress(CancelledError):
                _end(started.result())


def _take(told: "SimpleQueue[T | None]", beat_s: float) -> _Taken[T]:
    results: list[T] = []
    with suppress(Empty):
        result = told.get(timeout=beat_s)
        while result is not None:
            results.append(result)
            result = told.get_nowait()
        return _Taken(results, ended=True)
    return _Taken(results, ended=False)


def _end(running: _Running) -> None:
    with suppress(RuntimeError):  # it has ended by itself
        running.loop.call_soon_threadsafe(running.task.cancel)
