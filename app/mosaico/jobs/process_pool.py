"""Pool of child processes for computation: a child that hangs or dies affects only its own call."""

import faulthandler
import gc
import multiprocessing
import os
import queue
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

import psutil

from mosaico.jobs.lost_calls import CallLost, CallTimeout, ChildExited, OutOfMemory, PoolClosed

R = TypeVar("R")

MEMORY_BYTES = 2 * 1024**3
# More than a child needs that has loaded every metric and compared two large runs: it leaks.
KEPT_BYTES = 256 * 1024**2
WARM_UP_TIMEOUT_S = 60.0
# The parent must always be the first to act, even on a busy machine.
ORPHAN_GRACE_S = 10.0


class ProcessPool:
    """A fixed number of warm, spawned children; each serves one call at a time.

    Functions and arguments must be picklable by name. A child may use `memory_bytes` (where the
    system supports such limits). Every `calls_per_child` calls it is replaced if it keeps more than
    `kept_bytes`, which frees leaked memory. Children exit with their parent, even when the parent is
    killed.
    """

    def __init__(
        self,
        size: int,
        *,
        warm_up: Callable[[], None],
        calls_per_child: int = 500,
        kept_bytes: int = KEPT_BYTES,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self.size = size
        self._warm_up = warm_up
        self._memory_bytes = memory_bytes
        self._calls_per_child = calls_per_child
        self._kept_bytes = kept_bytes
        self._lock = threading.Lock()
        self._closed = False
        self._children = [self._new_child() for _ in range(size)]
        self._free: queue.Queue[int] = queue.Queue()
        for slot in range(size):
            self._free.put(slot)

    def run(self, function: Callable[..., R], *arguments: Any, timeout_s: float) -> R:
        """Call a function in a child and wait for its result.

        Raises: what the function raises; `CallTimeout` after `timeout_s`, `ChildExited` when the
        child has exited, `OutOfMemory` beyond the memory limit; `PoolClosed` after `close`. The
        first three replace the child.
        """
        # A free slot is taken before a child is looked up: exactly one thread uses a child at a
        # time.
        slot = self._free.get()
        try:
            with self._replacing(slot) as child:
                return child.call(function, arguments, timeout_s)
        finally:
            self._free.put(slot)

    def pids(self) -> list[int]:
        """The process ids of the children."""
        with self._lock:
            return [pid for child in self._children for pid in child.pids()]

    def close(self) -> None:
        """Kill every child; running calls raise `ChildExited`, later calls `PoolClosed`."""
        with self._lock:
            self._closed = True
            for child in self._children:
                # Under the lock, so that no thread replaces a child after it was killed here.
                child.kill()

    @contextmanager
    def _replacing(self, slot: int) -> Iterator["_PoolProcess"]:
        if self._closed:
            raise PoolClosed("the pool is closed")
        child = self._children[slot]
        try:
            yield child
        except CallLost:
            self._replace(slot)
            raise
        # After the call and not before the next one, so that no caller waits for the start of a
        # child. Only a child that leaks: to start another one costs as much as thousands of traces.
        if child.calls % self._calls_per_child == 0 and child.kept_bytes() > self._kept_bytes:
            self._replace(slot)

    def _replace(self, slot: int) -> None:
        with self._lock:
            self._children[slot].kill()
            if not self._closed:
                self._children[slot] = self._new_child()

    def _new_child(self) -> "_PoolProcess":
        return _PoolProcess(self._warm_up, self._memory_bytes)


# One child starts at a time, so that each knows its own process.
_START_LOCK = threading.Lock()


class _PoolProcess:
    """One child process, started and warmed up on creation."""

    def __init__(self, warm_up: Callable[[], None], memory_bytes: int) -> None:
        self.calls = 0
        self._executor = ProcessPoolExecutor(
            max_workers=1,
            # Not "fork": a fork of a process with threads can inherit a lock that nobody will
            # release, and connections of the parent's database pool. A command that starts such children is
            # one of `mosaico.programs.COMMANDS_WITH_CHILDREN`.
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_initialize_child,
            initargs=(memory_bytes,),
        )
        # The executor does not expose its process: it is the one that starts with the first call.
        with _START_LOCK:
            earlier = {process.pid for process in multiprocessing.active_children()}
            self._warm: Future[None] | None = self._executor.submit(warm_up)
            self._processes = [
                process
                for process in multiprocessing.active_children()
                if process.pid not in earlier
            ]

    def call(self, function: Callable[..., R], arguments: tuple[Any, ...], timeout_s: float) -> R:
        self.calls += 1
        try:
            if self._warm is not None:
                self._warm.result(WARM_UP_TIMEOUT_S)
                self._warm = None
            return self._submit(function, arguments, timeout_s).result(timeout_s)
        # The future cannot be cancelled once it runs: the pool kills the process instead.
        except FutureTimeout:
            raise CallTimeout(f"no result within {timeout_s:g} s") from None
        except MemoryError as error:
            raise OutOfMemory(f"out of memory: {error}") from None
        except (BrokenProcessPool, CancelledError):
            raise ChildExited("the process exited during a call") from None

    def pids(self) -> list[int]:
        return [process.pid for process in self._processes if process.pid is not None]

    def kept_bytes(self) -> int:
        """The memory that the child holds between two calls."""
        try:
            return sum(psutil.Process(pid).memory_info().rss for pid in self.pids())
        except psutil.NoSuchProcess:  # the next call notices that it exited
            return 0

    def kill(self) -> None:
        # SIGKILL: a child that hangs in C code reacts to nothing else.
        for process in self._processes:
            process.kill()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _submit(
        self, function: Callable[..., R], arguments: tuple[Any, ...], timeout_s: float
    ) -> "Future[R]":
        try:
            return self._executor.submit(
                _call_with_deadline, timeout_s + ORPHAN_GRACE_S, function, arguments
            )
        except RuntimeError:  # the executor was shut down by `kill`
            raise ChildExited("the process exited before the call") from None


def _initialize_child(memory_bytes: int) -> None:
    """Limit the memory, leave Ctrl-C to the parent, and exit with the parent.

    A child that waits for a call would otherwise not notice that its parent was killed.
    """
    _limit_memory(memory_bytes)
    # What a child imports until its first call stays: searched for garbage after every 700 objects, it takes a
    # fifth longer.
    gc.disable()
    # Ctrl-C reaches all processes of the terminal; the parent decides which calls still end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, name="end with parent", daemon=True).start()


def _limit_memory(memory_bytes: int) -> None:
    """Limit the data memory of this process; mapped code and files do not count."""
    # RLIMIT_DATA and not RLIMIT_AS: numpy and other libraries reserve much more address space than
    # they use.
    _, hard_limit = resource.getrlimit(resource.RLIMIT_DATA)
    limit = memory_bytes if hard_limit == resource.RLIM_INFINITY else min(memory_bytes, hard_limit)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard_limit))


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _call_with_deadline(
    seconds: float, function: Callable[..., R], arguments: tuple[Any, ...]
) -> R:
    """Call the function, and exit this process when it takes too long.

    The parent kills the child earlier, unless the parent itself was killed. faulthandler does it
    with a C thread: a Python thread would never run while the call keeps the interpreter lock.
    """
    faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__ or sys.stderr)
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    try:
        return function(*arguments)
    except (SystemExit, KeyboardInterrupt):
        os._exit(1)  # re-raised in the parent, it would end the parent
    finally:
        faulthandler.cancel_dump_traceback_later()
