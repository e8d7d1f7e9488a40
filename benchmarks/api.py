"""A1: requests per second of the whole service, compared with an asynchronous ORM route.

All contenders are real servers in processes of their own, with the same tables and an API key in
each request. The peer follows the documentation of the framework: `async def`, an `AsyncSession`
per request, a `response_model`. It looks up the key through the ORM, as the service does for a key
that it has not seen for a second. It uses the same driver as the service, psycopg.

Set `MOSAICO_BENCH_ROWS=1000000` for a list of the promised length; the default takes seconds.
"""

import asyncio
import json
import os
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple, TextIO

import uvicorn
from fastapi import FastAPI
from sqlalchemy import text
from starlette.types import ASGIApp

from benchmarks.api_peer import DEFAULT_LANGFUSE_URL, PAGE, orm_app
from benchmarks.result_rows import BenchRow
from benchmarks.table_rows import insert_rows
from mosaico.access.service import create_key
from mosaico.core.clock import utc_now
from mosaico.core.db import Database
from mosaico.core.encryption import SecretBox
from mosaico.core.migrations import upgrade
from mosaico.core.resources import Resources
from mosaico.core.web.http_protocol import HttpProtocol
from tests.support.postgres import cluster, drop_database, make_database

A1_GOAL = 1.0
ROWS = int(os.environ.get("MOSAICO_BENCH_ROWS", "100000"))
CLIENTS = 8
# Short rounds: the speed of a processor drifts within seconds, but hardly within one round of all servers.
REQUESTS = 80
ROUNDS = 21
MASTER_KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
STARTS_WITHIN_S = 60.0

_numbers = count()


class Server(NamedTuple):
    """A server in a process of its own."""

    port: int
    process: subprocess.Popen[str]

    def cpu_seconds(self) -> float:
        """Processor seconds used so far, which load on the machine affects less than the clock."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


class Cost(NamedTuple):
    """The cost of some requests: wall-clock seconds, and processor seconds of the server."""

    seconds: float
    cpu_seconds: float


class Load(NamedTuple):
    """One type of request; `body` creates the body of each."""

    name: str
    method: str
    path: str
    body: Callable[[], dict[str, str] | None] = lambda: None


def measure() -> Iterator[BenchRow]:
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as running:
        drop_database(running.url, "bench_api")
        url = make_database(running.url, "bench_api")
        token = _filled(url)
        with open_server("service", url) as ours, open_server("orm", url) as peer:
            for load in _loads():
                yield _compared(load, ours, peer, token)


def _loads() -> list[Load]:
    return [
        Load(
            "A1 POST",
            "POST",
            "/api/v1/agents",
            lambda: {"id": f"agent-{os.getpid()}-{next(_numbers)}", "name": "Pelican"},
        ),
        Load("A1 GET", "GET", f"/api/v1/benchmark-runs/run-{ROWS // 2}"),
        Load("A1 list", "GET", f"/api/v1/benchmark-runs?limit={PAGE}"),
        # Last: it adds rows.
        Load(
            "A1 POST run",
            "POST",
            "/api/v1/benchmark-runs",
            lambda: {"benchmarkId": "b", "agentId": "a"},
        ),
    ]


def _compared(load: Load, ours: Server, peer: Server, token: str) -> BenchRow:
    for server in (ours, peer):
        # The first requests open connections and compile statements.
        _send_all(server.port, load, token, CLIENTS * 5)
    rounds = [(_cost(load, ours, token), _cost(load, peer, token)) for _ in range(ROUNDS)]
    our_cost, peer_cost = (_median_cost(costs) for costs in zip(*rounds, strict=True))
    # The median of the ratios: each compares costs of the same second.
    ratio = statistics.median(theirs.cpu_seconds / mine.cpu_seconds for mine, theirs in rounds)
    return BenchRow(
        load.name,
        f"≥ {A1_GOAL:g}× an asynchronous ORM route, with an API key",
        ratio,
        ratio >= A1_GOAL,
        f"{_request_ms(our_cost):.2f} ms of processor time per request compared with"
        f" {_request_ms(peer_cost):.2f} ms; {REQUESTS / our_cost.seconds:,.0f} requests"
        f" per second compared with {REQUESTS / peer_cost.seconds:,.0f}; {ROWS:,} runs",
    )


def _cost(load: Load, server: Server, token: str) -> Cost:
    cpu_seconds, started = server.cpu_seconds(), time.perf_counter()
    _send_all(server.port, load, token, REQUESTS)
    return Cost(time.perf_counter() - started, server.cpu_seconds() - cpu_seconds)


def _median_cost(costs: Sequence[Cost]) -> Cost:
    return Cost(*(statistics.median(column) for column in zip(*costs, strict=True)))


def _request_ms(cost: Cost) -> float:
    """Milliseconds of processor time of one request."""
    return cost.cpu_seconds / REQUESTS * 1000


def _send_all(port: int, load: Load, token: str, requests: int) -> None:
    """Send the requests over `CLIENTS` persistent connections."""
    raw = [_raw(load, token) for _ in range(requests)]
    shares = [raw[number::CLIENTS] for number in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as threads:
        # `list` raises what a client raised: refused requests are fast and would win.
        list(threads.map(partial(_send_share, port), shares))


def _raw(load: Load, token: str) -> bytes:
    body = load.body()
    content = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{load.method} {load.path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def _send_share(port: int, requests: list[bytes]) -> None:
    """A client with negligible cost, so that the server is measured."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for request in requests:
            connection.sendall(request)
            _read_answer(connection)


