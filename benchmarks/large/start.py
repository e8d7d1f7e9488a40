"""CPU of the import of the API in a new process."""

import os
import subprocess
import sys
from collections.abc import Iterator
from statistics import median
from typing import Final

from benchmarks.result_rows import BenchRow

IMPORT_GOAL_S: Final = 1.5
ROUNDS: Final = 5


def measure() -> Iterator[BenchRow]:
    seconds = median(_import_seconds("app.main") for _ in range(ROUNDS))
    yield BenchRow(
        "import app.main",
        f"≤ {IMPORT_GOAL_S:g} s of CPU",
        seconds,
        seconds <= IMPORT_GOAL_S,
        f"{seconds:.2f} s, the median of {ROUNDS} new processes",
    )


def _import_seconds(module: str) -> float:
    """CPU seconds (user and system) of a process that imports the module and ends."""
    before = os.times()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
