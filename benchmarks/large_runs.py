"""Memory of the processes that compare and export runs of a million traces, which are copied in the database.

`python -m benchmarks large-runs`; `MOSAICO_BENCH_LARGE=100000` compares smaller runs.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import psutil
import psycopg

from benchmarks.bombs import PAUSE_S
from benchmarks.processes import peak_mib, process_of_role
from benchmarks.result_rows import BenchRow
from benchmarks.running_service import RunningService, run_to_end, served
from mosaico.postgres.server import EmbeddedPostgres

TRACES: Final = int(os.environ.get("MOSAICO_BENCH_LARGE", "1000000"))
MADE: Final = 1000
METRICS: Final = ("ROUGE", "BLEU", "ACCURACY", "PRECISION", "RECALL", "F1_SCORE")
# The limit of a child process that compares; what docs/processes.md says of it and of an API process.
COMPARE_MIB: Final = 500
API_MIB: Final = 300
EXPORT_MIB: Final = 200

# Each made trace again and again, as other items.
COPY_TRACES: Final = """
    INSERT INTO collected_traces
    SELECT (jsonb_populate_record(trace, jsonb_build_object(
        'position', trace.position + %(made)s * copy, 'trace_id', trace.trace_id || '-' || copy,
        'item_id', trace.item_id || '-' || copy))).*
    FROM collected_traces AS trace, generate_series(1, %(copies)s) AS copy
"""
COPY_RESULTS: Final = """
    INSERT INTO trace_results (run_seq, position, values, notes)
    SELECT run_seq, position + %(made)s * copy, values, notes
    FROM trace_results, generate_series(1, %(copies)s) AS copy
"""


def measure() -> Iterator[BenchRow]:
    with served() as service, TemporaryDirectory() as folder:
        runs = [_run(service, night) for night in range(2)]
        _copy(service)
        with _weighed(service) as peak:
            path = f"/benchmark-runs/compare?baseline={runs[0]}&candidate={runs[1]}"
            service.client.get(path, timeout=3600).raise_for_status()
            path = f"/benchmark-runs/{runs[1]}/categories?field=category"
            service.client.get(path, timeout=3600).raise_for_status()
        yield _row("large-compare", peak[0], COMPARE_MIB, "a child process that compares")
        exported_mib = _export(service, runs[1], Path(folder))
        yield _row("large-export", exported_mib, EXPORT_MIB, "`mosaico runs export`")
        api_mib = peak_mib(process_of_role(service, "api").pid)
        yield _row("large-api", api_mib, API_MIB, "the API process")


def _row(name: str, measured: float, most: float, process: str) -> BenchRow:
    note = f"{measured:.0f} MiB of {process}, {TRACES:,} traces"
    return BenchRow(name, f"at most {most} MiB", measured / most, measured <= most, note)


def _run(service: RunningService, night: int) -> str:
    client = service.client
    if night == 0:
        client.post("/agents", json={"id": "large", "name": "large"}).raise_for_status()
        measures = [{"name": "quality", "formula": "AVERAGE(ROUGE, ACCURACY)"}]
        benchmark = {
            "id": "large",
            "source": "local",
            "datasetRef": "large",
            "metrics": METRICS,
            "measures": measures,
        }
        client.post("/benchmarks", json=benchmark).raise_for_status()
    words = ("one", "two", "three", "four")
    traces = (
        {
            "traceId": f"t{number}",
            "input": f"question {number}",
            "expectedOutput": words[number % 4],
            "output": words[(number + night * (number % 10 == 0)) % 4],
            "tags": [f"category:{number % 20}"],
        }
        for number in range(MADE)
    )
    content = "\n".join(map(json.dumps, traces))
    params = {"name": "large", "runName": f"night-{night}"}
    kind = {"Content-Type": "application/x-ndjson"}
    client.post("/local-datasets", params=params, content=content, headers=kind).raise_for_status()
    run_to_end(client, {"benchmarkId": "large", "agentId": "large"})
    newest = client.get("/benchmark-runs", params={"limit": 1}).raise_for_status().json()
    return str(newest["items"][0]["id"])


def _copy(service: RunningService) -> None:
    counts = {"made": MADE, "copies": TRACES // MADE - 1}
    with psycopg.connect(EmbeddedPostgres(service.data_dir).url()) as connection:
        connection.execute(COPY_TRACES, counts)
        connection.execute(COPY_RESULTS, counts)
        connection.execute("UPDATE collections SET trace_count = %s", [TRACES])
        # The number of collected traces says whether the items of a run are too many to be compared all.
        numbers = "traces_total = %(traces)s, traces_collected = %(traces)s, traces_processed = %(traces)s"
        connection.execute(f"UPDATE benchmark_runs SET {numbers}", {"traces": TRACES})
        # As autovacuum does for rows that a run wrote.
        connection.execute("ANALYZE collected_traces, trace_results")


@contextmanager
def _weighed(service: RunningService) -> Iterator[list[float]]:
    """The largest child of the API in MiB, while it is observed."""
    peak, ended = [0.0], threading.Event()

    def weigh() -> None:
        while not ended.wait(PAUSE_S):
            for child in process_of_role(service, "api").children(recursive=True):
                with suppress(psutil.NoSuchProcess, FileNotFoundError, ValueError):
                    peak[0] = max(peak[0], peak_mib(child.pid))

    thread = threading.Thread(target=weigh)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def _export(service: RunningService, run_id: str, folder: Path) -> float:
    """The peak in MiB of the command that writes the traces of a run as CSV."""
    environment = {
        **os.environ,
        "MOSAICO_URL": str(service.client.base_url).removesuffix("/api/v1/"),
        "MOSAICO_API_KEY": service.client.headers["Authorization"].removeprefix("Bearer "),
    }
    command = [
        sys.executable,
        "-m",
        "mosaico.cli",
        "runs",
        "export",
        run_id,
        str(folder / "run.csv"),
    ]
    process = subprocess.Popen(command, env=environment)
    peak = 0.0
    while process.poll() is None:
        with suppress(FileNotFoundError, ValueError):
            peak = max(peak, peak_mib(process.pid))
        with suppress(subprocess.TimeoutExpired):
            process.wait(PAUSE_S)
    if process.returncode:
        raise RuntimeError(f"the export ended with {process.returncode}")
    return peak
