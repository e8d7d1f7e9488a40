"""Processes that keep the cores of the machine busy, for tests and benchmarks under load."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# It ends with its parent, however that ends.
_LOOP = """
import os
parent = os.getppid()
while os.getppid() == parent:
    sum(range(100_000))
"""


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
