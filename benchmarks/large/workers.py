"""1 to 8 workers on one database, and eight in networks of their own of which one dies and one is cut off.

Each worker has one metric process. `MOSAICO_BENCH_WORKER_TRACES` sets the size of a run, which has
several shards for each worker: otherwise some of them have nothing to do, and the throughput says
nothing. `MOSAICO_BENCH_PLOTS` names a folder for the plot of the throughput.
"""

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
from sqlalchemy.engine import make_url

from benchmarks.deployment import deployment_with_workers, pooled_deployment
from benchmarks.large.growth_plot import write_growth_plot
from benchmarks.large.stored_values import stored_values
from benchmarks.result_rows import BenchRow
from benchmarks.scale import SCORING_S
from benchmarks.traces import long_pair
from mosaico.runs.shards import SHARD_TRACES
from tests.support.deployment import Deployment
from tests.support.network import network_to
from tests.support.processes import ROOT, Program, until

TRACES: Final = int(os.environ.get("MOSAICO_BENCH_WORKER_TRACES", "200000"))
COUNTS: Final = (1, 2, 4, 8)
SHARDS_PER_WORKER: Final = 4  # at least
MIN_TRACES: Final = SHARDS_PER_WORKER * COUNTS[-1] * SHARD_TRACES
WARM_UP: Final = 500
# A metric that reads one number of a trace: what is left is the queue and the database.
MEASURES: Final = [{"name": "quality", "formula": "WEIGHTED_SUM(ROUGE:0.5, F1_SCORE.p95:0.5)"}]
METRICS: Final = {"six": None, "free": ["TOOL_CALL_SUCCESS_RATE"]}
SATURATED: Final = 1.1  # a tenth more than another rate counts as no more
POOL_SIZE: Final = 12
NAMESPACED_WORKERS: Final = 8
SAMPLE_S: Final = 0.05
# Workers of the product: without the plugins of the tests, which make shards small.
PLAIN: Final = {"PYTHONPATH": str(ROOT / "app"), "MOSAICO_METRIC_PROCESSES": "1"}

ACTIVE_MS: Final = "SELECT active_time FROM pg_stat_database WHERE datname = current_database()"
WAITING: Final = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
SHARDS: Final = "SELECT shards_total FROM benchmark_runs WHERE id = %s"
BUSY: Final = "SELECT count(DISTINCT worker_id) FROM procrastinate_jobs WHERE status = 'doing'"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersRun:
    """One run: seconds of its scoring, and of database time and waiting for locks over all sessions."""

    scoring_s: float
    shards: int
    database_s: float
    lock_wait_s: float


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
        yield _saturation(runs["free"])
        _plot(runs)
    yield _namespaced()


def _measured_run(deployment: Deployment, benchmark: str, count: int) -> WorkersRun:
    """A run of new traces with so many warm workers."""
    workers = deployment.programs.workers(count, **PLAIN)
    _complete(deployment, benchmark, f"{benchmark}-{count}-warm", WARM_UP)
    with _sampled_locks(deployment.database.url) as waits:
        before = float(deployment.database.value(ACTIVE_MS))
        run_id = _complete(deployment, benchmark, f"{benchmark}-{count}", TRACES)
    _stop(workers)
    # A session reports its time at its end at the latest.
    active_ms = float(deployment.database.value(ACTIVE_MS)) - before
    return WorkersRun(
        scoring_s=float(deployment.database.value(SCORING_S, run_id)),
        shards=int(deployment.database.value(SHARDS, run_id)),
        database_s=active_ms / 1000,
        lock_wait_s=sum(waits) * SAMPLE_S,
    )


def _complete(deployment: Deployment, benchmark: str, name: str, count: int) -> str:
    _upload(deployment, name, count)
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


def _plot(runs: Mapping[str, Mapping[int, WorkersRun]]) -> None:
    lines = {
        f"{name} metrics": {count: TRACES / run.scoring_s for count, run in by_count.items()}
        for name, by_count in runs.items()
    }
    write_growth_plot("growth-workers", "Throughput, by workers", "traces/s", lines)


