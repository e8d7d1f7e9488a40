"""200 clients that read, list and start runs: API processes on one port beside a plain FastAPI service.

One type of request at a time, in turns. Jobs are enqueued and no worker takes them, because the peer
has none. Set `MOSAICO_BENCH_LOAD_SECONDS` for another duration of each type.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import quantiles
from typing import Final

from benchmarks.api import MASTER_KEY, open_module
from benchmarks.load import RUNS, SECONDS, STORED_RUNS, fill_database, wait_until_ready
from benchmarks.load_clients import LoadRequest, LoadResult, apply_load, build_request
from benchmarks.result_rows import BenchRow
from mosaico.core.web.listener import LISTENER_FD, bind_listener
from tests.support.postgres import cluster, drop_database, make_database

CLIENTS: Final = 200
PROCESSES: Final = (1, 2)
# A third for each type of request.
TURN_S: Final = SECONDS / 3
GOAL: Final = 2.0

_numbers = count()


def measure() -> Iterator[BenchRow]:
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as running:
        drop_database(running.url, "bench_api")
        url = make_database(running.url, "bench_api")
        requests = _requests(fill_database(url)[0])
        with open_module("benchmarks.load_peer", url=url, log_errors=False) as server:
            peer = _load(server.port, requests)
        for processes in PROCESSES:
            with _api_processes(url, Path(folder), processes) as port:
                ours = _load(port, requests)
            for name in requests:
                yield _row(name, processes, ours, peer)


def _requests(token: str) -> dict[str, Callable[[], bytes]]:
    run = json.dumps({"benchmarkId": "b", "agentId": "a"}).encode()
    return {
        "GET run": lambda: build_request(
            "GET", f"{RUNS}/run-{next(_numbers) % STORED_RUNS + 1}", token
        ),
        "list": lambda: build_request("GET", f"{RUNS}?limit=50", token),
        "POST run": lambda: build_request("POST", RUNS, token, run),
    }


def _load(port: int, requests: dict[str, Callable[[], bytes]]) -> LoadResult:
    result = LoadResult()
    for name, next_bytes in requests.items():
        request = LoadRequest(name, CLIENTS, next_bytes)
        result.add(asyncio.run(apply_load(port, [request], [], {}, TURN_S)))
    return result


def _row(name: str, processes: int, ours: LoadResult, peer: LoadResult) -> BenchRow:
    ratio = len(ours.seconds[name]) / len(peer.seconds[name])
    errors = sum(n for error, n in ours.errors.items() if error.startswith(name))
    plural = "process" if processes == 1 else "processes"
    return BenchRow(
        f"{name} {processes}",
        f"≥ {GOAL:g}× the requests per second of FastAPI and SQLAlchemy, no error",
        ratio,
        ratio >= GOAL and not errors,
        f"{_rate(ours, name)} of {processes} {plural}; peer {_rate(peer, name)}; {errors} errors,"
        f" {CLIENTS} clients",
    )


def _rate(result: LoadResult, name: str) -> str:
    seconds = result.seconds[name]
    p99_ms = quantiles(seconds, n=100)[98] * 1000
    return f"{len(seconds) / TURN_S:,.0f}/s, p99 {p99_ms:,.0f} ms"


@contextmanager
def _api_processes(url: str, folder: Path, number: int) -> Iterator[int]:
    """The API processes of `mosaico serve` without its worker; their port."""
    listener = bind_listener("127.0.0.1", 0)
    environment = {
        **os.environ,
        LISTENER_FD: str(listener.fileno()),
        "DATABASE_URL": url,
        "MOSAICO_API_PROCESSES": str(number),
        "MOSAICO_DATA_DIR": str(folder / "data"),
        "MOSAICO_MASTER_KEY": MASTER_KEY,
        # No limit: one key sends the requests of all clients.
        "MOSAICO_RATE_LIMIT": "0",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "mosaico.cli", "api"],
            env=environment,
            pass_fds=[listener.fileno()],
        )
        for _ in range(number)
    ]
    try:
        port: int = listener.getsockname()[1]
        wait_until_ready(port)
        yield port
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
        listener.close()
