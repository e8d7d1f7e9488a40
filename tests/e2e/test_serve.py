"""`mosaico serve` with real processes, two of them with the API: killed ones are restarted, a stop ends them all."""

import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from mosaico.jobs.process_pool import ProcessPool
from mosaico.postgres.launch import HOST, is_free
from mosaico.postgres.server import EmbeddedPostgres
from tests.support.deployment import TRACES, Deployment
from tests.support.page_commands import run_command
from tests.support.processes import children_named, children_of, forked_programs, lives, until
from tests.support.serve import (
    ServiceProcesses,
    free_port,
    postmaster_pid,
    read_admin_key,
    running_processes,
)
from tests.support.service import Service
from tests.support.waiting import LIVENESS_S

# The processes start once, for all tests of this file.
pytestmark = pytest.mark.xdist_group("serve")


@pytest.fixture(scope="module")
def service_processes(
    tmp_path_factory: pytest.TempPathFactory, metric_pool: ProcessPool
) -> Iterator[ServiceProcesses]:
    folder = tmp_path_factory.mktemp("serve")
    with running_processes(folder, metric_pool, MOSAICO_API_PROCESSES="2") as processes:
        yield processes


@pytest.fixture
def deployment(service_processes: ServiceProcesses) -> Deployment:
    """A deployment whose processes run; they are restarted when an earlier test stopped them."""
    if not service_processes.serve.is_running:
        service_processes.restart()
    until(service_processes.is_ready, what=service_processes.serve.log)
    return service_processes.deployment


def complete_interrupted_run(
    deployment: Deployment, name: str, interrupt: Callable[[], None]
) -> str:
    """Run a benchmark, call `interrupt` in the middle, and return the run ID after completion."""
    deployment.upload(f"gate:{name}")
    run_id = deployment.start(f"gate:{name}")
    until(deployment.programs.gate(name).is_reached)
    interrupt()
    deployment.programs.gate(name).open()
    deployment.completed_run(run_id)
    return run_id


def test_killed_database__the_run_completes_after_a_restart(
    service_processes: ServiceProcesses, deployment: Deployment
) -> None:
    def end(number: signal.Signals) -> None:
        ended = postmaster_pid(service_processes)
        os.kill(ended, number)
        until(lambda: not lives(ended))
        until(service_processes.is_ready, what=service_processes.serve.log)

    runs = [
        complete_interrupted_run(deployment, "killed-database", lambda: end(signal.SIGKILL)),
        # Ended in order, as by an operator.
        complete_interrupted_run(deployment, "ended-database", lambda: end(signal.SIGINT)),
    ]

    killed, ended = (deployment.database.stored_run(run_id) for run_id in runs)
    assert ended == killed
    assert len({row[0] for row in killed.results}) == len(killed.results) == TRACES


@pytest.mark.prove
def test_serve__database_that_returns_on_another_port_is_found(
    tmp_path: Path, metric_pool: ProcessPool
) -> None:
    """Another program takes its port while it is down."""
    with running_processes(tmp_path, metric_pool) as service_processes:
        deployment = service_processes.deployment
        until(service_processes.is_ready, what=service_processes.serve.log)
        port = EmbeddedPostgres(service_processes.data_dir).status().port
        assert port is not None
        with socket.socket() as other_program:
            # Connections of the database may still be in TIME_WAIT.
            other_program.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with paused(service_processes.serve.pid):  # the owner cannot start it again
                ended = postmaster_pid(service_processes)
                os.kill(ended, signal.SIGINT)
                until(lambda: not lives(ended) and is_free(port))
                other_program.bind((HOST, port))
                other_program.listen()
                until(lambda: not service_processes.is_ready())

            until(service_processes.is_ready, what=service_processes.serve.log)
            deployment.upload("moved")
            # By a worker and an API with the new port; the test itself would read from the old one.
            path = f"/benchmark-runs/{deployment.start('moved')}"
            until(
                lambda: deployment.service.get(path)["status"] == "COMPLETED",
                what=service_processes.serve.log,
            )


