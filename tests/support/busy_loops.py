"""Processes that keep the cores of the machine busy, for tests and benchmarks under load."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

Clock: TypeAlias = Callable[[], float]
"""Seconds from any instant."""

# It ends with its parent, however that ends.
_LOOP = """
import os
parent = os.getppid()
while os.getppid() == parent:
    sum(range(100_000))
"""


@contextmanager
def shared_clock() -> Iterator[Clock]:
    """A clock for limits that must hold beside other programs: the CPU seconds of an endless loop.

    On a quiet machine they are those of the wall clock. With ten programs per core the loop gets a tenth of
    them, like the program that is measured.
    """
    with busy_loops(1) as [loop]:
        # The number that clock_getcpuclockid(3) gives for the processor time of a process, in nanoseconds.
        clock_id = (~loop.pid << 3) | 2
        yield lambda: time.clock_gettime(clock_id)


def shared_ms(clock: Clock, measure_ms: Callable[[], float]) -> float:
    """A time that another program measured, such as a browser, by a shared clock."""
    started_s, wall_started_s = clock(), time.monotonic()
    measured_ms = measure_ms()
    return measured_ms * (clock() - started_s) / (time.monotonic() - wall_started_s)


@contextmanager
def busy_loops(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many endless loops, until the block ends."""
    loops = [subprocess.Popen([sys.executable, "-S", "-c", _LOOP]) for _ in range(count)]
    try:
        yield loops
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
