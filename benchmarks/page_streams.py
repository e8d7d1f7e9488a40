"""P: what 200 open pages with one event a second each cost the process that serves them."""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import httpx
from sqlalchemy import text

from benchmarks.api import MASTER_KEY, STARTS_WITHIN_S
from benchmarks.event_streams import StreamRequest, StreamResult, hold_streams
from benchmarks.result_rows import BenchRow
from benchmarks.running_service import free_port
from benchmarks.table_rows import insert_rows
from mosaico.access.service import create_key
from mosaico.core.clock import utc_now
from mosaico.core.db import Database
from mosaico.core.migrations import upgrade
from mosaico.core.postgres_notify import notify_streams
from tests.support.postgres import cluster, drop_database, make_database

STREAMS: Final = 200
STREAMS_PER_KEY: Final = 100
WARM_UP_S: Final = 3.0
SECONDS: Final = 20.0
MAX_RSS_MB, MAX_CPU_SHARE, MAX_CONNECTIONS = 40, 0.25, 1
FOLLOWED: Final = [f"live-{number}" for number in range(1, STREAMS + 1)]
# Without those that requests have returned to their pool: how many a burst of requests opens, such as that of the
# streams at the start, depends on how busy the machine is, and the next requests use them.
CONNECTIONS: Final = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND application_name <> :ours AND NOT (application_name = 'mosaico-api' AND state = 'idle')"
)


class ProcessUse(NamedTuple):
    """Resident memory in MB, processor seconds since its start, and database connections of a process."""

    rss_mb: float
    cpu_s: float
    connections: int


def measure_streams() -> Iterator[BenchRow]:
    """One row: extra memory, processor and connections of a `mosaico api` with streams."""
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as lease:
        drop_database(lease.url, "bench_streams")
        url = make_database(lease.url, "bench_streams")
        upgrade(url)
        db = Database(url, pool_size=2, name="bench-streams")
        tokens = _fill(db)
        streams = [
            StreamRequest(run_id, tokens[number // STREAMS_PER_KEY])
            for number, run_id in enumerate(FOLLOWED)
        ]
        port = free_port()
        with _open_api(url, port, Path(folder)) as pid:
            sample = partial(_use, pid, db)
            # The first stream loads modules, which is not what a stream costs.
            asyncio.run(hold_streams(port, streams[:1], {}, WARM_UP_S, sample))
            before = sample()
            with _changing(db) as changed_at:
                result, opened, closed = asyncio.run(
                    hold_streams(port, streams, changed_at, SECONDS, sample)
                )
            yield _row(before, opened, closed, result)
        db.dispose()


def _fill(db: Database) -> list[str]:
    """Store the followed runs; returns the API keys."""
    with db.begin() as session:
        insert_rows(session, "agents", {"id": "'a'"})
        insert_rows(session, "benchmarks", {"id": "'b'", "metrics": "'[\"ROUGE\"]'"})
        columns = {
            "id": "'live-' || n",
            "benchmark_id": "'b'",
            "agent_id": "'a'",
            "status": "'RUNNING'",
            "triggered_by": "'MANUAL'",
        }
        insert_rows(session, "benchmark_runs", columns, STREAMS)
        keys = [
            create_key(session, f"streams-{number}", "admin", now=utc_now())
            for number in range(STREAMS // STREAMS_PER_KEY)
        ]
    return [key.token.reveal() for key in keys]


@contextmanager
def _open_api(url: str, port: int, folder: Path) -> Iterator[int]:
    """`mosaico api` with its own settings; its process ID."""
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "MOSAICO_PORT": str(port),
        "MOSAICO_DATA_DIR": str(folder / "data"),
        "MOSAICO_MASTER_KEY": MASTER_KEY,
        "MOSAICO_RATE_LIMIT": "1000000",
        "MOSAICO_LOG_LEVEL": "WARNING",
    }
    process = subprocess.Popen([sys.executable, "-m", "mosaico.cli", "api"], env=environment)
    try:
        _wait_until_ready(port)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def _wait_until_ready(port: int) -> None:
    deadline = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < deadline:
        with suppress(httpx.HTTPError):
            if httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).is_success:
                return
        time.sleep(0.1)
    raise RuntimeError("`mosaico api` did not start")


@contextmanager
def _changing(db: Database) -> Iterator[Mapping[tuple[str, int], float]]:
    """Changes each run once a second; gives the time at which its number of traces got a value."""
    changed_at: dict[tuple[str, int], float] = {}
    stopping = threading.Event()
    thread = threading.Thread(target=_change, args=(db, changed_at, stopping))
    thread.start()
    try:
        yield changed_at
    finally:
        stopping.set()
        thread.join()


def _change(
    db: Database, changed_at: dict[tuple[str, int], float], stopping: threading.Event
) -> None:
    statement = text(
        "UPDATE benchmark_runs SET traces_processed = traces_processed + 1 WHERE id = ANY(:ids)"
        " RETURNING id, traces_processed"
    )
    while not stopping.wait(1):
        with db.begin() as session:
            changed = session.execute(statement, {"ids": FOLLOWED}).all()
            for run_id, _ in changed:
                notify_streams(session, run_id)
            # Before the commit: an event may arrive at once.
            changed_at |= dict.fromkeys(map(tuple, changed), time.perf_counter())


def _use(pid: int, db: Database) -> ProcessUse:
    status = Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    with db.read() as session:
        connections = session.execute(text(CONNECTIONS), {"ours": "bench-streams"}).scalar_one()
    return ProcessUse(int(line.split()[1]) / 1000, ticks / os.sysconf("SC_CLK_TCK"), connections)


def _row(
    before: ProcessUse, opened: ProcessUse, closed: ProcessUse, result: StreamResult
) -> BenchRow:
    rss_mb = closed.rss_mb - before.rss_mb
    cpu_share = (closed.cpu_s - opened.cpu_s) / SECONDS
    connections = closed.connections - before.connections
    ratios: Sequence[float] = (rss_mb / MAX_RSS_MB, cpu_share / MAX_CPU_SHARE)
    holds = max(ratios) <= 1 and connections <= MAX_CONNECTIONS and not result.errors
    return BenchRow(
        "P9 streams",
        f"{STREAMS} with an event a second: ≤ {MAX_RSS_MB} MB, ≤ {MAX_CPU_SHARE:.0%} of a core, ≤ {MAX_CONNECTIONS} connection",
        max(ratios), holds,
        f"+{rss_mb:.1f} MB, {cpu_share:.0%} of a core, {connections:+d} connections; open"
        f" {result.open_streams}, {_delays_text(result)}, errors {dict(result.errors)}",
    )  # fmt: skip


def _delays_text(result: StreamResult) -> str:
    delays_ms = [seconds * 1000 for seconds in result.event_delays_s]
    if len(delays_ms) < 2:
        return f"{len(delays_ms)} events"
    p99_ms = statistics.quantiles(delays_ms, n=100)[98]
    return f"{len(delays_ms):,} events, median {statistics.median(delays_ms):.0f}, p99 {p99_ms:.0f} ms late"
