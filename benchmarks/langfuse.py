"""H1 and H2: reading a run from Langfuse with a latency of 50 ms per request.

Compared with a sequential loop over pages and with one request per trace. The server is the fake
of the tests in a process of its own. It caches its responses, so that after a first round only the
latency counts.
"""

import asyncio
import base64
import json
import math
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import uvicorn
from langfuse.api import LangfuseAPI
from starlette.types import Message, Receive, Scope, Send

from benchmarks.result_rows import BenchRow, interleave
from mosaico.core.db import Database
from mosaico.core.encryption import Secret, SecretBox
from mosaico.core.network_policy import PRIVATE_SERVERS
from mosaico.core.resources import Resources
from mosaico.plugin_loading import load_plugins
from mosaico.traces.registry import TRACE_SOURCES, TraceQuery
from tests.support.langfuse.builder import FakeLangfuse
from tests.support.langfuse.generated import ScorePlan
from tests.support.langfuse.server import FakeServer

LATENCY_S: Final = 0.05
TRACES: Final = 3_000
ROUNDS: Final = 3
# 3,000 requests one after the other would take minutes.
SINGLE_TRACES: Final = 60
SMALL_TRACES: Final = 1_000
PAGE: Final = 100
CALLS_PER_PAGE: Final = 1_000
CALLS_PER_ITEM: Final = 1
LARGE, SMALL = "large", "small"
_BEGINNING: Final = datetime(2020, 1, 1, tzinfo=UTC)


class ServerAccess(NamedTuple):
    """The URL and the keys of the server."""

    url: str
    public_key: str
    secret_key: str

    def query(self, dataset: str, *, late_scores: bool = False) -> TraceQuery:
        return TraceQuery(
            dataset_ref=dataset,
            run_name=None,
            late_scores=late_scores,
            url=self.url,
            public_key=self.public_key,
            secret_key=Secret(self.secret_key),
        )


def measure() -> Iterator[BenchRow]:
    load_plugins()
    with _server() as server:
        yield from _speed(server)
        yield from _requests(server)


def _speed(server: ServerAccess) -> Iterator[BenchRow]:
    """The speed rows; each contender runs once before it is timed, to fill the response cache."""
    contenders = (lambda: read_all(server, server.query(LARGE)), lambda: loop_over_pages(server))
    for work in (*contenders, lambda: read_bare(server)):
        work()
    ours_s, peer_s = interleave(*contenders, repeat=ROUNDS)
    bare_s = statistics.median(_timed(lambda: read_bare(server)) for _ in range(ROUNDS))
    one_by_one_s = read_one_by_one(server) / SINGLE_TRACES
    yield BenchRow(
        "H1 page loop",
        "≥ 5× a sequential loop over pages with the SDK's models",
        peer_s / ours_s,
        peer_s / ours_s >= 5,
        f"{TRACES} traces: {ours_s:.2f} s compared with {peer_s:.2f} s; the same loop without models"
        f" takes {bare_s:.2f} s",
    )
    apart_s = one_by_one_s * TRACES
    yield BenchRow(
        "H1 one by one",
        "≥ 300× one request per trace",
        apart_s / ours_s,
        apart_s / ours_s >= 300,
        f"{one_by_one_s * 1000:.0f} ms for each of {SINGLE_TRACES} traces, {TRACES} would take"
        f" {apart_s:.0f} s",
    )


def _requests(server: ServerAccess) -> Iterator[BenchRow]:
    for name, dataset, traces, late in (
        ("H2 small run", SMALL, SMALL_TRACES, False),
        ("H2 late scores", SMALL, SMALL_TRACES, True),
        ("H2 large run", LARGE, TRACES, False),
    ):
        collection = read_all(server, server.query(dataset, late_scores=late))
        pages = math.ceil(traces / PAGE)
        allowed = (
            pages + math.ceil(traces * CALLS_PER_ITEM / CALLS_PER_PAGE) + 4 + (pages if late else 0)
        )
        allowed += collection.windows
        yield BenchRow(
            name,
            "≤ ⌈n/100⌉ + ⌈calls/1000⌉ + 4, one more per time window, ⌈n/100⌉ more for late scores",
            collection.requests / allowed,
            collection.requests <= allowed,
            f"{collection.requests} requests for {traces} traces in {collection.windows} time windows,"
            f" {allowed} allowed",
        )


class CollectionRequests(NamedTuple):
    """The requests of a collection; `windows` counts the time windows after the first."""

    requests: int
    windows: int


def read_all(server: ServerAccess, query: TraceQuery) -> CollectionRequests:
    """Collect a whole run as a worker does, without storing it."""
    _post(server, "/clear")
    source = TRACE_SOURCES.get("langfuse").open(_resources())
    expected = SMALL_TRACES if query.dataset_ref == SMALL else TRACES
    trace_count = sum(len(page.traces) for page in source.pages(query, None))
    if trace_count != expected:
        raise RuntimeError(f"{trace_count} traces instead of {expected}")
    requests = _post(server, "/requests")
    starts = {
        (request["path"], request["from"])
        for request in requests
        if request["path"] in ("rows", "observations")
    }
    # The first windows are one of the rows and one of the observations.
    return CollectionRequests(requests=len(requests), windows=max(len(starts) - 2, 0))


def loop_over_pages(server: ServerAccess) -> int:
    """Read the same run with the SDK: one page after the other, then the calls."""
    client = _sdk(server)
    [run] = client.experiments.list(from_start_time=_BEGINNING, name=LARGE).data
    cursor, count = None, 0
    while True:
        rows = client.experiments.list_items(
            from_start_time=run.start_time,
            experiment_id=run.id,
            fields="core,io,scores",
            limit=PAGE,
            cursor=cursor,
        )
        count, cursor = count + len(rows.data), rows.meta.cursor
        if cursor is None:
            break
    while True:
        calls = client.observations.get_many(
            from_start_time=run.start_time,
            fields="core,usage",
            limit=CALLS_PER_PAGE,
            filter=json.dumps(
                [
                    {"type": "string", "column": "experimentId", "operator": "=", "value": run.id},
                    {"type": "string", "column": "type", "operator": "=", "value": "GENERATION"},
                ]
            ),
            cursor=cursor,
        )
        cursor = calls.meta.cursor
        if cursor is None:
            return count


def read_bare(server: ServerAccess) -> int:
    """The same loop with plain JSON, which shows the cost of the SDK's models."""
    auth = (server.public_key, server.secret_key)
    with httpx.Client(base_url=f"{server.url}/api/public", auth=auth, trust_env=False) as client:
        ever: dict[str, Any] = {"fromStartTime": "2020-01-01T00:00:00Z"}
        [run] = client.get("/experiments", params={**ever, "name": LARGE}).json()["data"]
        calls = [{"type": "string", "column": "experimentId", "operator": "=", "value": run["id"]}]
        rows: dict[str, Any] = {"experimentId": run["id"], "fields": "core,io,scores"}
        rows["limit"] = PAGE
        spans: dict[str, Any] = {"filter": json.dumps(calls), "fields": "core,usage"}
        spans["limit"] = CALLS_PER_PAGE
        count = 0
        for path, page_size in (("/experiment-items", rows), ("/v2/observations", spans)):
            cursor: dict[str, Any] = {}
            while True:
                page = client.get(path, params={**ever, **page_size, **cursor}).json()
                count, cursor = count + len(page["data"]), page["meta"]
                if not cursor:
                    break
        return count


def read_one_by_one(server: ServerAccess) -> float:
    """Seconds for reading the calls of `SINGLE_TRACES` traces with one request each."""
    client = _sdk(server)
    [run] = client.experiments.list(from_start_time=_BEGINNING, name=LARGE).data
    rows = client.experiments.list_items(
        from_start_time=run.start_time, experiment_id=run.id, limit=SINGLE_TRACES
    ).data

    def read() -> None:
        for row in rows:
            client.observations.get_many(trace_id=row.trace_id, fields="core,io,usage")

    read()
    return _timed(read)


def _timed(work: object) -> float:
    assert callable(work)
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _sdk(server: ServerAccess) -> LangfuseAPI:
    return LangfuseAPI(
        base_url=server.url, username=server.public_key, password=server.secret_key, timeout=60
    )


def _resources() -> Resources:
    key = base64.b64encode(bytes(range(32))).decode()
    return Resources(
        db=Database("postgresql://nobody@127.0.0.1:1/none"),
        secrets=SecretBox.from_keys([key]),
        data_dir=Path("/nonexistent"),
        outbound=PRIVATE_SERVERS,
    )


def _post(server: ServerAccess, path: str) -> list[dict[str, str]]:
    with httpx.Client(trust_env=False, timeout=60) as client:
        requests: list[dict[str, str]] = client.post(f"{server.url}{path}").json()
        return requests


class CachingServer:
    """The fake server with cached responses, each sent after the same latency."""

    def __init__(self, server: FakeServer) -> None:
        self._server = server
        self._responses: dict[bytes, list[Message]] = {}
        self._requests: list[dict[str, str]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST":
            await self._send_requests(scope["path"], send)
            return
        due = asyncio.get_running_loop().time() + LATENCY_S
        request_line = scope["raw_path"].partition(b"?")[0] + b"?" + scope["query_string"]
        answer = self._responses.get(request_line)
        if answer is None:
            answer = self._responses[request_line] = []

            async def keep(message: Message) -> None:
                answer.append(message)

            await self._server(scope, receive, keep)
        self._note(scope)
        await asyncio.sleep(due - asyncio.get_running_loop().time())
        for message in answer:
            await send(message)

    def _note(self, scope: Scope) -> None:
        query = httpx.QueryParams(scope["query_string"].decode())
        kinds = {"experiment-items": "rows", "observations": "observations"}
        name = scope["path"].rsplit("/", 1)[-1]
        self._requests.append(
            {"path": kinds.get(name, name), "from": query.get("fromStartTime", "")}
        )

    async def _send_requests(self, path: str, send: Send) -> None:
        body = json.dumps(self._requests).encode()
        if path == "/clear":
            self._requests.clear()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})


@contextmanager
def _server() -> Iterator[ServerAccess]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.langfuse"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield ServerAccess(*process.stdout.readline().split())
    finally:
        process.terminate()
        process.communicate(timeout=30)


def _serve() -> None:
    stand_in = FakeServer(
        mode="events_only", version="4.16.0", public_key="pk-bench", secret_key="sk-bench"
    )
    builder = FakeLangfuse(server=stand_in, url="")
    tone = ScorePlan(name="Tone", value=0.5)
    for name, items in ((LARGE, TRACES), (SMALL, SMALL_TRACES)):
        builder.experiment(
            dataset=name,
            run=name,
            items=items,
            calls_per_item=CALLS_PER_ITEM,
            scores=[tone],
            every=timedelta(seconds=5),
        )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        print(url, builder.public_key, builder.secret_key, flush=True)
        app = CachingServer(stand_in)
        config = uvicorn.Config(app, log_config=None, lifespan="off", ws="none")
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    _serve()
