"""One row of a benchmark, and the fair timing of two contenders."""

import gc
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple


class BenchRow(NamedTuple):
    """The name of a measurement, its goal in words, the measured ratio, and whether it holds."""

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
    """Time both in turn, so that load on the machine affects both alike.

    `time.process_time` is the fairer clock for work that neither waits nor starts processes.
    """
    ours_seconds, peer_seconds = [], []
    for _ in range(repeat):
        ours_seconds.append(_seconds(ours, clock))
        peer_seconds.append(_seconds(peer, clock))
    return Interleaved(statistics.median(ours_seconds), statistics.median(peer_seconds))


def _seconds(work: Callable[[], object], clock: Callable[[], float]) -> float:
    gc.collect()
    gc.disable()  # as timeit does: garbage of one side must not cost the other time
    try:
        started = clock()
        work()
        return clock() - started
    finally:
        gc.enable()
