"""The time until `mosaico serve` is ready."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.result_rows import BenchRow
from benchmarks.running_service import served_from

READY_GOAL_S: Final = 6.0
ROUNDS: Final = 5


def measure() -> Iterator[BenchRow]:
    with TemporaryDirectory() as folder:
        # An installation has compiled modules; a checkout compiles them in its first process.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "modules")
        data_dir = Path(folder) / "data"
        # Makes the data folder and compiles the modules, and does not count.
        _ready_seconds(data_dir)
        seconds = median(_ready_seconds(data_dir) for _ in range(ROUNDS))
        yield BenchRow(
            "mosaico serve",
            f"ready in ≤ {READY_GOAL_S:g} s with an existing data folder",
            seconds,
            seconds <= READY_GOAL_S,
            f"{seconds:.2f} s, the median of {ROUNDS} starts",
        )


def _ready_seconds(data_dir: Path) -> float:
    """Seconds from the start of the program to its message that the service is ready."""
    began = time.perf_counter()
    with served_from(data_dir):
        return time.perf_counter() - began
