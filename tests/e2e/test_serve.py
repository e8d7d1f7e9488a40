"""`mosaico serve` with real processes: killed processes are restarted, and a stop ends them all."""

import base64
import contextlib
import os
import secrets
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from app.core.db import Database
from app.core.encryption import SecretBox
from app.core.resources import Resources
from app.jobs.process_pool import ProcessPool
from app.postgres.server import EmbeddedPostgres
from tests.support.deployment import TRACES, Deployment
from tests.support.processes import (
    LIVENESS_S,
    Program,
    Programs,
    child_named,
    children_of,
    lives,
    processes_of,
    programs,
    until,
)
from tests.support.service import Service
from tests.support.stored import DatabaseReader

POWER_LOSSES = 20

# The processes start once, for all tests of this file.
pytestmark = pytest.mark.xdist_group("serve")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@dataclass(slots=True)
class ServiceProcesses:
    """A data folder and the `serve` process that uses it."""

    programs: Programs
    port: int
    serve: Program
    deployment: Deployment

    @property
    def data_dir(self) -> Path:
        return self.programs.folder / "data"

    def restart(self) -> None:
        """Start the service again on the same data."""
        self.serve = start_serve(self.programs, self.port)

    def child(self, name: str) -> int:
        return child_named(self.serve.pid, name)

    def processes(self) -> list[int]:
        """Every process that uses the data folder: database, API, worker."""
        return [pid for pid in processes_of(str(self.data_dir)) if pid != os.getpid()]

    def is_ready(self) -> bool:
        try:
            address = f"http://127.0.0.1:{self.port}/readyz"
            return httpx.get(address, trust_env=False, verify=False, timeout=LIVENESS_S).is_success
        except httpx.HTTPError:
            return False


def start_serve(programs: Programs, port: int) -> Program:
    serve = programs.start("serve", MOSAICO_PORT=str(port))
    serve.wait_for_output(f"MOSAICO runs at http://127.0.0.1:{port}")
    return serve


def read_admin_key(data_dir: Path) -> str:
    [key_file] = [path for path in data_dir.glob("*") if "admin" in path.name]
    assert key_file.stat().st_mode & 0o777 == 0o600
    return key_file.read_text().strip()


@pytest.fixture(scope="module")
def service_processes(
    tmp_path_factory: pytest.TempPathFactory, metric_pool: ProcessPool
) -> Iterator[ServiceProcesses]:
    folder, port = tmp_path_factory.mktemp("serve"), free_port()
    with programs(folder) as commands:
        serve = start_serve(commands, port)
        url = EmbeddedPostgres(folder / "data").url()
        resources = Resources(
            db=Database(url, pool_size=2),
            secrets=SecretBox.from_keys([base64.b64encode(secrets.token_bytes(32)).decode()]),
            data_dir=folder / "data",
        )
        headers = {"Authorization": f"Bearer {read_admin_key(folder / 'data')}"}
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False, timeout=30
        ) as client:
            service = Service(client=client, resources=resources, pool=metric_pool)
            service_processes = ServiceProcesses(
                commands, port, serve, Deployment(service, commands, DatabaseReader(url))
            )
            service_processes.deployment.benchmark()
            yield service_processes
        resources.db.dispose()
    EmbeddedPostgres(folder / "data").stop()


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


def postmaster_pid(service_processes: ServiceProcesses) -> int:
    pid = EmbeddedPostgres(service_processes.data_dir).status().pid
    assert pid is not None
    return pid


def restart_database(service_processes: ServiceProcesses) -> None:
    """Stop the database as an operator does, and start it again."""
    server = EmbeddedPostgres(service_processes.data_dir)
    server.stop()
    server.acquire().release()


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
        # Ended in order, as by an operator who does not know `mosaico db stop`.
        complete_interrupted_run(deployment, "ended-database", lambda: end(signal.SIGINT)),
        complete_interrupted_run(
            deployment, "restarted-database", lambda: restart_database(service_processes)
        ),
    ]

    killed, *other_runs = (deployment.database.stored_run(run_id) for run_id in runs)
    assert other_runs == [killed, killed]
    assert len({row[0] for row in killed.results}) == len(killed.results) == TRACES


