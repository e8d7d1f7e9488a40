"""docs/extending-sources.md: the source for Phoenix, as a package of one file, against a server that answers like Phoenix."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from mosaico.core.encryption import Secret
from mosaico.traces.registry import TRACE_SOURCES, TraceQuery
from tests.integration.docs.test_examples import blocks, forget
from tests.support.service import JSON, Service

MAX_LINES = 125
KEY = "phoenix-key-never-shown"
CREATED = "2026-11-27T02:00:00+00:00"


def run_of_example(number: int, repetition: int = 1, **fields: Any) -> JSON:
    """A row of `/v1/experiments/{id}/json`, with the fields that Phoenix 12 writes."""
    return {
        "example_id": f"RGF0YXNldEV4YW1wbGU6{number}",
        "repetition_number": repetition,
        "input": {"question": f"What is {number} + 1?"},
        "reference_output": {"answer": f"It is {number + 1}"},
        "output": f"It is {number + 1}",
        "error": None,
        "latency_ms": 250.0,
        "start_time": CREATED,
        "end_time": CREATED,
        "trace_id": None,
        "prompt_token_count": 12,
        "completion_token_count": 3,
        "annotations": [
            {
                "name": "helpful",
                "annotator_kind": "LLM",
                "label": "yes",
                "score": 1.0,
                "error": None,
            },
            {
                "name": "tone",
                "annotator_kind": "LLM",
                "label": "kind",
                "score": None,
                "error": None,
            },
        ],
        **fields,
    }


def experiment(number: int, day: int, *, missing: int = 0) -> JSON:
    return {
        "id": f"exp-{number}",
        "dataset_id": "ds-1",
        "dataset_version_id": "v-1",
        "repetitions": 1,
        "metadata": {},
        "project_name": None,
        "created_at": f"2026-11-{day}T02:00:00+00:00",
        "updated_at": f"2026-11-{day}T02:00:00+00:00",
        "example_count": 4,
        "missing_run_count": missing,
    }


@dataclass
class PhoenixServer:
    """Answers by path; a list has pages of one row. `status` replaces 200."""

    url: str = ""
    status: int = 200
    answers: dict[str, Any] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)

    def respond(self, path: str, cursor: str | None) -> Any:
        answer = self.answers[path]
        if not path.endswith(("datasets", "experiments")):
            return answer
        start = int(cursor or 0)
        following = str(start + 1) if start + 1 < len(answer) else None
        return {"data": answer[start : start + 1], "next_cursor": following}


@contextmanager
def running_phoenix() -> Iterator[PhoenixServer]:
    phoenix = PhoenixServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            phoenix.paths.append(parts.path)
            refused = self.headers.get("Authorization") != f"Bearer {KEY}"
            status = 401 if refused else phoenix.status
            if status == 200 and parts.path not in phoenix.answers:
                status = 404
            body = b"{}"
            if status == 200:
                cursor = dict(parse_qsl(parts.query)).get("cursor")
                body = json.dumps(phoenix.respond(parts.path, cursor)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        phoenix.url = f"http://127.0.0.1:{server.server_port}"
        yield phoenix
        server.shutdown()


@pytest.fixture
def phoenix(monkeypatch: pytest.MonkeyPatch, plugins: None) -> Iterator[PhoenixServer]:
    """The server, and the source of the page in the registry."""
    [package] = [
        block for block in blocks("docs/extending-sources.md", "python") if '"phoenix"' in block
    ]
    assert len(package.splitlines()) <= MAX_LINES
    forget(TRACE_SOURCES, monkeypatch)
    names: dict[str, Any] = {}
    exec(compile(package, "docs/extending-sources.md", "exec"), names)
    names["register"](TRACE_SOURCES.register)
    with running_phoenix() as server:
        server.answers = {
            "/v1/datasets": [{"id": "ds-0", "name": "other"}, {"id": "ds-1", "name": "support"}],
            "/v1/datasets/ds-1/experiments": [
                experiment(1, 25), experiment(2, 27), experiment(3, 28, missing=2),
            ],
            "/v1/experiments/exp-2/json": [
                run_of_example(1),
                run_of_example(2, output={"answer": "It is 7"}),
                run_of_example(3, output=None, error="timeout in tool"),
                run_of_example(4),
            ],
            "/v1/experiments/exp-1/json": [run_of_example(1, output="No")],
        }  # fmt: skip
        yield server


def create_benchmark(service: Service, phoenix: PhoenixServer, **source: Any) -> None:
    fields = {"kind": "phoenix", "url": phoenix.url, "secretKey": KEY, **source}
    service.create_agent(source=fields)
    # Without a source of its own: the agent decides.
    service.create_benchmark(
        metrics=["EXACT_MATCH", "LATENCY", {"key": "SCORE", "options": {"name": "helpful"}}],
        minCoverage=0,
        maxErrorShare=1,
    )


def test_phoenix_source__a_run_reads_the_newest_complete_experiment(
    service: Service, phoenix: PhoenixServer
) -> None:
    create_benchmark(service, phoenix)
    run = service.complete_run()
    assert (run["status"], run["runName"], run["tracesProcessed"]) == ("COMPLETED", "exp-2", 4)
    metrics = {
        row["metric"]: row for row in service.list_items(f"/benchmark-runs/{run['id']}/metrics")
    }
    # Two of four are right; one is wrong and one failed.
    assert metrics["EXACT_MATCH"]["mean"] == 0.5
    assert metrics["LATENCY_MS"]["mean"] == 250
    assert metrics['SCORE["helpful"]']["mean"] == 1
    named = service.complete_run(runName="exp-1")
    assert named["tracesProcessed"] == 1
    assert KEY not in json.dumps([service.get("/agents"), run, named])


def test_phoenix_source__check_and_runs_use_the_credentials_of_the_agent(
    service: Service, phoenix: PhoenixServer
) -> None:
    create_benchmark(service, phoenix, project="support-bot")
    check = service.post("/agents/agent-001/check")
    assert (check["ok"], check["source"], check["project"]) == (True, "phoenix", "support-bot")
    service.patch(
        "/agents/agent-001", {"source": {"kind": "phoenix", "url": phoenix.url, "secretKey": "old"}}
    )
    refused = service.post("/agents/agent-001/check")
    assert refused["ok"] is False
    assert "source.secretKey" in refused["detail"]
    run = service.complete_run()
    assert run["status"] == "FAILED"
    assert re.search(r"source\.secretKey", run["errorMessage"])


def test_phoenix_source__errors_name_what_is_wrong(
    service: Service, phoenix: PhoenixServer
) -> None:
    create_benchmark(service, phoenix)
    service.patch("/benchmarks/bench-001", {"datasetRef": "unknown"})
    run = service.complete_run()
    assert (run["status"], run["errorCode"]) == ("FAILED", "DATASET_NOT_FOUND")
    service.patch("/benchmarks/bench-001", {"datasetRef": "support", "runName": "exp-3"})
    run = service.complete_run()
    assert (run["status"], run["errorCode"]) == ("FAILED", "RUN_NOT_FOUND")


def test_phoenix_source__resumes_after_each_page(service: Service, phoenix: PhoenixServer) -> None:
    """As every source: `tests/contracts/test_trace_sources.py`. A newer experiment may have ended meanwhile."""
    phoenix.answers["/v1/experiments/exp-2/json"] = [run_of_example(n) for n in range(250)]
    source = TRACE_SOURCES.get("phoenix").open(service.resources)
    query = TraceQuery(
        dataset_ref="support", run_name=None, url=phoenix.url, secret_key=Secret(KEY)
    )
    pages = list(source.pages(query, None))
    assert [len(page.traces) for page in pages] == [100, 100, 50]
    phoenix.answers["/v1/datasets/ds-1/experiments"].append(experiment(4, 29))
    phoenix.answers["/v1/experiments/exp-4/json"] = []
    for number, page in enumerate(pages[:-1], start=1):
        assert list(source.pages(query, page.cursor)) == pages[number:]
