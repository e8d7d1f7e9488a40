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
# As `mosaico api` imports it.
IMPORT: Final = (
    "from mosaico.core.garbage_collection import pause_collection; pause_collection();"
    " from mosaico.core.optional_imports import leave_out_terminal_libraries; leave_out_terminal_libraries();"
    " import mosaico.main"
)
API_LIMIT_MIB: Final = 150
LIBRARIES: Final = "fastapi, uvicorn, sqlalchemy.orm, psycopg"


def measure() -> Iterator[BenchRow]:
    with TemporaryDirectory() as folder:
        # An installation has compiled modules; a checkout compiles them in its first process.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "modules")
        # Compiles the modules, and does not count.
        _import_seconds(IMPORT)
        seconds = min(_import_seconds(IMPORT) for _ in range(ROUNDS))
        libraries = min(_import_seconds(f"import {LIBRARIES}") for _ in range(ROUNDS))
        yield BenchRow(
            "import mosaico.main",
            f"≤ {IMPORT_GOAL_S:g} s of CPU",
            seconds,
            seconds <= IMPORT_GOAL_S,
            f"{seconds:.2f} s in the way of `mosaico api`, {libraries:.2f} of it for {LIBRARIES}; the minimum of"
            f" {ROUNDS} new processes",
        )
        yield _memory_row()
        data_dir = Path(folder) / "data"
        # Makes the data folder, and does not count.
        _ready_seconds(data_dir)
        seconds = median(_ready_seconds(data_dir) for _ in range(ROUNDS))
        yield BenchRow(
            "mosaico serve",
            f"ready in ≤ {READY_GOAL_S:g} s with an existing data folder",
            seconds,
            seconds <= READY_GOAL_S,
            f"{seconds:.2f} s, the median of {ROUNDS} starts",
        )


def _memory_row() -> BenchRow:
    """What of the memory of the API process is code: of the libraries, and of all modules."""
    libraries, service_mib = _import_mib(LIBRARIES), _import_mib("mosaico.cli, mosaico.main")
    return BenchRow(
        "memory of imports",
        "resident memory of a process that imported the API is printed",
        service_mib / API_LIMIT_MIB,
        True,
        f"{service_mib:.0f} MiB of the {API_LIMIT_MIB} that the API may have, {libraries:.0f} of it for {LIBRARIES}",
    )


def _import_mib(modules: str) -> float:
    program = f"import {modules}; print(open('/proc/self/status').read())"
    status = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def _import_seconds(program: str) -> float:
    """CPU seconds (user and system) of a process that imports modules and ends."""
    before = os.times()
    subprocess.run([sys.executable, "-c", program], check=True)
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )


def _ready_seconds(data_dir: Path) -> float:
    """Seconds from the start of the program to its message that the service is ready."""
    began = time.perf_counter()
    with served_from(data_dir):
        return time.perf_counter() - began
