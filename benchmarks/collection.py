"""M1c: memory of each process for a run that is collected from Langfuse.

The run has 100 000 traces, or the number in MOSAICO_BENCH_TRACES. It takes minutes, so this group
is measured only when it is named.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

import httpx
import uvicorn

from benchmarks.memory import measure_peaks, run_to_end, served
from benchmarks.result_rows import BenchRow
from benchmarks.traces import expected_of, output_of
from tests.support.langfuse.builder import FakeLangfuse
from tests.support.langfuse.server import FakeServer

FEW: Final = 2_000
MANY: Final = int(os.environ.get("MOSAICO_BENCH_TRACES", "100000"))
PUBLIC_KEY, SECRET_KEY = "pk-bench", "sk-bench"


def measure() -> Iterator[BenchRow]:
    with _langfuse() as url, served() as service:
        agent = {"id": "collected", "name": "c", "langfuseUrl": url}
        keys = {"langfusePublicKey": PUBLIC_KEY, "langfuseSecretKey": SECRET_KEY}
        service.client.post("/agents", json={**agent, **keys}).raise_for_status()
        yield from measure_peaks(
            "M1c", service.pid, FEW, MANY, lambda count: _run(service.client, count)
        )


def _run(client: httpx.Client, count: int) -> float:
    name = f"n-{count}"
    body = {"id": name, "source": "langfuse", "datasetRef": name}
    client.post("/benchmarks", json=body).raise_for_status()
    return run_to_end(client, {"benchmarkId": name, "agentId": "collected"})


@contextmanager
def _langfuse() -> Iterator[str]:
    """The URL of a fake server that generates each trace on request."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.collection"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.communicate(timeout=30)


def _serve() -> None:
    server = FakeServer(
        mode="events_only", version="4.16.0", public_key=PUBLIC_KEY, secret_key=SECRET_KEY
    )
    for count in (FEW, MANY):
        FakeLangfuse(server=server, url="").experiment(
            dataset=f"n-{count}",
            run=f"n-{count}",
            items=count,
            calls_per_item=1,
            every=timedelta(milliseconds=50),
            expected_of=expected_of,
            output_of=output_of,
        )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        config = uvicorn.Config(server, log_config=None, lifespan="off", ws="none")
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    _serve()
