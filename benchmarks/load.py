"""W1: 200 clients for 60 s that read runs, start runs and upload, beside 500 open event streams.

`mosaico api` as operators run it, compared with a plain FastAPI and SQLAlchemy service on the same
database (`benchmarks/load_peer.py`). Both get the load in turns of some seconds. Jobs are enqueued and
no worker takes them, because the peer has none.
Set `MOSAICO_BENCH_LOAD_SECONDS` for another duration of the load of each contender.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

import httpx
from sqlalchemy import text

from benchmarks.api import MASTER_KEY, STARTS_WITHIN_S, open_module
from benchmarks.load_clients import (
    LoadRequest,
    LoadResult,
    StreamRequest,
    apply_load,
    build_request,
)
from benchmarks.memory import free_port, peak_mib
from benchmarks.result_rows import BenchRow
from benchmarks.table_rows import insert_rows
from benchmarks.traces import long_pair
from mosaico.access.service import create_key
from mosaico.core.clock import utc_now
from mosaico.core.db import Database
from mosaico.core.migrations import upgrade
from mosaico.core.postgres_notify import notify_streams
from tests.support.postgres import cluster, drop_database, make_database

SECONDS: Final = float(os.environ.get("MOSAICO_BENCH_LOAD_SECONDS", "60"))
TURNS: Final = 3
READERS, STARTERS, UPLOADERS = 140, 40, 20
STREAMS: Final = 500
STREAMS_PER_KEY: Final = 100
STORED_RUNS: Final = 10_000
TRACES_PER_UPLOAD: Final = 100
CHANGE_INTERVAL_S: Final = 0.5
CHANGED_RUNS: Final = 20

RUNS: Final = "/api/v1/benchmark-runs"

_numbers = count()


class Contender(NamedTuple):
    """A server process, and what it did under load so far."""

    port: int
    pid: int
    result: LoadResult


def measure() -> Iterator[BenchRow]:
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as running:
        drop_database(running.url, "bench_load")
        url = make_database(running.url, "bench_load")
        tokens = fill_database(url)
        with (
            open_api(url, Path(folder)) as ours,
            # It logs a traceback for each request that waits too long for a connection.
            open_module("benchmarks.load_peer", url=url, log_errors=False) as server,
        ):
            peer = Contender(server.port, server.process.pid, LoadResult())
            for _ in range(TURNS):
                for contender in (ours, peer):
                    contender.result.add(_load(contender, url, tokens))
            for name in ours.result.seconds:
                yield _request_row(name, ours.result, peer.result)
            yield _streams_row(ours.result, peer.result)
            yield _memory_row(ours, peer)


def _load(contender: Contender, url: str, tokens: Sequence[str]) -> LoadResult:
    """One turn of load, while some of the followed runs change."""
    changed_at: dict[tuple[str, int], float] = {}
    streams = [
        StreamRequest(
            followed_run(number),
            build_request(
                "GET",
                f"{RUNS}/{followed_run(number)}/events",
                tokens[number // STREAMS_PER_KEY],
            ),
        )
        for number in range(STREAMS)
    ]
    stopping = threading.Event()
    changes = threading.Thread(target=_change_runs, args=(url, changed_at, stopping))
    changes.start()

    def stop_changes() -> None:
        stopping.set()
        changes.join()

    try:
        return asyncio.run(
            apply_load(
                contender.port,
                _requests(tokens[0]),
                streams,
                changed_at,
                SECONDS / TURNS,
                stop_changes,
            )
        )
    finally:
        stop_changes()


def _requests(token: str) -> list[LoadRequest]:
    run = json.dumps({"benchmarkId": "b", "agentId": "a"}).encode()
    lines = [json.dumps(long_pair(number)).encode() for number in range(TRACES_PER_UPLOAD)]
    upload = b"\n".join(lines)

    def next_upload() -> bytes:
        path = f"/api/v1/local-datasets?name=load&runName={os.getpid()}-{next(_numbers)}"
        return build_request("POST", path, token, upload, "application/x-ndjson")

    return [
        LoadRequest(
            "GET run",
            READERS,
            lambda: build_request("GET", f"{RUNS}/run-{next(_numbers) % STORED_RUNS + 1}", token),
        ),
        LoadRequest("POST run", STARTERS, lambda: build_request("POST", RUNS, token, run)),
        LoadRequest("upload", UPLOADERS, next_upload),
    ]


def _change_runs(
    url: str, changed_at: dict[tuple[str, int], float], stopping: threading.Event
) -> None:
    """Change some of the followed runs twice a second, as a worker that scores them does."""
    db = Database(url, pool_size=1, name="bench-load")
    for turn in count():
        if stopping.wait(CHANGE_INTERVAL_S):
            break
        with db.begin() as session:
            for number in range(CHANGED_RUNS):
                run_id = followed_run((turn * CHANGED_RUNS + number) % STREAMS)
                processed = session.scalars(
                    text(
                        "UPDATE benchmark_runs SET traces_processed = traces_processed + 1"
                        " WHERE id = :id RETURNING traces_processed"
                    ),
                    {"id": run_id},
                ).one()
                notify_streams(session, run_id)
                # Before the commit: an event may arrive at once.
                changed_at[run_id, processed] = time.perf_counter()
    db.dispose()


def _request_row(name: str, ours: LoadResult, peer: LoadResult) -> BenchRow:
    ratio = _percentile(ours.seconds[name]) / _percentile(peer.seconds[name])
    errors = {error: n for error, n in ours.errors.items() if error.startswith(name)}
    return BenchRow(
        f"W1 {name}",
        "no error",
        ratio,
        not errors,
        f"{timed(ours.seconds[name])}; peer {timed(peer.seconds[name])};"
        f" errors {_listed(errors)}, peer"
        f" {_listed({error: n for error, n in peer.errors.items() if error.startswith(name)})};"
        f" {READERS + STARTERS + UPLOADERS} clients, {SECONDS:g} s each",
    )


def _streams_row(ours: LoadResult, peer: LoadResult) -> BenchRow:
    errors = {error: n for error, n in ours.errors.items() if error.startswith("stream")}
    return BenchRow(
        "W1 streams",
        f"{STREAMS} open at once, no error, no lost event",
        _percentile(ours.event_delays_s) / _percentile(peer.event_delays_s),
        not errors and ours.open_streams == STREAMS,
        f"an event after a change: {timed(ours.event_delays_s)}; peer, which polls,"
        f" {timed(peer.event_delays_s)}; lost {ours.lost_events:,} of {ours.expected_events:,} events, peer"
        f" {peer.lost_events:,} of {peer.expected_events:,}; open {ours.open_streams}, peer"
        f" {peer.open_streams};"
        f" errors {_listed(errors)}",
    )


def _memory_row(ours: Contender, peer: Contender) -> BenchRow:
    our_mib, peer_mib = peak_mib(ours.pid), peak_mib(peer.pid)
    return BenchRow(
        "W1 memory",
        "peak of the process is printed",
        our_mib / peer_mib,
        holds=True,
        note=f"{our_mib:.0f} MiB, peer {peer_mib:.0f} MiB",
    )


def timed(seconds: Sequence[float]) -> str:
    if not seconds:
        return "none"
    return (
        f"{len(seconds):,} with median {statistics.median(seconds) * 1000:.0f} ms,"
        f" p99 {_percentile(seconds) * 1000:.0f} ms"
    )


def _percentile(seconds: Sequence[float]) -> float:
    """The 99th percentile; NaN of fewer than two values."""
    return statistics.quantiles(seconds, n=100)[98] if len(seconds) > 1 else float("nan")


def _listed(errors: dict[str, int]) -> str:
    return ", ".join(f"{count} × {error}" for error, count in errors.items()) or "0"


def followed_run(number: int) -> str:
    return f"live-{number + 1}"


@contextmanager
def open_api(url: str, folder: Path) -> Iterator[Contender]:
    """`mosaico api` with its own settings, in a process of its own."""
    port = free_port()
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
        wait_until_ready(port)
        yield Contender(port, process.pid, LoadResult())
    finally:
        process.terminate()
        process.wait()


def wait_until_ready(port: int) -> None:
    deadline = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < deadline:
        with suppress(httpx.HTTPError):
            if httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).is_success:
                return
        time.sleep(0.1)
    raise RuntimeError("`mosaico api` did not start")


def fill_database(url: str) -> list[str]:
    """Store runs that are read and runs that are followed; returns the API keys."""
    upgrade(url)
    db = Database(url, pool_size=1, name="bench-load")
    with db.begin() as session:
        insert_rows(session, "agents", {"id": "'a'"})
        insert_rows(session, "benchmarks", {"id": "'b'", "metrics": "'[\"ROUGE\"]'"})
        for name, status, rows in (
            ("run", "COMPLETED", STORED_RUNS),
            ("live", "RUNNING", STREAMS),
        ):
            columns = {
                "id": f"'{name}-' || n",
                "benchmark_id": "'b'",
                "agent_id": "'a'",
                "status": f"'{status}'",
                "triggered_by": "'MANUAL'",
            }
            insert_rows(session, "benchmark_runs", columns, rows)
        keys = [
            create_key(session, f"load-{number}", "admin", now=utc_now())
            for number in range(STREAMS // STREAMS_PER_KEY)
        ]
    db.dispose()
    return [key.token.reveal() for key in keys]
