"""Faults of large runs in a real service: a worker that is killed, and runs that are cancelled.

A worker is killed at half of each phase; its run must have the same values as an undisturbed one.
`MOSAICO_BENCH_FAULT_TRACES` sets the sizes of the runs, such as "100000,1000000", and `MOSAICO_BENCH_FAULT_ROUNDS` how
often a worker is killed in each phase.
"""

import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import psutil

from benchmarks.result_rows import BenchRow
from benchmarks.run import WARM_UP, WARM_UP_RUNS, upload_traces, write_traces
from benchmarks.running_service import RunningService, served
from benchmarks.stored_values import StoredValues, stored_values
from mosaico.postgres.server import EmbeddedPostgres
from mosaico.runs.shards import SHARD_TRACES
from tests.support.service import JSON
from tests.support.stored import KPIS, DatabaseReader

SIZES: Final = tuple(
    int(size) for size in os.environ.get("MOSAICO_BENCH_FAULT_TRACES", "100000").split(",")
)
ROUNDS: Final = int(os.environ.get("MOSAICO_BENCH_FAULT_ROUNDS", "1"))
BENCHMARK: Final = {
    "id": "faults",
    "datasetRef": "large",
    "metrics": ["ROUGE", "BLEU", "ACCURACY", "PRECISION", "RECALL", "F1_SCORE"],
    "measures": [{"name": "quality", "formula": "WEIGHTED_SUM(ROUGE:0.5, F1_SCORE.p95:0.5)"}],
}
CANCEL_S: Final = 2.0
POLL_S: Final = 0.02
# The jobs of a cancelled run may wait behind each other, but not for long.
PATIENCE_S: Final = 600.0

JOBS: Final = """
    SELECT count(*) FILTER (WHERE status = 'doing'), count(*) FILTER (WHERE status = 'todo')
    FROM procrastinate_jobs WHERE args ->> 'run_id' = %s
"""


class Phase(StrEnum):
    """The phases of a run that a fault hits, in their order. An upload is collected in one transaction."""

    SCORING = "scoring"
    FINISHING = "finishing"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndisturbedRun:
    """A run without faults; `finish_s` is the time after its last measured trace."""

    seconds: float
    finish_s: float
    stored: StoredValues


class RunProgress:
    """Follows a run over the API, and notes how many traces were measured each time."""

    def __init__(self, service: RunningService, size: int, run_name: str) -> None:
        body = {"benchmarkId": "faults", "agentId": "faults", "runName": run_name}
        self._client = service.client
        self._size = size
        self.run: JSON = self._client.post("/benchmark-runs", json=body).raise_for_status().json()
        self.processed_counts = [0]

    @property
    def id(self) -> str:
        return str(self.run["id"])

    @property
    def is_running(self) -> bool:
        return self.run["completedAt"] is None

    @property
    def seconds(self) -> float:
        began, ended = (
            datetime.fromisoformat(self.run[key]) for key in ("startedAt", "completedAt")
        )
        return (ended - began).total_seconds()

    @property
    def is_shown(self) -> bool:
        """Whether the number of measured traces was seen to grow, and never to fall.

        It grows with each shard, and one of a few may be missed between two looks.
        """
        between = {count for count in self.processed_counts if 0 < count < self._size}
        steps = min(3, math.ceil(self._size / SHARD_TRACES) - 2)
        return self.processed_counts == sorted(self.processed_counts) and len(between) >= steps

    def follow(self, until: Callable[[], bool]) -> None:
        while not until():
            time.sleep(POLL_S)
            path = f"/benchmark-runs/{self.id}"
            self.run = self._client.get(path).raise_for_status().json()
            if self.run["tracesProcessed"] != self.processed_counts[-1]:
                self.processed_counts.append(self.run["tracesProcessed"])

    def follow_to_half_of(self, phase: Phase, finish_s: float) -> None:
        """Follow the run until half of a phase is done. Raises: `RuntimeError` if it ended before."""
        count = self._size if phase is Phase.FINISHING else self._size / 2
        self.follow(lambda: self.run["tracesProcessed"] >= count or not self.is_running)
        if phase is Phase.FINISHING:
            time.sleep(finish_s / 2)
        if not self.is_running:
            raise RuntimeError(f"the run ended before half of {phase}: {self.run['errorMessage']}")

    def follow_to_end(self) -> None:
        """Raises: `RuntimeError` when the run failed."""
        self.follow(lambda: not self.is_running)
        if self.run["status"] != "COMPLETED":
            raise RuntimeError(self.run["errorMessage"])