@pytest.mark.prove
def test_power_loss__a_healthy_run_completes_after_twenty(
    service_processes: ServiceProcesses, deployment: Deployment
) -> None:
    """Every process of the service and of Postgres is killed at once, twenty times in one step."""
    gate = deployment.programs.gate("power-loss")
    deployment.upload("gate:power-loss")
    run_id = deployment.start("gate:power-loss")
    for number in range(POWER_LOSSES):
        until(lambda: is_collecting(deployment, run_id), what=service_processes.serve.log)
        lose_power(service_processes)
        service_processes.restart()
        print(f"  power loss {number + 1} of {POWER_LOSSES}")  # noqa: T201
    gate.open()

    deployment.completed_run(run_id)

    results = deployment.database.stored_run(run_id).results
    assert len({row[0] for row in results}) == len(results) == TRACES


def is_collecting(deployment: Deployment, run_id: str) -> bool:
    query = (
        "SELECT count(*) > 0 FROM procrastinate_jobs"
        " WHERE task_name = 'runs.collect' AND status = 'doing' AND args ->> 'run_id' = %s"
    )
    return bool(deployment.database.value(query, run_id))


def lose_power(service_processes: ServiceProcesses) -> None:
    postmaster = postmaster_pid(service_processes)
    # Stopped first, so that no process sees another one die before its own end.
    pids = [postmaster, *children_of(postmaster), *service_processes.processes()]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
    until(lambda: not any(map(lives, pids)), what=str(pids))


def test_serve__killed_worker_is_restarted_and_its_run_completes(
    service_processes: ServiceProcesses, deployment: Deployment
) -> None:
    before = service_processes.child("worker")

    complete_interrupted_run(deployment, "killed-worker", lambda: os.kill(before, signal.SIGKILL))

    assert service_processes.child("worker") != before
    assert "restarting it" in service_processes.serve.log


def test_serve__killed_api_is_restarted(
    service_processes: ServiceProcesses, deployment: Deployment
) -> None:
    before = service_processes.child("api")

    os.kill(before, signal.SIGKILL)

    until(
        lambda: service_processes.is_ready() and service_processes.child("api") != before,
        what=service_processes.serve.log,
    )


def test_serve__second_service_on_a_used_port_names_the_port_and_exits(
    service_processes: ServiceProcesses, deployment: Deployment
) -> None:
    second = service_processes.programs.start("serve", MOSAICO_PORT=str(service_processes.port))

    assert second.wait_for_exit() == 69
    assert f"port {service_processes.port}" in second.log
    assert "MOSAICO_PORT" in second.log
    assert "Traceback" not in second.log
    assert service_processes.is_ready()


def test_serve__second_service_shares_the_database_and_leaves_it_running(
    service_processes: ServiceProcesses, deployment: Deployment
) -> None:
    port = free_port()
    second = start_serve(service_processes.programs, port)
    agents = httpx.get(
        f"http://127.0.0.1:{port}/api/v1/agents",
        headers=deployment.service.client.headers,
        trust_env=False,
        timeout=LIVENESS_S,
    )
    assert [agent["id"] for agent in agents.json()["items"]] == ["agent-001"]

    second.send(signal.SIGINT)

    assert second.wait_for_exit() == 0, second.log
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
    until(lambda: not lives(postmaster), what="the last child stops the database when it exits")
    service_processes.restart()
    assert deployment.service.get(f"/benchmark-runs/{run_id}")["status"] == "COMPLETED"


def test_serve__log_contains_no_secret(
    service_processes: ServiceProcesses, deployment: Deployment
) -> None:
    key = read_admin_key(service_processes.data_dir)
    password = deployment.database.url.partition("://")[2].partition(":")[2].partition("@")[0]
    logs = "".join(program.log for program in service_processes.programs.processes)

    assert "MOSAICO runs at" in logs
    for secret in (key, password, *_file_secrets(service_processes.data_dir)):
        assert secret not in logs


def _file_secrets(data_dir: Path) -> list[str]:
    files = [path for path in data_dir.glob("*") if path.is_file() and path.stat().st_size < 500]
    return [text for path in files if len(text := path.read_text().strip()) > 16]
