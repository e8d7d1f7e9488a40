"""Processes that keep the cores of the machine busy, for tests and benchmarks under load."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

# It ends with its parent, however that ends.
_LOOP = """
import os
parent = os.getppid()
while os.getppid() == parent:
    sum(range(100_000))
"""


@contextmanager
def shared_clock() -> Iterator[Callable[[], float]]:
    """A clock for limits that must hold beside other programs: the CPU seconds of an endless loop.

    On a quiet machine they are those of the wall clock. With ten programs per core the loop gets a tenth of
    them, like the program that is measured.
    """
    with busy_loops(1) as [loop]:
        stat = Path(f"/proc/{loop.pid}/stat")

        def read_s() -> float:
            # The name of the program, in brackets, may itself contain
            # spaces and brackets: see proc(5).
            user, system = stat.read_text().rpartition(")")[2].split()[11:13]
            return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

        yield read_s


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
