"""What users wait for of a running service: the demo, the message of an alert, an upload up to its verdict, a page of a
comparison.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx

from benchmarks.processes import cpu_seconds_by_role
from benchmarks.result_rows import BenchRow
from benchmarks.run import METRICS, upload_traces, write_traces
from benchmarks.running_service import RunningService, served
from demo.receiver import receiving
from mosaico.core.web.page_paths import comparison_page_path, run_page_path
from mosaico.overview import sample_data

ITEMS: Final = 1_000
# The first runs that are compared import numpy into each metric process, once.
WARM_UP_RUNS: Final = 3
POLL_S: Final = 0.05
ALERT_S: Final = 2.0


def measure() -> Iterator[BenchRow]:
    """The rows of a new service."""
    with served() as service, TemporaryDirectory() as folder:
        yield _row(service, "demo", 25, lambda: _load_demo(service))
        yield _alert_row(service.client)
        benchmark = {"id": "large", "datasetRef": "large", "metrics": [*METRICS]}
        service.client.post("/agents", json={"id": "large", "name": "l"}).raise_for_status()
        service.client.post("/benchmarks", json=benchmark).raise_for_status()
        files = [write_traces(Path(folder), ITEMS, f"r{n}") for n in range(WARM_UP_RUNS + 1)]
        run_ids = [_upload_to_verdict(service.client, file) for file in files[:-1]]

        def upload_last() -> None:
            run_ids.append(_upload_to_verdict(service.client, files[-1]))

        yield _row(service, f"upload of {ITEMS:,} rows to its verdict", 3, upload_last)
        path = comparison_page_path([run_ids[0]], run_ids[-1])
        yield _row(service, "comparison, first", 1, lambda: _get_page(service.client, path))
        yield _row(service, "comparison, after", 0.1, lambda: _get_page(service.client, path))


def _row(service: RunningService, name: str, goal_s: float, work: Callable[[], object]) -> BenchRow:
    before, began = sum(cpu_seconds_by_role(service).values()), time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    cpu_seconds = sum(cpu_seconds_by_role(service).values()) - before
    note = f"{seconds:.2f} s (CPU of the service {cpu_seconds:.2f})"
    return BenchRow(name, f"≤ {goal_s:g} s", seconds / goal_s, seconds <= goal_s, note)


def _load_demo(service: RunningService) -> None:
    address = service.client.base_url
    environment = {
        **os.environ,
        "MOSAICO_URL": f"{address.scheme}://{address.host}:{address.port}",
        "MOSAICO_API_KEY": service.client.headers["Authorization"].removeprefix("Bearer "),
    }
    program = [sys.executable, "-m", "mosaico", "demo", "--quiet"]
    subprocess.run(program, env=environment, check=True, capture_output=True)


def _alert_row(client: httpx.Client) -> BenchRow:
    """The time from the end of a run that fires a rule to its webhook: both runs of the demo again."""
    with receiving() as receiver:
        rule = {
            "id": "waits",
            "name": "pass rate falls",
            "benchmarkId": sample_data.BENCHMARK_ID,
            "agentId": sample_data.AGENT_ID,
            "kpi": "pass rate",
            "condition": "PERCENTAGE_DROP",
            "threshold": 10,
            "channels": ["WEBHOOK"],
            "recipients": [receiver.url],
        }
        client.post("/alert-configs", json=rule).raise_for_status()
        body = {"benchmarkId": sample_data.BENCHMARK_ID, "agentId": sample_data.AGENT_ID}
        *_, run = [
            _complete_run(client, {**body, "runName": name}) for name in sample_data.RUN_NAMES
        ]
        if receiver.next_call() is None:
            raise RuntimeError("no webhook of the alert arrived")
    seconds = (datetime.now(UTC) - datetime.fromisoformat(run["completedAt"])).total_seconds()
    name = "message of an alert after COMPLETED"
    return BenchRow(
        name, f"≤ {ALERT_S:g} s", seconds / ALERT_S, seconds <= ALERT_S, f"{seconds:.2f} s"
    )


def _upload_to_verdict(client: httpx.Client, file: Path) -> str:
    """Upload a file, run the benchmark over it and open the page of the run; returns the ID of the run."""
    upload_traces(client, file)
    run = _complete_run(client, {"benchmarkId": "large", "agentId": "large", "runName": file.stem})
    _get_page(client, run_page_path(run["id"]))
    return str(run["id"])


def _complete_run(client: httpx.Client, body: dict[str, str]) -> dict[str, Any]:
    run: dict[str, Any] = client.post("/benchmark-runs", json=body).raise_for_status().json()
    while run["completedAt"] is None:
        time.sleep(POLL_S)
        run = client.get(f"/benchmark-runs/{run['id']}").raise_for_status().json()
    if run["status"] != "COMPLETED":
        raise RuntimeError(run["errorMessage"])
    return run


def _get_page(client: httpx.Client, path: str) -> None:
    """Get a page, again while it says that its comparison is being computed."""
    # Pages are beside the API, below the same address.
    address = str(client.base_url.copy_with(raw_path=path.encode()))
    while 'http-equiv="refresh"' in client.get(address).raise_for_status().text:
        time.sleep(POLL_S)