def measure() -> Iterator[BenchRow]:
    with served() as service, TemporaryDirectory() as folder:
        service.client.post("/agents", json={"id": "faults", "name": "f"}).raise_for_status()
        service.client.post("/benchmarks", json=BENCHMARK).raise_for_status()
        database = DatabaseReader(EmbeddedPostgres(service.data_dir).url())
        for size in SIZES:
            yield from _faults(service, database, Path(folder), size)


def _faults(
    service: RunningService, database: DatabaseReader, folder: Path, size: int
) -> Iterator[BenchRow]:
    def started(name: str, count: int = size) -> RunProgress:
        # Texts that no other run has: nothing may be found in a cache.
        file = write_traces(folder, count, f"{name}-{size}")
        upload_traces(service.client, file)
        file.unlink()
        return RunProgress(service, count, file.stem)

    # A run that is compared with the one before imports numpy and scipy into a metric process, once.
    for number in range(WARM_UP_RUNS):
        started(f"warm-{number}", WARM_UP).follow_to_end()
    undisturbed = _undisturbed(database, started("undisturbed"))
    for number, phase in product(range(ROUNDS), Phase):
        run = started(f"kill-{phase}-{number}")
        yield _kill(service, database, run, phase, undisturbed)
    for phase in Phase:
        run = started(f"cancel-{phase}")
        yield _cancel(service, database, run, phase, undisturbed)


def _undisturbed(database: DatabaseReader, run: RunProgress) -> UndisturbedRun:
    run.follow(lambda: run.run["tracesProcessed"] == run.run["tracesTotal"] or not run.is_running)
    measured_at = time.monotonic()
    run.follow_to_end()
    return UndisturbedRun(
        seconds=run.seconds,
        finish_s=time.monotonic() - measured_at,
        stored=stored_values(database, run.id),
    )


def _kill(
    service: RunningService,
    database: DatabaseReader,
    run: RunProgress,
    phase: Phase,
    undisturbed: UndisturbedRun,
) -> BenchRow:
    run.follow_to_half_of(phase, undisturbed.finish_s)
    _worker_of(service).kill()
    run.follow_to_end()
    stored = stored_values(database, run.id)
    lost_s = run.seconds - undisturbed.seconds
    return BenchRow(
        f"kill {phase} {stored.rows}",
        "equal to an undisturbed run, and progress is shown; seconds lost are printed",
        lost_s,
        stored == undisturbed.stored and run.is_shown,
        f"kill -9 at half of {phase}: {lost_s:.1f} s lost of {run.seconds:.1f};"
        f" {stored.rows} rows, {stored.positions} positions, md5 of values {stored.md5[:8]}"
        f" ({undisturbed.stored.md5[:8]} undisturbed);"
        f" tracesProcessed had {len(run.processed_counts)} values",
    )


def _cancel(
    service: RunningService,
    database: DatabaseReader,
    run: RunProgress,
    phase: Phase,
    undisturbed: UndisturbedRun,
) -> BenchRow:
    run.follow_to_half_of(phase, undisturbed.finish_s)
    began = time.monotonic()
    service.client.post(f"/benchmark-runs/{run.id}/cancel").raise_for_status()
    run.follow(lambda: run.run["status"] == "CANCELLED")
    cancelled_s = time.monotonic() - began
    # Both are watched together: a worker may drop a waiting job before the one that it does ends.
    doing_s = waiting_s = 0.0
    jobs = _jobs(database, run.id)
    while jobs != (0, 0) and time.monotonic() - began < PATIENCE_S:
        doing_s = time.monotonic() - began if jobs[0] else doing_s
        waiting_s = time.monotonic() - began if jobs[1] else waiting_s
        time.sleep(POLL_S)
        jobs = _jobs(database, run.id)
    slowest_s = max(cancelled_s, doing_s)
    has_result = bool(database.all(KPIS, run.id))
    return BenchRow(
        f"cancel {phase} {run.run['tracesTotal']}",
        f"CANCELLED and no job at work after ≤ {CANCEL_S:g} s, no result",
        slowest_s / CANCEL_S,
        slowest_s <= CANCEL_S and jobs == (0, 0) and not has_result,
        f"CANCELLED after {cancelled_s:.2f} s, no job at work after {doing_s:.2f} s,"
        f" no waiting job after {waiting_s:.2f} s",
    )


def _jobs(database: DatabaseReader, run_id: str) -> tuple[int, int]:
    """The jobs of a run that a worker does, and those that wait."""
    [(doing, waiting)] = database.all(JOBS, run_id)
    return doing, waiting


def _worker_of(service: RunningService) -> psutil.Process:
    [worker] = [
        process
        for process in psutil.Process(service.pid).children()
        if process.cmdline()[-1:] == ["worker"]
    ]
    return worker
