"""One row of a benchmark, and how two contenders are timed fairly."""

import gc
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple


class BenchRow(NamedTuple):
    """What was compared, the goal in words, the ratio reached, and whether it holds."""

    name: str
    goal: str
    ratio: float
    holds: bool
    note: str


class Interleaved(NamedTuple):
    """Median seconds of each contender."""

    ours_seconds: float
    peer_seconds: float


def interleave(
    ours: Callable[[], object],
    peer: Callable[[], object],
    repeat: int = 7,
    clock: Callable[[], float] = time.perf_counter,
) -> Interleaved:
    """Time both in turn, so that a busy minute of the machine hits both alike.

    `time.process_time` is the fairer clock for work that neither waits nor starts processes.
    """
    ours_seconds, peer_seconds = [], []
    for _ in range(repeat):
        ours_seconds.append(_seconds(ours, clock))
        peer_seconds.append(_seconds(peer, clock))
    return Interleaved(statistics.median(ours_seconds), statistics.median(peer_seconds))


def _seconds(work: Callable[[], object], clock: Callable[[], float]) -> float:
    gc.collect()
    gc.disable()  # as timeit does: what one side leaves behind is not the other's work
    try:
        started = clock()
        work()
        return clock() - started
    finally:
        gc.enable()
