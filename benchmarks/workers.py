"""W1: 1 to 8 workers on one database.

Each worker has one metric process. But the worker itself and the database compute too: how many cores all of
them use together limits what a second worker can add on a machine with few cores.
`MOSAICO_BENCH_WORKER_TRACES` sets the size of a run, which has several shards for each worker: otherwise some
of them have nothing to do, and the throughput says nothing.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import psycopg

from benchmarks.deployment import deployment_with_workers
from benchmarks.processes import cpu_seconds_of, postmaster_of
from benchmarks.result_rows import BenchRow
from benchmarks.traces import long_pair
from mosaico.runs.shards import SHARD_TRACES
from tests.support.deployment import Deployment
from tests.support.processes import ROOT, Program

TRACES: Final = int(os.environ.get("MOSAICO_BENCH_WORKER_TRACES", "200000"))
COUNTS: Final = (1, 2, 4, 8)
SHARDS_PER_WORKER: Final = 4  # at least
MIN_TRACES: Final = SHARDS_PER_WORKER * COUNTS[-1] * SHARD_TRACES
WARM_UP: Final = 500
# A metric that reads one number of a trace: what is left is the queue and the database.
METRICS: Final = {"six": None, "free": ["TOOL_CALL_SUCCESS_RATE"]}
SATURATED: Final = 1.1  # a tenth more than another rate counts as no more
W1_GOAL: Final = 1.8
SAMPLE_S: Final = 0.05
# Workers of the product: without the plugins of the tests, which make shards small.
PLAIN: Final = {"PYTHONPATH": str(ROOT / "app"), "MOSAICO_METRIC_PROCESSES": "1"}

ACTIVE_MS: Final = "SELECT active_time FROM pg_stat_database WHERE datname = current_database()"
WAITING: Final = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
SHARDS: Final = "SELECT shards_total FROM benchmark_runs WHERE id = %s"
# Measured from the moment at which the shards are enqueued.
SCORING_S: Final = """
    SELECT extract(epoch FROM max(done_at) - min(collection.completed_at))::float8
    FROM run_shards JOIN benchmark_runs AS run ON run.seq = run_seq
    JOIN collections AS collection ON collection.id = run.collection_id WHERE run.id = %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersRun:
    """One run: seconds of its scoring, and of database time and waiting for locks over all sessions.

    `cores` are those that the workers with their metric processes and the database kept busy, on average.
    """

    scoring_s: float
    shards: int
    database_s: float
    lock_wait_s: float
    cores: float


def measure() -> Iterator[BenchRow]:
    if TRACES < MIN_TRACES:
        raise SystemExit(
            f"MOSAICO_BENCH_WORKER_TRACES={TRACES} is too small: {COUNTS[-1]} workers need"
            f" {SHARDS_PER_WORKER} shards of {SHARD_TRACES} traces each, {MIN_TRACES} in total"
        )
    with deployment_with_workers() as deployment:
        for name, metrics in METRICS.items():
            fields = {} if metrics is None else {"metrics": metrics}
            deployment.service.create_benchmark(name, **fields)
        runs = dict[str, Mapping[int, WorkersRun]]()
        for name in METRICS:
            runs[name] = {count: _measured_run(deployment, name, count) for count in COUNTS}
            first = runs[name][COUNTS[0]]
            yield from (_row(name, count, run, first) for count, run in runs[name].items())
        yield _second_worker(runs["six"])
        yield _saturation(runs["free"])


