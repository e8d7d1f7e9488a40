"""`mosaico serve` in processes of its own, and ways to end them."""

import base64
import contextlib
import os
import random
import secrets
import signal
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from mosaico.core.db import Database
from mosaico.core.encryption import SecretBox
from mosaico.core.resources import Resources
from mosaico.jobs.process_pool import ProcessPool
from mosaico.postgres.server import EmbeddedPostgres
from tests.support.deployment import Deployment
from tests.support.processes import (
    LIVENESS_S,
    Program,
    Programs,
    child_named,
    children_of,
    descendants_of,
    lives,
    processes_of,
    programs,
    until,
)
from tests.support.service import Service
from tests.support.stored import DatabaseReader

# Not of those that the system gives to outgoing connections (Linux: from 32768): such a connection could
# take the port before the service does, or, while a test waits for the service, connect to itself.
PORTS = range(20_000, 32_000)


def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens, for a service that is started soon."""
    for port in random.sample(PORTS, len(PORTS)):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("every port is in use")


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
        """Every process that uses the data folder: database, API, workers."""
        # Forked processes have the environment of their parent.
        forked = {
            pid
            for program in self.programs.processes
            if program.is_running
            for pid in (program.pid, *descendants_of(program.pid))
        }
        return sorted((forked | {*processes_of(str(self.data_dir))}) - {os.getpid()})

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


@contextlib.contextmanager
def running_processes(
    folder: Path, pool: ProcessPool, **environment: str
) -> Iterator[ServiceProcesses]:
    """`mosaico serve` with a benchmark, on a data folder of its own."""
    port = free_port()
    with programs(folder, **environment) as commands:
        serve = start_serve(commands, port)
        url = EmbeddedPostgres(folder / "data").url()
        resources = Resources(
            db=Database(url, pool_size=2),
            secrets=SecretBox.from_keys([base64.b64encode(secrets.token_bytes(32)).decode()]),
            data_dir=folder / "data",
        )
        headers = {"Authorization": f"Bearer {read_admin_key(folder / 'data')}"}
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers=headers,
            trust_env=False,
            verify=False,
            timeout=LIVENESS_S,
        ) as client:
            service = Service(client=client, resources=resources, pool=pool)
            service_processes = ServiceProcesses(
                commands, port, serve, Deployment(service, commands, DatabaseReader(url))
            )
            service_processes.deployment.benchmark()
            yield service_processes
        resources.db.dispose()
    EmbeddedPostgres(folder / "data").stop()


def postmaster_pid(service_processes: ServiceProcesses) -> int:
    pid = EmbeddedPostgres(service_processes.data_dir).status().pid
    assert pid is not None
    return pid


def lose_power(service_processes: ServiceProcesses) -> None:
    postmaster = postmaster_pid(service_processes)
    # Stopped first, so that no process sees another one die before its own end.
    pids = [postmaster, *children_of(postmaster), *service_processes.processes()]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        send_to_all(pids, number)
    until(lambda: not any(map(lives, pids)), what=str(pids))


def send_to_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def restart_after_power_loss(service_processes: ServiceProcesses) -> None:
    lose_power(service_processes)
    service_processes.restart()


def kill_postmaster(service_processes: ServiceProcesses) -> None:
    """Kill the postmaster only: `mosaico serve` starts it again."""
    pid = postmaster_pid(service_processes)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not lives(pid))
    until(service_processes.is_ready, what=service_processes.serve.log)
