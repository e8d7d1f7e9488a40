"""`mosaico serve` with several API processes on one port."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from mosaico.jobs.process_pool import ProcessPool
from tests.support.processes import children_named, until
from tests.support.serve import ServiceProcesses, running_processes
from tests.support.service import Service
from tests.support.waiting import LIVENESS_S

pytestmark = pytest.mark.xdist_group("serve")


@pytest.fixture(scope="module")
def service_processes(
    tmp_path_factory: pytest.TempPathFactory, metric_pool: ProcessPool
) -> Iterator[ServiceProcesses]:
    folder = tmp_path_factory.mktemp("serve")
    with running_processes(folder, metric_pool, MOSAICO_API_PROCESSES="2") as processes:
        yield processes


@contextmanager
def _only(pid: int, processes: list[int]) -> Iterator[None]:
    """The other processes are suspended until the block ends."""
    suspended = [process for process in processes if process != pid]
    for process in suspended:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in suspended:
            os.kill(process, signal.SIGCONT)


def _api_processes(service_processes: ServiceProcesses) -> list[int]:
    """Both API processes, once both exist."""
    pids: list[int] = []

    def both_exist() -> bool:
        pids[:] = children_named(service_processes.serve.pid, "api")
        return len(pids) == 2

    until(both_exist, what=service_processes.serve.log)
    return pids


def _agents(service: Service, key: str) -> int:
    """The status of a request on a connection of its own."""
    url = f"{service.client.base_url}/api/v1/agents"
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.get(
        url, headers=headers, trust_env=False, verify=False, timeout=LIVENESS_S
    ).status_code


def test_api_processes__each_answers_and_none_knows_a_revoked_key(
    service_processes: ServiceProcesses,
) -> None:
    service = service_processes.deployment.service
    pids = _api_processes(service_processes)
    created = service.post("/keys", {"name": "short", "role": "read"})

    for pid in pids:
        with _only(pid, pids):
            assert _agents(service, created["token"]) == 200
    service.client.delete(f"/api/v1/keys/{created['id']}").raise_for_status()

    for pid in pids:
        with _only(pid, pids):
            # Each process remembers a key for less than a second.
            until(lambda: _agents(service, created["token"]) == 401)


def test_api_processes__a_killed_one_is_restarted_while_the_other_answers(
    service_processes: ServiceProcesses,
) -> None:
    service = service_processes.deployment.service
    killed, other = _api_processes(service_processes)
    key = service.client.headers["Authorization"].removeprefix("Bearer ")

    os.kill(killed, signal.SIGKILL)

    assert _agents(service, key) == 200
    until(lambda: killed not in (pids := _api_processes(service_processes)) and other in pids)
    restarted = _api_processes(service_processes)
    new = next(pid for pid in restarted if pid != other)
    with _only(new, restarted):
        # The connection waits in the shared socket until the new process accepts it.
        assert _agents(service, key) == 200
