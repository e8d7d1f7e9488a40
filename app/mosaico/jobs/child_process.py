"""Calls functions in child processes within limits: what others sent, or what takes much memory, never grows this process."""

import logging
import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import reduction
from typing import IO, Any, Final, NamedTuple, TypeVar
from weakref import WeakSet

from mosaico.jobs.lost_calls import CallLost
from mosaico.jobs.process_pool import ProcessPool

R = TypeVar("R")

MIB: Final = 1024**2
# A kept child that holds more after a call is replaced.
KEPT_BYTES: Final = 160 * MIB


class ChildrenBusy(Exception):
    """Every child is in use, and stayed so while the caller waited, or too many callers wait already."""


class ChildLimits(NamedTuple):
    """What one call may use: memory beside mapped files, and time."""

    memory_bytes: int
    timeout_s: float


class SharedFile:
    """An open file for a child process, without a name on disk that a kill would leave behind.

    Both processes share its position.
    """

    def __init__(self, file: IO[bytes]) -> None:
        file.flush()
        # mypy: the stubs do not have it.
        self._descriptor: Any = reduction.DupFd(file.fileno())  # type: ignore[attr-defined, unused-ignore]

    def open(self, mode: str) -> IO[bytes]:
        """The file in the process that received this object; only once."""
        return os.fdopen(self._descriptor.detach(), mode)


class ChildProcesses:
    """At most `size` child processes for one kind of work, each with one call at a time.

    A child waits `kept_s` seconds for the next call, so that calls in a row are cheap, then ends and gives all memory
    back; None: it stays. A caller waits up to `wait_s` for a child, as one of `waiting` callers: they hold threads
    that other requests need.
    """

    def __init__(
        self,
        size: int,
        *,
        warm_up: Callable[[], None],
        kept_s: float | None,
        wait_s: float,
        waiting: int,
    ) -> None:
        self._warm_up = warm_up
        self._kept_s = kept_s
        self._wait_s = wait_s
        self._callers = threading.BoundedSemaphore(size + waiting)
        self._slots = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        # With the timer that ends it.
        self._idle: dict[ProcessPool, threading.Timer | None] = {}
        self._busy: list[ProcessPool] = []
        _EVERY.add(self)

    def run(self, limits: ChildLimits, function: Callable[..., R], *arguments: Any) -> R:
        """Call a function in a child process, and log here what it logs there.

        Raises: what the function raises; `ChildrenBusy`, and `CallLost` for a call beyond its limits.
        """
        if not self._callers.acquire(blocking=False):
            raise ChildrenBusy
        try:
            if not self._slots.acquire(timeout=self._wait_s):
                raise ChildrenBusy
            try:
                with self._child() as pool:
                    answer: _CallResult = pool.run(
                        _call_within, limits, function, arguments, timeout_s=limits.timeout_s
                    )
            finally:
                self._slots.release()
        finally:
            self._callers.release()
        for record in answer.records:
            logging.getLogger(record.logger).log(record.level, "%s", record.message)
        result: R = answer.result
        return result

    def close(self) -> None:
        """Kill the children; their calls raise `CallLost`. A later call starts new ones."""
        with self._lock:
            pools, self._idle = [*self._idle, *self._busy], {}
        for pool in pools:
            pool.close()

    @contextmanager
    def _child(self) -> Iterator[ProcessPool]:
        with self._lock:
            pool = self._take_idle() or self._new_child()
            self._busy.append(pool)
        is_reusable = True
        try:
            yield pool
        except CallLost:
            is_reusable = False
            raise
        finally:
            with self._lock:
                self._busy.remove(pool)
                if is_reusable:
                    self._keep(pool)
            if not is_reusable:
                pool.close()

    def _take_idle(self) -> ProcessPool | None:
        if not self._idle:
            return None
        pool, timer = self._idle.popitem()
        if timer is not None:
            timer.cancel()
        return pool

    def _keep(self, pool: ProcessPool) -> None:
        if self._kept_s is None:
            self._idle[pool] = None
            return

        def end() -> None:
            with self._lock:
                if self._idle.get(pool) is not timer:  # another call took it meanwhile
                    return
                del self._idle[pool]
            pool.close()

        timer = self._idle[pool] = threading.Timer(self._kept_s, end)
        timer.daemon = True
        timer.start()

    def _new_child(self) -> ProcessPool:
        return ProcessPool(1, warm_up=self._warm_up, calls_per_child=1, kept_bytes=KEPT_BYTES)


_EVERY: Final[WeakSet[ChildProcesses]] = WeakSet()


def close_children() -> None:
    """Kill the children of this process: it would wait for their calls before it exits."""
    for children in [*_EVERY]:
        children.close()


class _LogRecord(NamedTuple):
    """A log line of a child process, whose own log is not that of this program."""

    logger: str
    level: int
    message: str


class _CallResult(NamedTuple):
    result: Any
    records: list[_LogRecord]


class _RecordList(logging.Handler):
    """Keeps the records of a logger."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.records: list[_LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(_LogRecord(record.name, record.levelno, record.getMessage()))


def _call_within(
    limits: ChildLimits, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> _CallResult:
    """Call a function in the child process. Raises: `MemoryError`, and what the function raises."""
    handler = _RecordList()
    logger = logging.getLogger("mosaico")
    logger.addHandler(handler)
    try:
        with _memory_limit(limits.memory_bytes):
            return _CallResult(function(*arguments), handler.records)
    except MemoryError:
        # Its traceback holds what filled the memory: another one without it follows.
        pass
    finally:
        logger.removeHandler(handler)
    raise MemoryError(f"more than {limits.memory_bytes // MIB} MiB")


@contextmanager
def _memory_limit(memory_bytes: int) -> Iterator[None]:
    """Lower the data limit of this process during a call; see `process_pool`."""
    earlier, hard_limit = resource.getrlimit(resource.RLIMIT_DATA)
    limit = memory_bytes if earlier == resource.RLIM_INFINITY else min(memory_bytes, earlier)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard_limit))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (earlier, hard_limit))
