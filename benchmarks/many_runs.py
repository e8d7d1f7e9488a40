"""Many small runs: benchmarks that are scheduled at the same minute; what one run costs."""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx
import psycopg

from benchmarks.processes import cpu_seconds_by_role
from benchmarks.result_rows import BenchRow
from benchmarks.running_service import RunningService, served
from benchmarks.traces import long_pair
from mosaico.metrics.engine import score_chunk
from mosaico.metrics.registry import default_refs, load_metrics
from mosaico.postgres.server import EmbeddedPostgres
from mosaico.traces.files.ndjson import iter_traces

SCHEDULES: Final = int(os.environ.get("MOSAICO_BENCH_SCHEDULES", "1000"))
TRACES: Final = 50
METRICS: Final = ("ROUGE", "ACCURACY")
CPU_GOAL_S: Final = 0.150
PATIENCE_S: Final = 3600.0

# Every schedule is due now, as if its minute had come. Schedules of the API wait for a minute.
MAKE_DUE: Final = "UPDATE schedule_configs SET next_run_at = now() WHERE id LIKE %s"
STATUSES: Final = """
    SELECT count(*) FILTER (WHERE status = 'COMPLETED'),
           count(*) FILTER (WHERE status NOT IN ('PENDING', 'RUNNING'))
    FROM benchmark_runs
"""


@dataclass(frozen=True, slots=True)
class Night:
    """What the runs of one minute cost together; `cpu_s` by role, in seconds."""

    runs: int
    seconds: float
    cpu_s: dict[str, float]


def measure() -> Iterator[BenchRow]:
    with served() as service, TemporaryDirectory() as folder:
        service.client.post("/agents", json={"id": "many", "name": "m"}).raise_for_status()
        _create(service.client, "warm", 2)
        _fire(service, "warm", 2)
        _create(service.client, "night", SCHEDULES)
        night = _fire(service, "night", SCHEDULES)
        metrics_s = _metrics_cpu_s(Path(folder)) * SCHEDULES
        yield from _rows(night, metrics_s)


def _upload(client: httpx.Client, name: str) -> None:
    lines = "\n".join(
        json.dumps({**long_pair(position), "input": f"{name} {position}"})
        for position in range(TRACES)
    )
    client.post(
        "/local-datasets",
        params={"name": name, "runName": "night"},
        content=lines.encode(),
        headers={"Content-Type": "application/x-ndjson"},
    ).raise_for_status()


def _create(client: httpx.Client, prefix: str, count: int) -> None:
    """Benchmarks with an upload and a schedule each; the schedules are not due for months."""
    for number in range(count):
        name = f"{prefix}-{number}"
        _upload(client, name)
        bodies = (
            ("/benchmarks", {"id": name, "datasetRef": name, "metrics": [*METRICS]}),
            (
                "/schedule-configs",
                {"id": name, "name": name, "benchmarkId": name, "agentId": "many"}
                | {"cronExpression": "0 0 3 1 1 *", "timezone": "UTC"},
            ),
        )
        for path, body in bodies:
            client.post(path, json=body).raise_for_status()


def _fire(service: RunningService, prefix: str, count: int) -> Night:
    """Let the schedules come due, and wait for the ends of their runs."""
    url = EmbeddedPostgres(service.data_dir).url()
    with psycopg.connect(url, autocommit=True) as connection:
        earlier = _ended(connection)
        before, began = cpu_seconds_by_role(service), time.perf_counter()
        connection.execute(MAKE_DUE, [f"{prefix}-%"])
        while _ended(connection) < earlier + count:
            if time.perf_counter() - began > PATIENCE_S:
                raise RuntimeError("the runs did not end")
            time.sleep(0.1)
        seconds = time.perf_counter() - began
    after = cpu_seconds_by_role(service)
    return Night(
        count, seconds, {role: after[role] - before.get(role, 0.0) for role in sorted(after)}
    )


def _ended(connection: psycopg.Connection) -> int:
    """The number of ended runs. Raises: `RuntimeError` for a run that did not complete."""
    row = connection.execute(STATUSES).fetchone()
    assert row is not None
    if row[0] != row[1]:
        raise RuntimeError(f"{row[1] - row[0]} runs did not complete")
    return int(row[1])


def _metrics_cpu_s(folder: Path) -> float:
    """CPU seconds of the metrics of one run alone: one process, no database, after a warm-up."""
    load_metrics()
    refs = default_refs(METRICS)
    file = folder / "traces.jsonl"
    file.write_text("\n".join(json.dumps(long_pair(number)) for number in range(TRACES)))
    with file.open("rb") as lines:
        traces = list(iter_traces(lines))
    score_chunk(traces, refs)
    began = time.process_time()
    score_chunk(traces, refs)
    return time.process_time() - began


def _rows(night: Night, metrics_s: float) -> Iterator[BenchRow]:
    per_minute = night.runs / night.seconds * 60
    yield BenchRow(
        "throughput",
        "runs a minute",
        per_minute,
        True,
        f"{night.runs} runs of {TRACES} traces in {night.seconds:.1f} s",
    )
    per_run = (sum(night.cpu_s.values()) - metrics_s) / night.runs
    parts = ", ".join(
        f"{role} {seconds / night.runs * 1000:.0f}" for role, seconds in night.cpu_s.items()
    )
    yield BenchRow(
        "CPU per run",
        f"≤ {CPU_GOAL_S * 1000:.0f} ms of all processes without the metrics",
        per_run / CPU_GOAL_S,
        per_run <= CPU_GOAL_S,
        f"{per_run * 1000:.0f} ms ({parts}; metrics {metrics_s / night.runs * 1000:.0f} ms)",
    )