def _measured_run(deployment: Deployment, benchmark: str, count: int) -> WorkersRun:
    """A run of new traces with so many warm workers."""
    workers = deployment.programs.workers(count, **PLAIN)
    _upload(deployment, f"{benchmark}-{count}-warm", WARM_UP)
    _complete(deployment, benchmark, f"{benchmark}-{count}-warm")
    _upload(deployment, f"{benchmark}-{count}", TRACES)
    postmaster = postmaster_of(deployment.service.resources.data_dir / "postgres")
    roots = (postmaster, *(worker.pid for worker in workers))
    with _sampled_locks(deployment.database.url) as waits:
        before = float(deployment.database.value(ACTIVE_MS))
        cpu_before_s, began = cpu_seconds_of(*roots), time.perf_counter()
        run_id = _complete(deployment, benchmark, f"{benchmark}-{count}")
        cores = (cpu_seconds_of(*roots) - cpu_before_s) / (time.perf_counter() - began)
    _stop(workers)
    # A session reports its time at its end at the latest.
    active_ms = float(deployment.database.value(ACTIVE_MS)) - before
    return WorkersRun(
        scoring_s=float(deployment.database.value(SCORING_S, run_id)),
        shards=int(deployment.database.value(SHARDS, run_id)),
        database_s=active_ms / 1000,
        lock_wait_s=sum(waits) * SAMPLE_S,
        cores=cores,
    )


def _complete(deployment: Deployment, benchmark: str, name: str) -> str:
    run = deployment.service.start_run(benchmarkId=benchmark, runName=name)
    return str(deployment.completed_run(run["id"])["id"])


def _upload(deployment: Deployment, name: str, count: int) -> None:
    # Other inputs are another collection, of which no value can be reused.
    traces = ({**long_pair(number), "input": name} for number in range(count))
    deployment.service.upload(traces, run_name=name)


def _stop(workers: Sequence[Program]) -> None:
    for worker in workers:
        worker.send(signal.SIGTERM)
    for worker in workers:
        worker.wait_for_exit()


@contextmanager
def _sampled_locks(url: str) -> Iterator[list[int]]:
    """The number of sessions that wait for a lock, every `SAMPLE_S` seconds until the block ends."""
    counts: list[int] = []
    stopping = threading.Event()

    def sample() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            while not stopping.wait(SAMPLE_S):
                counts.append(int(connection.execute(WAITING).fetchone()[0]))  # type: ignore[index]

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield counts
    finally:
        stopping.set()
        thread.join()


def _row(benchmark: str, count: int, run: WorkersRun, single_run: WorkersRun) -> BenchRow:
    return BenchRow(
        f"{benchmark} {count}",
        f"throughput of {count} workers on {os.cpu_count()} cores is printed",
        single_run.scoring_s / run.scoring_s,
        holds=True,
        note=f"{TRACES / run.scoring_s:,.0f} traces/s, {run.shards / run.scoring_s:.1f} shards/s;"
        f" of the whole run per shard: database {run.database_s / run.shards * 1000:.0f} ms,"
        f" lock waits {run.lock_wait_s / run.shards * 1000:.1f} ms"
        f" ({run.lock_wait_s / TRACES * 1e6:.1f} µs per trace)",
    )


def _second_worker(runs: Mapping[int, WorkersRun]) -> BenchRow:
    ratio = runs[1].scoring_s / runs[2].scoring_s
    cpu_count = os.cpu_count() or 1
    return BenchRow(
        "W1",
        f"two workers ≥ {W1_GOAL:g}× one",
        ratio,
        ratio >= W1_GOAL,
        f"one worker, its metric process and the database use {runs[1].cores:.2f} of {cpu_count} cores,"
        f" so that {cpu_count / runs[1].cores:.2f} times are possible",
    )


def _saturation(runs: Mapping[int, WorkersRun]) -> BenchRow:
    """The number of workers after which more of them store hardly more shards."""
    rates = {count: run.shards / run.scoring_s for count, run in runs.items()}
    most = max(rates.values())
    enough = min(count for count, rate in rates.items() if rate * SATURATED >= most)
    return BenchRow(
        "saturation",
        "the queue and the database with metrics that cost nothing are printed",
        most / rates[COUNTS[0]],
        True,
        f"{enough} workers store {rates[enough]:.1f} shards/s, and more of them at most {most:.1f}",
    )
