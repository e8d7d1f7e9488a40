"""M1: memory of each process of the service, while it works on few traces and on many."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

from benchmarks.rows import BenchRow

FEW, MANY = 2_000, 40_000
LIMIT_MIB = {"api": 150, "worker": 300, "pool child": 200}
WORDS = [
    "the",
    "pelican",
    "rents",
    "cargo",
    "bikes",
    "by",
    "the",
    "day",
    "and",
    "keeps",
    "their",
    "batteries",
    "warm",
    "in",
    "winter",
]


class Peak(NamedTuple):
    """The largest resident size of a process so far, in MiB."""

    role: str
    mib: float


def measure() -> Iterator[BenchRow]:
    with _served() as (client, parent):
        _run(client, FEW)
        few = {peak.role: peak.mib for peak in _peaks(parent)}
        _run(client, MANY)
        for role, mib in sorted({peak.role: peak.mib for peak in _peaks(parent)}.items()):
            limit = LIMIT_MIB[role]
            yield BenchRow(
                f"M1 {role}",
                f"≤ {limit} MiB whatever the number of traces",
                mib / limit,
                mib <= limit,
                f"{mib:.0f} MiB after {MANY} traces, {few[role]:.0f} MiB after {FEW}",
            )


def _run(client: httpx.Client, traces: int) -> None:
    name = f"n-{traces}"
    lines = (json.dumps(_trace(number)).encode() + b"\n" for number in range(traces))
    client.post(
        "/local-datasets",
        params={"name": "memory", "runName": name},
        content=lines,
        headers={"Content-Type": "application/x-ndjson"},
    ).raise_for_status()
    body = {"benchmarkId": "memory", "agentId": "memory", "runName": name}
    run = client.post("/benchmark-runs", json=body).raise_for_status().json()
    with client.stream("GET", f"/benchmark-runs/{run['id']}/events", timeout=600) as events:
        states = [json.loads(line[6:]) for line in events.iter_lines() if line[:6] == "data: "]
    if states[-1]["status"] != "COMPLETED":
        raise RuntimeError(states[-1]["errorMessage"])


def _trace(number: int) -> dict[str, str]:
    turn = number % len(WORDS)
    expected = " ".join(WORDS[turn:] + WORDS[:turn])
    return {
        "traceId": f"t-{number}",
        "expectedOutput": f"{expected} {number}",
        "output": " ".join([expected] * 6) + f" {number * 7}",
    }


@contextmanager
def _served() -> Iterator[tuple[httpx.Client, int]]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    key = "a-key-for-the-benchmark-of-memory"
    with tempfile.TemporaryDirectory(dir=_reachable()) as folder:
        environment = {
            **os.environ,
            "MOSAICO_DATA_DIR": str(Path(folder) / "data"),
            "MOSAICO_PORT": str(port),
            "MOSAICO_ADMIN_KEY": key,
        }
        environment.pop("DATABASE_URL", None)
        process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", "serve"],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            _wait(process)
            with httpx.Client(
                base_url=f"http://127.0.0.1:{port}/api/v1",
                headers={"Authorization": f"Bearer {key}"},
                trust_env=False,
                timeout=300,
            ) as client:
                client.post("/agents", json={"id": "memory", "name": "m"}).raise_for_status()
                benchmark = {"id": "memory", "datasetRef": "memory"}
                client.post("/benchmarks", json=benchmark).raise_for_status()
                yield client, process.pid
        finally:
            process.terminate()
            process.communicate(timeout=60)


def _wait(process: "subprocess.Popen[str]") -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("MOSAICO runs at"):
            return
    raise RuntimeError("the service did not start")


def _reachable() -> str | None:
    """A place that an unprivileged database may enter, when this runs as root."""
    return "/var/lib" if os.geteuid() == 0 else None


def _peaks(parent: int) -> Iterator[Peak]:
    """The processes of the service below `serve`, by role; of several children the largest."""
    found: dict[str, float] = {}
    for pid, line in _descendants(parent):
        role = _role(line)
        if role:
            found[role] = max(found.get(role, 0), _peak_mib(pid))
    return (Peak(role, mib) for role, mib in found.items())


def _role(line: str) -> str | None:
    if "multiprocessing" in line and "spawn_main" in line:
        return "pool child"
    for role in ("api", "worker"):
        if line.endswith(f"app.cli {role}"):
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


def _peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024
