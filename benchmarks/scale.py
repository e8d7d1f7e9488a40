"""W1 and W2: the speed-up by a second worker, and the work left for an unchanged run.

A worker has one metric process here. But the worker itself and the database compute too: how many cores
all of them use together limits what a second worker can add on a machine with few cores.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from datetime import datetime
from statistics import median
from typing import Final, NamedTuple

from benchmarks.deployment import deployment_with_workers
from benchmarks.large.processes import cpu_seconds_of, postmaster_of
from benchmarks.result_rows import BenchRow
from benchmarks.traces import long_pair
from tests.support.deployment import Deployment
from tests.support.processes import Program
from tests.support.service import JSON

TRACES: Final = 10_000
WARM_UP_TRACES: Final = 200
ROUNDS: Final = 3
W1_GOAL: Final = 1.8

# Measured from the moment at which the shards are enqueued.
SCORING_S = """
    SELECT extract(epoch FROM max(done_at) - min(collection.completed_at))::float8
    FROM run_shards JOIN benchmark_runs AS run ON run.seq = run_seq
    JOIN collections AS collection ON collection.id = run.collection_id WHERE run.id = %s
"""


class RunTiming(NamedTuple):
    """Seconds of a whole run, and of its scoring only; `cores` are those that the workers with their metric
    processes and the database kept busy meanwhile, on average.
    """

    run: JSON
    whole_s: float
    scoring_s: float
    cores: float


def measure() -> Iterator[BenchRow]:
    with deployment_with_workers() as deployment:
        deployment.service.create_benchmark("scale")
        one_worker, two_workers = [], []
        for number in range(ROUNDS):
            one_worker.append(_with_workers(deployment, 1, f"one-{number}"))
            two_workers.append(_with_workers(deployment, 2, f"two-{number}"))
        yield _second_worker(one_worker, two_workers)
        yield _limit(one_worker)
        yield _unchanged(deployment)


def _second_worker(one_worker: list[RunTiming], two_workers: list[RunTiming]) -> BenchRow:
    one_s, two_s = (
        median(timing.whole_s for timing in timings) for timings in (one_worker, two_workers)
    )
    scoring = median(timing.scoring_s for timing in one_worker) / median(
        timing.scoring_s for timing in two_workers
    )
    return BenchRow(
        "W1",
        f"≥ {W1_GOAL:g}× one worker",
        one_s / two_s,
        one_s / two_s >= W1_GOAL,
        f"{TRACES} traces x 6 metrics: {one_s:.1f} s with one worker, {two_s:.1f} s with two;"
        f" {scoring:.2f}x of scoring only",
    )


def _limit(one_worker: list[RunTiming]) -> BenchRow:
    cores, cpu_count = median(timing.cores for timing in one_worker), os.cpu_count() or 1
    return BenchRow(
        "W1 limit",
        f"what more workers can reach on {cpu_count} cores is printed",
        cpu_count / cores,
        True,
        f"one worker, its metric process and the database use {cores:.2f} cores: {cpu_count} cores are"
        f" {cpu_count / cores:.2f}x that",
    )


def _unchanged(deployment: Deployment) -> BenchRow:
    """Time a run and its repetition."""
    workers = _start(deployment, 1)
    _upload(deployment, "again", TRACES)
    first, again = (_run(deployment, workers, "again") for _ in range(2))
    _stop(workers)
    computed, ratio = again.run["metricsComputed"], again.whole_s / first.whole_s
    return BenchRow(
        "W2",
        "an unchanged run computes nothing",
        ratio,
        computed == 0 and again.run["metricsReused"] == first.run["metricsComputed"],
        f"{again.whole_s:.1f} s after {first.whole_s:.1f} s; {computed} values computed,"
        f" {again.run['metricsReused']} reused",
    )


def _with_workers(deployment: Deployment, count: int, name: str) -> RunTiming:
    """Time a run of new traces with warm workers."""
    workers = _start(deployment, count)
    _upload(deployment, f"{name}-warm", WARM_UP_TRACES)
    _run(deployment, workers, f"{name}-warm")
    _upload(deployment, name, TRACES)
    timing = _run(deployment, workers, name)
    _stop(workers)
    return timing


def _start(deployment: Deployment, count: int) -> list[Program]:
    return deployment.programs.workers(count, MOSAICO_METRIC_PROCESSES="1")


def _stop(workers: list[Program]) -> None:
    for worker in workers:
        worker.send(signal.SIGTERM)
    for worker in workers:
        worker.wait_for_exit()


def _upload(deployment: Deployment, name: str, count: int) -> None:
    # Other inputs are another collection, of which no value can be reused.
    traces = ({**long_pair(number), "input": name} for number in range(count))
    deployment.service.upload(traces, run_name=name)


def _run(deployment: Deployment, workers: Sequence[Program], name: str) -> RunTiming:
    postmaster = postmaster_of(deployment.service.resources.data_dir / "postgres")
    roots = (postmaster, *(worker.pid for worker in workers))
    before_s = cpu_seconds_of(*roots)
    started = deployment.service.start_run(benchmarkId="scale", runName=name)
    run = deployment.completed_run(started["id"])
    cpu_s = cpu_seconds_of(*roots) - before_s
    began, ended = (datetime.fromisoformat(run[key]) for key in ("startedAt", "completedAt"))
    scoring_s = float(deployment.database.value(SCORING_S, run["id"]))
    whole_s = (ended - began).total_seconds()
    return RunTiming(run, whole_s, scoring_s, cpu_s / whole_s)
