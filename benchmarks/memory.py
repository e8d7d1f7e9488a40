"""M1: memory of each process of the service for a small and a large run."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx

from benchmarks.result_rows import BenchRow
from benchmarks.traces import long_pair

FEW, MANY = 2_000, 100_000
LIMIT_MIB = {"api": 300, "worker": 300, "pool child": 200}


class PeakMemory(NamedTuple):
    """The largest resident size of a process so far, in MiB."""

    role: str
    mib: float


class RunningService(NamedTuple):
    """A service in processes of its own; `pid` is their parent."""

    client: httpx.Client
    pid: int
    data_dir: Path


def measure() -> Iterator[BenchRow]:
    with served() as service:
        client = service.client
        client.post("/agents", json={"id": "memory", "name": "m"}).raise_for_status()
        benchmark = {"id": "memory", "datasetRef": "memory"}
        client.post("/benchmarks", json=benchmark).raise_for_status()
        yield from measure_peaks("M1", service.pid, FEW, MANY, partial(_uploaded_run, client))


def measure_peaks(
    name: str, parent: int, few: int, many: int, run: Callable[[int], float]
) -> Iterator[BenchRow]:
    """One row per process after a run of `many` traces; `run` returns its seconds."""
    run(few)
    before = {peak.role: peak.mib for peak in _peaks(parent)}
    seconds = run(many)
    for role, mib in sorted({peak.role: peak.mib for peak in _peaks(parent)}.items()):
        limit = LIMIT_MIB[role]
        yield BenchRow(
            f"{name} {role}",
            f"≤ {limit} MiB whatever the number of traces",
            mib / limit,
            mib <= limit,
            f"{mib:.0f} MiB after {many} traces x 6 metrics in {seconds:.0f} s,"
            f" {before[role]:.0f} MiB after {few}",
        )


def _uploaded_run(client: httpx.Client, traces: int) -> float:
    name = f"n-{traces}"
    lines = (json.dumps(long_pair(number)).encode() + b"\n" for number in range(traces))
    client.post(
        "/local-datasets",
        params={"name": "memory", "runName": name},
        content=lines,
        headers={"Content-Type": "application/x-ndjson"},
    ).raise_for_status()
    return run_to_end(client, {"benchmarkId": "memory", "agentId": "memory", "runName": name})


def run_to_end(client: httpx.Client, body: dict[str, str]) -> float:
    """Start a run and wait for its end; returns its seconds."""
    run = client.post("/benchmark-runs", json=body).raise_for_status().json()
    path = f"/benchmark-runs/{run['id']}"
    while run["completedAt"] is None:
        time.sleep(0.5)
        run = client.get(path).raise_for_status().json()
    if run["status"] != "COMPLETED":
        raise RuntimeError(run["errorMessage"])
    began, ended = (datetime.fromisoformat(run[key]) for key in ("startedAt", "completedAt"))
    return (ended - began).total_seconds()


@contextmanager
def served() -> Iterator[RunningService]:
    """A service with a new data folder."""
    with (
        tempfile.TemporaryDirectory(dir=_reachable()) as folder,
        served_from(Path(folder) / "data") as service,
    ):
        yield service


@contextmanager
def served_from(data_dir: Path, **settings: str) -> Iterator[RunningService]:
    """A service with this data folder and these variables of the environment."""
    port = free_port()
    key = "a-key-for-the-benchmark-of-memory"
    environment = {
        **os.environ,
        "MOSAICO_DATA_DIR": str(data_dir),
        "MOSAICO_PORT": str(port),
        "MOSAICO_ADMIN_KEY": key,
        **settings,
    }
    # So that the service starts the database of its data folder.
    environment.pop("DATABASE_URL", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "mosaico.cli", "serve"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _wait(process)
        # Who reads no more of it would stop the service with the first line that does not fit into the pipe.
        threading.Thread(target=deque, args=(process.stderr, 0), daemon=True).start()
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}/api/v1",
            headers={"Authorization": f"Bearer {key}"},
            trust_env=False,
            timeout=300,
        ) as client:
            yield RunningService(client, process.pid, data_dir)
    finally:
        process.terminate()
        process.wait(timeout=60)


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _wait(process: "subprocess.Popen[str]") -> None:
    assert process.stderr is not None
    lines = list[str]()
    for line in process.stderr:
        if line.startswith("MOSAICO runs at"):
            return
        lines.append(line)
    raise RuntimeError(f"the service did not start:\n{''.join(lines)}")


def _reachable() -> str | None:
    """A folder that an unprivileged database can enter, if this process runs as root."""
    return "/var/lib" if os.geteuid() == 0 else None


def _peaks(parent: int) -> Iterator[PeakMemory]:
    """The peak of each role among the processes below `serve`: its largest process."""
    measured: dict[str, float] = {}
    for pid, line in _descendants(parent):
        role = _role(line)
        if role:
            measured[role] = max(measured.get(role, 0), peak_mib(pid))
    return (PeakMemory(role, mib) for role, mib in measured.items())


def _role(line: str) -> str | None:
    if "multiprocessing" in line and "spawn_main" in line:
        return "pool child"
    for role in ("api", "worker"):
        if line.endswith(f"mosaico.cli {role}"):
            return role
    return None


def _descendants(parent: int) -> Iterator[tuple[int, str]]:
    rows = [line.split(maxsplit=2) for line in _ps().splitlines()]
    tree = {parent}
    for pid, ppid, line in rows:
        if int(ppid) in tree:
            tree.add(int(pid))
            yield int(pid), line.strip()


def _ps() -> str:
    command = ["ps", "-e", "--sort=pid", "-o", "pid=,ppid=,args="]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def peak_mib(pid: int) -> float:
    """The largest resident size of a process so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024
