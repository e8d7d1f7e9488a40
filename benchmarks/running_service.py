"""`mosaico serve` in processes of its own, for benchmarks of the whole service."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import httpx


class RunningService(NamedTuple):
    """A service in processes of its own; `pid` is their parent."""

    client: httpx.Client
    pid: int
    data_dir: Path


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
def served_from(data_dir: Path) -> Iterator[RunningService]:
    """A service with this data folder."""
    port = free_port()
    key = "a-key-for-the-benchmarks-of-mosaico"
    environment = {
        **os.environ,
        "MOSAICO_DATA_DIR": str(data_dir),
        "MOSAICO_PORT": str(port),
        "MOSAICO_ADMIN_KEY": key,
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