@contextmanager
def paused(pid: int) -> Iterator[None]:
    """The process does nothing until the block ends."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_serve__killed_worker_is_restarted_and_its_run_completes(
    service_processes: ServiceProcesses, deployment: Deployment
) -> None:
    before = service_processes.child("worker")

    complete_interrupted_run(deployment, "killed-worker", lambda: os.kill(before, signal.SIGKILL))

    assert service_processes.child("worker") != before
    assert "restarting it" in service_processes.serve.log


@contextmanager
def only(pid: int, processes: list[int]) -> Iterator[None]:
    """The other processes are suspended until the block ends."""
    suspended = [process for process in processes if process != pid]
    for process in suspended:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in suspended:
            os.kill(process, signal.SIGCONT)


def api_processes(service_processes: ServiceProcesses) -> list[int]:
    """Both API processes, once both exist."""
    pids: list[int] = []

    def both_exist() -> bool:
        pids[:] = children_named(service_processes.serve.pid, "api")
        return len(pids) == 2

    until(both_exist, what=service_processes.serve.log)
    return pids


def status_of_agents(service: Service, key: str) -> int:
    """The status of a request on a connection of its own."""
    url = f"{service.client.base_url}/api/v1/agents"
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.get(
        url, headers=headers, trust_env=False, verify=False, timeout=LIVENESS_S
    ).status_code


def test_api_processes__each_answers_and_none_knows_a_revoked_key(
    service_processes: ServiceProcesses, deployment: Deployment
) -> None:
    service = deployment.service
    pids = api_processes(service_processes)
    created = service.post("/keys", {"name": "short", "role": "read"})

    for pid in pids:
        with only(pid, pids):
            assert status_of_agents(service, created["token"]) == 200
    service.client.delete(f"/api/v1/keys/{created['id']}").raise_for_status()

    for pid in pids:
        with only(pid, pids):
            # Each process remembers a key for less than a second.
            until(lambda: status_of_agents(service, created["token"]) == 401)


def test_api_processes__a_killed_one_is_restarted_while_the_other_answers(
    service_processes: ServiceProcesses, deployment: Deployment
) -> None:
    service = deployment.service
    killed, other = api_processes(service_processes)
    key = service.client.headers["Authorization"].removeprefix("Bearer ")

    os.kill(killed, signal.SIGKILL)

    assert status_of_agents(service, key) == 200
    until(lambda: killed not in (pids := api_processes(service_processes)) and other in pids)
    restarted = api_processes(service_processes)
    new = next(pid for pid in restarted if pid != other)
    with only(new, restarted):
        # The connection waits in the shared socket until the new process accepts it.
        assert status_of_agents(service, key) == 200


def test_serve__children_of_a_killed_service_end_and_the_data_remains(
    service_processes: ServiceProcesses, deployment: Deployment
) -> None:
    run_id = complete_interrupted_run(deployment, "before-the-kill", lambda: None)
    children, postmaster = (
        children_of(service_processes.serve.pid),
        postmaster_pid(service_processes),
    )

    service_processes.serve.kill()

    until(lambda: not any(map(lives, children)), what=str(children))
    assert lives(postmaster)
    service_processes.restart()
    assert postmaster_pid(service_processes) == postmaster
    assert deployment.service.get(f"/benchmark-runs/{run_id}")["status"] == "COMPLETED"


def test_serve__says_what_another_terminal_sets(
    service_processes: ServiceProcesses, deployment: Deployment, tmp_path: Path
) -> None:
    [export] = re.findall(r"another terminal: (export .*)", service_processes.serve.log)
    environment = {"PATH": f"{forked_programs()}:/usr/bin:/bin", "HOME": str(tmp_path)}
    done = run_command(f"{export}; mosaico keys list", environment, tmp_path)
    assert done.returncode == 0, done.stderr


def test_serve__second_service_on_a_used_port_names_the_port_and_exits(
    service_processes: ServiceProcesses, deployment: Deployment
) -> None:
    second = service_processes.programs.start("serve", MOSAICO_PORT=str(service_processes.port))

    # EX_UNAVAILABLE of sysexits.h.
    assert second.wait_for_exit() == 69
    assert f"port {service_processes.port}" in second.log
    assert "MOSAICO_PORT" in second.log
    assert "Traceback" not in second.log
    assert service_processes.is_ready()


def test_serve__second_service_on_the_same_data_is_refused(
    service_processes: ServiceProcesses, deployment: Deployment
) -> None:
    second = service_processes.programs.start("serve", MOSAICO_PORT=str(free_port()))

    # EX_CANTCREAT of sysexits.h.
    assert second.wait_for_exit() == 73
    assert "owns the database" in second.log
    assert "Traceback" not in second.log
    assert service_processes.is_ready()


def test_serve__sigterm_ends_every_process(
    service_processes: ServiceProcesses, deployment: Deployment
) -> None:
    children = children_of(service_processes.serve.pid)
    postmaster = postmaster_pid(service_processes)

    assert len(service_processes.processes()) > len(children)

    service_processes.serve.send(signal.SIGTERM)

    assert service_processes.serve.wait_for_exit() == 0, service_processes.serve.log
    assert not lives(postmaster)
    assert not any(map(lives, children))
    until(lambda: not service_processes.processes(), what=str(service_processes.processes()))
    assert service_processes.serve.log.rstrip().endswith("stopped")


def test_serve__log_contains_no_secret(service_processes: ServiceProcesses) -> None:
    key = read_admin_key(service_processes.data_dir)
    password = urlsplit(service_processes.deployment.database.url).password
    assert password
    logs = "".join(program.log for program in service_processes.programs.processes)

    assert "MOSAICO runs at" in logs
    for secret in (key, password, *_file_secrets(service_processes.data_dir)):
        assert secret not in logs


def _file_secrets(data_dir: Path) -> list[str]:
    files = [path for path in data_dir.glob("*") if path.is_file() and path.stat().st_size < 500]
    # Shorter texts are ports, versions and process IDs, which may occur in a log.
    return [text for path in files if len(text := path.read_text().strip()) > 16]