def _namespaced() -> BenchRow:
    """Runs of eight workers behind PgBouncer; one worker is killed, the network of one goes down."""
    goal = "one killed and one cut off behind PgBouncer: every value as in an undisturbed run"
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return BenchRow("namespaces", goal, 0.0, holds=False, note="needs root and iproute2")
    if shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
        return BenchRow("namespaces", goal, 0.0, holds=False, note="needs PgBouncer")
    _delete_leftovers()
    with pooled_deployment(POOL_SIZE) as deployment, ExitStack() as networks:
        deployment.service.create_benchmark("large", measures=MEASURES)
        workers = [
            networks.enter_context(_namespaced_worker(deployment, number))
            for number in range(NAMESPACED_WORKERS)
        ]
        [undisturbed_id] = _start_runs(deployment, ["undisturbed"])
        deployment.completed_run(undisturbed_id)
        run_ids, seconds = _runs_with_faults(deployment, workers)
        undisturbed = stored_values(deployment.database, undisturbed_id)
        stored = [stored_values(deployment.database, run_id) for run_id in run_ids]
    return BenchRow(
        "namespaces",
        goal,
        seconds,
        all(values == undisturbed for values in stored),
        f"{len(run_ids)} runs of {undisturbed.rows} traces, {NAMESPACED_WORKERS} workers in network"
        f" namespaces, {POOL_SIZE} connections of the server for transactions: {seconds:.1f} s after"
        " the faults; then the worker that was cut off did a run alone; rows of each run"
        f" {', '.join(str(values.rows) for values in stored)}, md5 of values"
        f" {', '.join(sorted({values.md5[:8] for values in stored}))}"
        f" ({undisturbed.md5[:8]} undisturbed)",
    )


def _runs_with_faults(
    deployment: Deployment, workers: Sequence[Program]
) -> tuple[list[str], float]:
    """The IDs of runs with faults, the last one of the worker that was cut off, and the seconds until the
    others were complete.
    """
    run_ids = _start_runs(deployment, [f"run-{number}" for number in range(len(workers))])
    # A job for each worker.
    until(lambda: bool(deployment.database.value(BUSY) == len(workers)))
    began = time.perf_counter()
    killed, cut_off, *others = workers
    killed.kill()
    _ip("link", "set", _link(workers.index(cut_off)), "down")
    for run_id in run_ids:
        deployment.completed_run(run_id)
    seconds = time.perf_counter() - began
    _ip("link", "set", _link(workers.index(cut_off)), "up")
    _stop(others)
    # Only the worker that was cut off is left: what it had begun must not come into the results.
    [last_id] = _start_runs(deployment, ["reconnected"])
    deployment.completed_run(last_id)
    return [*run_ids, last_id], seconds


def _start_runs(deployment: Deployment, names: Sequence[str]) -> list[str]:
    for name in names:
        _upload(deployment, name, TRACES // NAMESPACED_WORKERS)
    runs = [deployment.service.start_run(benchmarkId="large", runName=name) for name in names]
    return [str(run["id"]) for run in runs]


def _delete_leftovers() -> None:
    """Delete the namespaces of benchmarks that were killed: their links have the addresses of ours."""
    for namespace in _ip("netns", "list").split():
        match = re.fullmatch(r"mosaico-(\d+)-\d+", namespace)
        if match and not Path("/proc", match[1]).exists():
            _ip("netns", "delete", namespace)


@contextmanager
def _namespaced_worker(deployment: Deployment, number: int) -> Iterator[Program]:
    """A worker in a network namespace, whose only link leads to the pooler and the server."""
    namespace, link = f"mosaico-{os.getpid()}-{number}", _link(number)
    inner, own_host = f"{link}i", f"10.213.{number}.1"
    db = deployment.service.resources.db
    with ExitStack() as stack:
        _ip("netns", "add", namespace)
        stack.callback(_ip, "netns", "delete", namespace)
        _ip("link", "add", link, "type", "veth", "peer", "name", inner, "netns", namespace)
        _ip("address", "add", f"{own_host}/30", "dev", link)
        _ip("link", "set", link, "up")
        _ip("-n", namespace, "address", "add", f"10.213.{number}.2/30", "dev", inner)
        _ip("-n", namespace, "link", "set", inner, "up")
        _ip("-n", namespace, "link", "set", "lo", "up")
        addresses = {}
        for name, url in (("DATABASE_URL", db.url), ("MOSAICO_DATABASE_DIRECT_URL", db.direct_url)):
            server = make_url(url)
            network = stack.enter_context(
                network_to(str(server.host), int(server.port or 0), own_host=own_host)
            )
            address = server.set(host=own_host, port=network.port)
            addresses[name] = address.render_as_string(hide_password=False)
        worker = deployment.programs.start(
            "worker",
            launcher=("ip", "netns", "exec", namespace),
            **PLAIN,
            **addresses,
            MOSAICO_WORKER_CONCURRENCY="1",
        )
        worker.wait_for_output("worker is ready")
        yield worker
        if worker.is_running:
            worker.kill()


def _link(number: int) -> str:
    """The name of the outer end of a link: at most 15 characters."""
    return f"mos{os.getpid() % 100_000}-{number}"


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout
