"""The service in one process: the API on a real port, and jobs that run when a test calls `work`."""

import asyncio
import json
import secrets
import threading
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from typer.testing import CliRunner, Result

from mosaico.access.service import create_key
from mosaico.cli import cli
from mosaico.comparison import comparison_store
from mosaico.core.clock import utc_now
from mosaico.core.db import Database
from mosaico.core.encryption import SecretBox
from mosaico.core.network_policy import PRIVATE_SERVERS
from mosaico.core.problem_documents import MEDIA_TYPE
from mosaico.core.resources import Resources
from mosaico.jobs.handlers import HANDLERS
from mosaico.jobs.job_runner import Worker
from mosaico.jobs.process_pool import ProcessPool
from mosaico.main import create_app
from tests.support.described_api import api_document
from tests.support.http import serving
from tests.support.waiting_jobs import do_waiting_jobs

JSON = dict[str, Any]

READY_S = 300.0


def ndjson(traces: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(trace) + "\n" for trace in traces).encode()


def pair(
    number: int, expected: str | None = "a b c d", output: str | None = "a b c d", **more: Any
) -> JSON:
    """One trace as it is uploaded; without an output it has no such key."""
    answer = {} if output is None else {"output": output}
    trace = {"traceId": f"t-{number}", "itemId": f"i-{number}", "expectedOutput": expected}
    return {**trace, **answer, **more}


def _cursor_parameter(page: JSON) -> JSON:
    return {"cursor": page["nextCursor"]} if page["nextCursor"] else {}


def pointers(problem: JSON) -> list[str]:
    """Where a problem document says that something is wrong."""
    return [item["pointer"] for item in problem.get("errors", [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A client of the service; `work` does the waiting jobs."""

    client: httpx.Client
    resources: Resources
    pool: ProcessPool

    def work(self, *, concurrency: int = 1) -> None:
        if concurrency == 1:
            do_waiting_jobs(self.resources, self.pool)
        else:
            worker = Worker(self.resources, HANDLERS, self.pool, concurrency=concurrency)
            asyncio.run(worker.drain())

    def get(self, path: str, **parameters: Any) -> JSON:
        return self._json(self.client.get(f"/api/v1{path}", params=parameters))

    def post(self, path: str, body: Any = None, **headers: str) -> JSON:
        return self._json(self.client.post(f"/api/v1{path}", json=body, headers=headers))

    def patch(self, path: str, body: Any) -> JSON:
        return self._json(self.client.patch(f"/api/v1{path}", json=body))

    def put(self, path: str, body: Any) -> JSON:
        return self._json(self.client.put(f"/api/v1{path}", json=body))

    def send(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """Send a request and return the whole response; `body` is sent as JSON."""
        if body is not None:
            more["json"] = body
        return self.client.request(method, f"/api/v1{path}", **more)

    def expect_problem(
        self, status: int, method: str, path: str, body: Any = None, **more: Any
    ) -> JSON:
        """The problem document of a request that the service must reject with this status."""
        response = self.send(method, path, body, **more)
        assert response.status_code == status, f"{response.status_code}: {response.text}"
        assert response.headers["content-type"] == MEDIA_TYPE
        problem: JSON = response.json()
        assert problem["status"] == status
        assert problem["detail"]
        return problem

    def list_items(self, path: str, **parameters: Any) -> list[JSON]:
        """All items of a list, from all its pages."""
        items: list[JSON] = []
        page: JSON = {"nextCursor": None}
        # A page of a search may be empty before the last one.
        while True:
            page = self.get(path, **parameters, **_cursor_parameter(page))
            items += page["items"]
            if page["nextCursor"] is None:
                return items

    def delete(self, path: str) -> None:
        assert self.client.delete(f"/api/v1{path}").status_code == 204

    def upload(
        self,
        traces: Iterable[Mapping[str, Any]],
        name: str = "support",
        run_name: str = "run-1",
        **parameters: str,
    ) -> JSON:
        return self._json(
            self.client.post(
                "/api/v1/local-datasets",
                params={"name": name, "runName": run_name, **parameters},
                content=ndjson(traces),
                headers={"Content-Type": "application/x-ndjson"},
            )
        )

    def create_agent(self, agent_id: str = "agent-001", **fields: Any) -> JSON:
        return self.post("/agents", {"id": agent_id, "name": "Pelican", **fields})

    def create_benchmark(self, benchmark_id: str = "bench-001", **fields: Any) -> JSON:
        return self.post("/benchmarks", {"id": benchmark_id, "datasetRef": "support", **fields})

    def start_run(self, **fields: Any) -> JSON:
        body = {"benchmarkId": "bench-001", "agentId": "agent-001", **fields}
        return self.post("/benchmark-runs", body)

    def complete_run(self, **fields: Any) -> JSON:
        """Start a run, do its jobs, and return it."""
        run = self.start_run(**fields)
        self.work()
        return self.get(f"/benchmark-runs/{run['id']}")

    @staticmethod
    def _json(response: httpx.Response) -> JSON:
        assert response.is_success, f"{response.status_code}: {response.text}"
        document: JSON = response.json()
        return document


@dataclass(frozen=True, slots=True)
class SharedProcessPool:
    """A pool that somebody else closes."""

    pool: ProcessPool

    def run(self, function: Callable[..., Any], *arguments: Any, timeout_s: float) -> Any:
        return self.pool.run(function, *arguments, timeout_s=timeout_s)

    def close(self) -> None:
        """Keep the process for the next comparison."""


def new_resources(db: Database, data_dir: Path, **fields: Any) -> Resources:
    """What a service has that may call servers of this machine, with a master key of its own."""
    return Resources(
        db=db,
        secrets=SecretBox.from_keys([b64encode(secrets.token_bytes(32)).decode()]),
        data_dir=data_dir,
        outbound=PRIVATE_SERVERS,
        options={"langfuse_default_url": "https://cloud.langfuse.com"},
        **fields,
    )


@contextmanager
def running_service(resources: Resources, pool: ProcessPool) -> Iterator[Service]:
    """The API with an admin key, on a real port, until the block ends. Its pages wait for what they compare."""
    comparison_store.PAGE_WAIT_S = 120.0
    with resources.db.begin() as session:
        key = create_key(session, "tests", "admin", now=utc_now())
    app = create_app(resources)
    # To build the description takes a second, and it is the same for all services.
    app.openapi = api_document  # type: ignore[method-assign]
    with serving(app, lifespan=True) as client:
        client.headers["Authorization"] = f"Bearer {key.token.reveal()}"
        yield Service(client=client, resources=resources, pool=pool)


@contextmanager
def working(service: Service) -> Iterator[None]:
    """A worker that does jobs as they come, until the block ends."""
    ready = threading.Event()
    worker = Worker(service.resources, HANDLERS, service.pool, concurrency=2)
    thread = threading.Thread(target=lambda: asyncio.run(worker.run(on_ready=ready.set)))
    thread.start()
    try:
        assert ready.wait(READY_S)
        yield
    finally:
        worker.stop()
        thread.join()


def run_mosaico(service: Service, *words: str | Path) -> Result:
    """Run a `mosaico` command against the service."""
    environment = {
        "MOSAICO_URL": str(service.client.base_url).rstrip("/"),
        "MOSAICO_API_KEY": service.client.headers["Authorization"].removeprefix("Bearer "),
    }
    return CliRunner().invoke(cli, [*map(str, words)], env=environment)
