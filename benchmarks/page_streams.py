"""P: what 200 open pages with one event a second each cost the process that serves them."""

import asyncio
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy import text

from benchmarks.load import RUNS, STREAMS_PER_KEY, fill_database, followed_run, open_api, timed
from benchmarks.load_clients import LoadResult, StreamRequest, build_request, hold_streams
from benchmarks.result_rows import BenchRow
from mosaico.core.db import Database
from mosaico.core.postgres_notify import notify_streams
from tests.support.postgres import cluster, drop_database, make_database

STREAMS: Final = 200
WARM_UP_S: Final = 3.0
SECONDS: Final = 20.0
MAX_RSS_MB, MAX_CPU_SHARE, MAX_CONNECTIONS = 40, 0.25, 1
FOLLOWED: Final = [followed_run(number) for number in range(STREAMS)]
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
        tokens = fill_database(url)
        streams = [
            StreamRequest(
                run_id, build_request("GET", f"{RUNS}/{run_id}/events", tokens[number // STREAMS_PER_KEY])
            )
            for number, run_id in enumerate(FOLLOWED)
        ]  # fmt: skip
        db = Database(url, pool_size=2, name="bench-streams")
        with open_api(url, Path(folder)) as server:
            sample = partial(_use, server.pid, db)
            # The first stream loads modules, which is not what a stream costs.
            asyncio.run(hold_streams(server.port, streams[:1], {}, WARM_UP_S, sample))
            before = sample()
            with _changing(db) as changed_at:
                result, opened, closed = asyncio.run(
                    hold_streams(server.port, streams, changed_at, SECONDS, sample)
                )
            yield _row(before, opened, closed, result)
        db.dispose()


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
    before: ProcessUse, opened: ProcessUse, closed: ProcessUse, result: LoadResult
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
        f" {result.open_streams}, events {timed(result.event_delays_s)}, errors {dict(result.errors)}",
    )  # fmt: skip