def _read_answer(connection: socket.socket) -> None:
    received = b""
    while b"\r\n\r\n" not in received:
        received += _some(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    # The first digit of the status, behind `HTTP/1.1 `.
    assert head[9:10] == b"2", received[:400]
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    remaining = length - len(body)
    while remaining > 0:
        remaining -= len(_some(connection))


def _some(connection: socket.socket) -> bytes:
    piece = connection.recv(256 * 1024)
    assert piece, "the server closed the connection"
    return piece


def _filled(url: str) -> str:
    """Create a database with `ROWS` runs and an API key."""
    upgrade(url)
    db = Database(url, pool_size=1, name="bench")
    with db.begin() as session:
        session.execute(text("SET LOCAL statement_timeout = 0"))
        insert_rows(session, "agents", {"id": "'a'"})
        insert_rows(session, "benchmarks", {"id": "'b'", "metrics": "'[]'"})
        runs = {
            "id": "'run-' || n",
            "benchmark_id": "'b'",
            "agent_id": "'a'",
            "status": "'COMPLETED'",
            "triggered_by": "'MANUAL'",
        }
        insert_rows(session, "benchmark_runs", runs, ROWS)
        key = create_key(session, "bench", "admin", now=utc_now())
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))
    db.dispose()
    return key.token.reveal()


@contextmanager
def open_server(kind: str, url: str) -> Iterator[Server]:
    """A contender as a process of its own: a name of `APPS`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.api", kind],
        env={**os.environ, "DATABASE_URL": url},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], STARTS_WITHIN_S)
        assert ready, f"the server {kind} did not start"
        yield Server(int(process.stdout.readline()), process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def service_app(url: str) -> FastAPI:
    """The whole service with all its layers."""
    from mosaico.main import create_app

    return create_app(
        Resources(
            # As many connections as the peer may open: 20, and 20 more.
            db=Database(url, pool_size=40, name="bench-service"),
            secrets=SecretBox.from_keys([MASTER_KEY]),
            data_dir=Path("/nonexistent"),
            options={
                "langfuse_default_url": DEFAULT_LANGFUSE_URL,
                # One key sends all requests: the default limit would refuse them.
                "rate_limit": "1000000",
            },
        )
    )


APPS: dict[str, Callable[[str], ASGIApp]] = {"service": service_app, "orm": orm_app}


def serve_app(app: ASGIApp, http: type[asyncio.Protocol] | Literal["auto"] = "auto") -> None:
    """Serve on a free port until SIGTERM, as a process of its own that prints the port first.

    `http` is the protocol of the server, by default that of uvicorn.
    """
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    # The benchmark reads the replies only: logs on the same pipe would fill it and block the server.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        config = uvicorn.Config(
            app,
            http=http,
            log_config=None,
            ws="none",
            access_log=False,
            server_header=False,
            proxy_headers=False,
        )
        print(listener.getsockname()[1], file=replies)
        threading.Thread(target=_tell_cpu_seconds, args=(replies,), daemon=True).start()
        uvicorn.Server(config).run([listener])


def _tell_cpu_seconds(replies: TextIO) -> None:
    for _ in sys.stdin:
        print(time.process_time(), file=replies)


if __name__ == "__main__":
    serve_app(
        APPS[sys.argv[1]](os.environ["DATABASE_URL"]),
        http=HttpProtocol if sys.argv[1] == "service" else "auto",
    )
