"""B1-B11: requests, batches and statements that read or change many rows, at a million rows in each table.

Each request, each transaction of a batch and each statement within 50 ms. The rows are made with SQL. Requests go to
the service over HTTP; the batches of jobs and purges are called one after the other in this process, and the median of
up to 20 counts. Of a statement whose rows grow with its input, the slowest part counts: see `benchmarks.bulk.inputs`.
Set `MOSAICO_BENCH_BULK_ROWS` for another number of rows. `python -m benchmarks bulk reads` measures B11 alone, which
has a database of its own.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.bulk import batches
from benchmarks.bulk.history import time_history
from benchmarks.bulk.inputs import time_inputs
from benchmarks.bulk.reads import fill_reads, time_reads
from benchmarks.bulk.requests import time_requests
from benchmarks.bulk.rows import fill
from benchmarks.bulk.stores import time_stores
from benchmarks.bulk.timings import Timing, result_row
from benchmarks.bulk.trials import time_trials
from benchmarks.result_rows import BenchRow
from mosaico.core.db import Database
from tests.support.postgres import cluster, drop_database, make_database


def measure() -> Iterator[BenchRow]:
    for measure_part in PARTS.values():
        yield from measure_part()


def measure_changes() -> Iterator[BenchRow]:
    with empty_database("bench_bulk") as url:
        yield from measure_database(url, *fill(url))


def measure_reads() -> Iterator[BenchRow]:
    with empty_database("bench_reads") as url:
        fill_reads(url)
        db = Database(url, pool_size=2, name="bench-reads")
        try:
            yield result_row("B11 reads", "each statement", time_reads(db))
        finally:
            db.dispose()


@contextmanager
def empty_database(name: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as running:
        drop_database(running.url, name)
        yield make_database(running.url, name)


PARTS: dict[str, Callable[[], Iterator[BenchRow]]] = {
    "changes": measure_changes,
    "reads": measure_reads,
}


def measure_database(url: str, token: str, trend_ms: float) -> Iterator[BenchRow]:
    db = Database(url, pool_size=2, name="bench-bulk")
    try:
        # First: nothing waits for an endpoint, so every notification can be purged.
        yield result_row("B3 purges", "each batch", batches.time_purges(db))
        yield result_row("B1 bulk requests", "each request", time_requests(url, token))
        yield result_row("B5 trend", "without statistics", [Timing("kpi trend", trend_ms)])
        yield result_row("B2 job batches", "each batch", batches.time_job_batches(db))
        yield result_row("B9 large inputs", "each statement", time_inputs(db))
        yield result_row("B10 stores", "each page", time_stores(db))
        yield result_row("B4 key rotation", "each batch", batches.time_rotation(db))
        yield result_row("B6 deliveries that wait", "each tick", [batches.time_tick(db)])
        yield result_row("B7 earlier runs", "each query", time_history(db))
        yield result_row("B8 trials", "each statement", time_trials(db))
    finally:
        db.dispose()
