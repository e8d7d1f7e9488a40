"""Uploads of a gigabyte and of two million lines, while a killed worker is rescued."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
import pytest

from mosaico.core.engine import IDLE_IN_TRANSACTION_TIMEOUT_MS
from mosaico.jobs.process_pool import ProcessPool
from tests.support.deployment import Deployment
from tests.support.processes import until
from tests.support.serve import ServiceProcesses, running_processes
from tests.support.stored import DatabaseReader

# A worker is rescued after some seconds; the uploads take minutes.
TIMEOUT_S = 3600
# The rescue ends sessions whose client has been silent for so long; a COPY began then is not one of them.
OPEN_FOR_S = IDLE_IN_TRANSACTION_TIMEOUT_MS / 1000 + 1
OPEN_COPIES = """
    SELECT pid, query_start FROM pg_stat_activity
    WHERE query ILIKE 'COPY%%' AND state = 'active' AND query_start < now() - make_interval(secs => %s)
"""
COPIED_BYTES = "SELECT bytes_processed FROM pg_stat_progress_copy"
# Far below the time after which a COPY counts as silent.
STOPPED_FOR_S = 3.0
RESCUED = """
    SELECT coalesce(max((args ->> '_rescues')::int), 0) > 0 FROM procrastinate_jobs
    WHERE args ->> 'run_id' = %s
"""
LINES_PER_BLOCK = 200

pytestmark = [pytest.mark.prove, pytest.mark.xdist_group("large uploads")]


class UploadSize(NamedTuple):
    """An upload of so many lines with outputs of so many characters."""

    lines: int
    chars: int


# With ID and frame a line has about 64 KiB, the longest text of a request.
GIGABYTE = UploadSize(lines=16_384, chars=65_500)
MANY_LINES = UploadSize(lines=2_000_000, chars=10)


@pytest.fixture(scope="module")
def service_processes(
    tmp_path_factory: pytest.TempPathFactory, metric_pool: ProcessPool
) -> Iterator[ServiceProcesses]:
    with running_processes(tmp_path_factory.mktemp("uploads"), metric_pool) as processes:
        yield processes


def iter_blocks(size: UploadSize) -> Iterator[bytes]:
    output = "x" * size.chars
    for first in range(0, size.lines, LINES_PER_BLOCK):
        numbers = range(first, min(first + LINES_PER_BLOCK, size.lines))
        traces = ({"traceId": f"t-{number}", "output": output} for number in numbers)
        yield b"".join(json.dumps(trace).encode() + b"\n" for trace in traces)


def upload(deployment: Deployment, run_name: str, size: UploadSize) -> httpx.Response:
    return deployment.service.client.post(
        "/api/v1/local-datasets",
        params={"name": "large", "runName": run_name},
        content=iter_blocks(size),
        headers={"Content-Type": "application/x-ndjson"},
        timeout=TIMEOUT_S,
    )


def open_copies(deployment: Deployment, open_for_s: float = 0) -> list[tuple[Any, ...]]:
    """The sessions in the middle of a COPY that began so many seconds ago or earlier."""
    return deployment.database.all(OPEN_COPIES, open_for_s)


@contextmanager
def slowed(deployment: Deployment, pid: int) -> Iterator[None]:
    """Let a process copy a little every few seconds only, as on a very busy machine.

    It goes on until the COPY has progressed, since one without progress is rightly ended. The buffers of the
    sockets hold megabytes of each part.
    """
    # A connection of its own, because this is another thread.
    progress = DatabaseReader(deployment.database.url)
    ended = threading.Event()

    def copy_a_little() -> None:
        os.kill(pid, signal.SIGSTOP)
        ended.wait(STOPPED_FOR_S)
        copied = progress.all(COPIED_BYTES)
        os.kill(pid, signal.SIGCONT)
        until(lambda: ended.is_set() or progress.all(COPIED_BYTES) != copied)

    def run_at_times() -> None:
        while not ended.is_set():
            copy_a_little()

    thread = threading.Thread(target=run_at_times)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        os.kill(pid, signal.SIGCONT)


def kill_worker_during(
    service_processes: ServiceProcesses, response: "Future[httpx.Response]", name: str
) -> None:
    """Kill the worker of a run while the upload is copied, and wait until the run completes."""
    deployment = service_processes.deployment
    gate = deployment.programs.gate(name)
    deployment.upload(f"gate:{name}")
    run_id = deployment.start(f"gate:{name}")
    until(gate.is_reached, what=service_processes.serve.log)
    until(lambda: bool(open_copies(deployment)) or response.done(), within_s=TIMEOUT_S)
    assert not response.done(), "the upload ended before the worker was killed"
    # The COPY of a fast machine would end before the rescue.
    with slowed(deployment, service_processes.child("api")):
        until(lambda: bool(open_copies(deployment, OPEN_FOR_S)) or response.done())
        copies = open_copies(deployment, OPEN_FOR_S)
        assert len(copies) == 1, "the upload ended before the worker was killed"

        os.kill(service_processes.child("worker"), signal.SIGKILL)
        until(lambda: bool(deployment.database.value(RESCUED, run_id)))

        # The same statement of the same session: open before the kill, and still after the rescue.
        assert open_copies(deployment, OPEN_FOR_S) == copies
    gate.open()
    deployment.completed_run(run_id)


@pytest.mark.parametrize("size", [GIGABYTE, MANY_LINES], ids=["1-GiB", "2,000,000-lines"])
def test_upload__large_one_is_stored_while_a_worker_is_rescued(
    service_processes: ServiceProcesses, size: UploadSize
) -> None:
    deployment = service_processes.deployment
    api, name = service_processes.child("api"), f"lines-{size.lines}"
    with ThreadPoolExecutor(1) as thread:
        response = thread.submit(upload, deployment, name, size)
        kill_worker_during(service_processes, response, name)
        dataset = response.result()

    assert dataset.status_code == 201, dataset.text
    assert dataset.json()["traceCount"] == size.lines
    assert service_processes.child("api") == api
