"""CPU of the import of the API in a new process, and the time until `mosaico serve` is ready."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.memory import served_from
from benchmarks.result_rows import BenchRow

IMPORT_GOAL_S: Final = 1.5
READY_GOAL_S: Final = 4.0
ROUNDS: Final = 5


def measure() -> Iterator[BenchRow]:
    with TemporaryDirectory() as folder:
        # An installation has compiled modules; a checkout compiles them in its first process.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "modules")
        _import_seconds("app.main")
        seconds = median(_import_seconds("app.main") for _ in range(ROUNDS))
        yield BenchRow(
            "import app.main",
            f"≤ {IMPORT_GOAL_S:g} s of CPU",
            seconds,
            seconds <= IMPORT_GOAL_S,
            f"{seconds:.2f} s, the median of {ROUNDS} new processes",
        )
        data_dir = Path(folder) / "data"
        _ready_seconds(data_dir)
        seconds = median(_ready_seconds(data_dir) for _ in range(ROUNDS))
        yield BenchRow(
            "mosaico serve",
            f"ready in ≤ {READY_GOAL_S:g} s with an existing data folder",
            seconds,
            seconds <= READY_GOAL_S,
            f"{seconds:.2f} s, the median of {ROUNDS} starts",
        )


def _import_seconds(module: str) -> float:
    """CPU seconds (user and system) of a process that imports the module and ends."""
    before = os.times()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )


def _ready_seconds(data_dir: Path) -> float:
    """Seconds from the start of the program to its message that the service is ready."""
    began = time.perf_counter()
    with served_from(data_dir):
        return time.perf_counter() - began
