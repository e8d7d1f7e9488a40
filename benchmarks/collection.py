"""Runs of growing size that are collected from a Langfuse stand-in: time, CPU and memory.

`MOSAICO_BENCH_SIZES` sets the sizes, such as "10000,100000,1000000". It takes minutes, so this group is
measured only when it is named.
"""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, NamedTuple

import psutil
import uvicorn

from benchmarks.processes import cpu_seconds_by_role, peak_mib_by_role
from benchmarks.result_rows import BenchRow
from benchmarks.run import SIZES, WARM_UP, WARM_UP_RUNS, SizedRun, growth_rows, memory_rows
from benchmarks.running_service import RunningService, run_to_end, served
from benchmarks.traces import expected_of, output_of
from tests.support.langfuse.builder import FakeLangfuse
from tests.support.langfuse.server import FakeServer

PUBLIC_KEY, SECRET_KEY = "pk-bench", "sk-bench"


WARM_UP_NAMES: Final = tuple(f"warm-{number}" for number in range(WARM_UP_RUNS))


class StandIn(NamedTuple):
    """A fake Langfuse that generates each trace on request, in a process of its own."""

    url: str
    process: psutil.Process

    def cpu_s(self) -> float:
        return float(sum(self.process.cpu_times()[:2]))


def measure() -> Iterator[BenchRow]:
    with _stand_in() as stand_in, served() as service:
        agent = {"id": "collected", "name": "c", "langfuseUrl": stand_in.url}
        keys = {"langfusePublicKey": PUBLIC_KEY, "langfuseSecretKey": SECRET_KEY}
        service.client.post("/agents", json={**agent, **keys}).raise_for_status()
        for name in WARM_UP_NAMES:
            _run(service, name, WARM_UP)
        runs = list[SizedRun]()
        for size in SIZES:
            stand_in_before_s = stand_in.cpu_s()
            run = _run(service, name=f"n-{size}", size=size)
            runs.append(run)
            stand_in_us = run.micros(stand_in.cpu_s() - stand_in_before_s)
            yield BenchRow(
                f"stand-in {size}",
                "CPU of the server, on the same cores, is printed",
                0.0,
                True,
                f"{stand_in_us:.0f} µs per trace",
            )
            yield from memory_rows(size, run.peaks)
        yield from growth_rows(runs)


def _run(service: RunningService, name: str, size: int) -> SizedRun:
    body = {"id": name, "source": "langfuse", "datasetRef": name}
    service.client.post("/benchmarks", json=body).raise_for_status()
    before = cpu_seconds_by_role(service)
    whole_s = run_to_end(service.client, {"benchmarkId": name, "agentId": "collected"})
    after = cpu_seconds_by_role(service)
    return SizedRun(
        size=size,
        whole_s=whole_s,
        cpu_s={role: after[role] - before.get(role, 0.0) for role in sorted(after)},
        peaks=peak_mib_by_role(service),
    )


@contextmanager
def _stand_in() -> Iterator[StandIn]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.collection"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield StandIn(process.stdout.readline().strip(), psutil.Process(process.pid))
    finally:
        process.terminate()
        process.communicate(timeout=30)


def _serve() -> None:
    server = FakeServer(
        mode="events_only", version="4.16.0", public_key=PUBLIC_KEY, secret_key=SECRET_KEY
    )
    sizes = dict.fromkeys(WARM_UP_NAMES, WARM_UP) | {f"n-{size}": size for size in SIZES}
    for name, size in sizes.items():
        FakeLangfuse(server=server, url="").experiment(
            dataset=name,
            run=name,
            items=size,
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
