"""Child processes for computation: one that hangs or dies costs its own call and nothing else."""

import multiprocessing
import queue
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

R = TypeVar("R")


class CallLost(Exception):
    """A child process gave no answer."""


class CallHung(CallLost):
    """A child process took longer than it may and was killed."""


class ChildDied(CallLost):
    """A child process ended in the middle of a call."""


class ProcessPool:
    """A fixed number of warm, spawned children; each serves one call at a time.

    The function and its arguments must be picklable by name. A child is replaced after
    `calls_per_child` calls, so that what leaks is given back.
    """

    def __init__(
        self, size: int, *, warm_up: Callable[[], None], calls_per_child: int = 500
    ) -> None:
        self._warm_up = warm_up
        self._calls_per_child = calls_per_child
        self._slots: queue.Queue[_Child] = queue.Queue()
        self.size = size
        for _ in range(size):
            self._slots.put(_Child(warm_up))

    def run(self, function: Callable[..., R], *arguments: Any, timeout_s: float) -> R:
        """Call a function in a child and wait for its result.

        Raises: what the function raises; `CallHung` after `timeout_s`, `ChildDied` when the
        child is gone. In both cases the child is replaced.
        """
        with self._child() as child:
            return child.call(function, arguments, timeout_s)

    def pids(self) -> list[int]:
        """The processes of the children that are idle now."""
        return [pid for child in list(self._slots.queue) for pid in child.pids()]

    def close(self) -> None:
        """End every idle child; calls under way are abandoned with their processes."""
        while True:
            try:
                self._slots.get_nowait().kill()
            except queue.Empty:
                return

    @contextmanager
    def _child(self) -> Iterator["_Child"]:
        child = self._slots.get()
        try:
            yield child
        except CallLost:
            child.kill()
            child = _Child(self._warm_up)
            raise
        finally:
            if child.calls >= self._calls_per_child:
                child.kill()
                child = _Child(self._warm_up)
            self._slots.put(child)


class _Child:
    """One process, started at its first call or by `warm_up`."""

    def __init__(self, warm_up: Callable[[], None]) -> None:
        self.calls = 0
        self._executor = ProcessPoolExecutor(
            max_workers=1, mp_context=multiprocessing.get_context("spawn")
        )
        self._warm: Future[None] | None = self._executor.submit(warm_up)

    def call(self, function: Callable[..., R], arguments: tuple[Any, ...], timeout_s: float) -> R:
        self.calls += 1
        try:
            if self._warm is not None:
                self._warm.result()
                self._warm = None
            return self._executor.submit(function, *arguments).result(timeout_s)
        except FutureTimeout:
            raise CallHung(f"no answer within {timeout_s:g} s") from None
        except BrokenProcessPool:
            raise ChildDied("the process ended in the middle of a call") from None

    def pids(self) -> list[int]:
        return list(self._executor._processes)  # noqa: SLF001 - the executor offers no other way

    def kill(self) -> None:
        for process in list(self._executor._processes.values()):  # noqa: SLF001 - the same
            process.kill()
        self._executor.shutdown(wait=False, cancel_futures=True)
