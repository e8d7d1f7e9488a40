"""`mosaico serve` as a tree of real processes: whoever of it dies, the work goes on or all ends."""

import base64
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

# One process of tests starts the tree, and once.
pytestmark = pytest.mark.xdist_group("serve")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@dataclass(slots=True)
class Tree:
    """One data folder and the `serve` that runs on it now."""

    programs: Programs
    port: int
    serve: Program
    deployment: Deployment

    @property
    def data_dir(self) -> Path:
        return self.programs.folder / "data"

    def again(self) -> None:
        """Start the service once more on the same data."""
        self.serve = started(self.programs, self.port)

    def child(self, name: str) -> int:
        return child_named(self.serve.pid, name)

    def processes(self) -> list[int]:
        """All that were started with the data folder of this tree: database, API, worker."""
        return [pid for pid in processes_of(str(self.data_dir)) if pid != os.getpid()]

    def answers(self) -> bool:
        try:
            address = f"http://127.0.0.1:{self.port}/readyz"
            return httpx.get(address, trust_env=False, verify=False).is_success
        except httpx.HTTPError:
            return False


def started(programs: Programs, port: int) -> Program:
    serve = programs.start("serve", MOSAICO_PORT=str(port))
    serve.said(f"MOSAICO runs at http://127.0.0.1:{port}")
    return serve


def key_in(data_dir: Path) -> str:
    [key_file] = [path for path in data_dir.glob("*") if "admin" in path.name]
    assert key_file.stat().st_mode & 0o777 == 0o600
    return key_file.read_text().strip()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory, metric_pool: ProcessPool) -> Iterator[Tree]:
    folder, port = tmp_path_factory.mktemp("tree"), free_port()
    with programs(folder) as commands:
        serve = started(commands, port)
        url = EmbeddedPostgres(folder / "data").url()
        resources = Resources(
            db=Database(url, pool_size=2),
            secrets=SecretBox.from_keys([base64.b64encode(secrets.token_bytes(32)).decode()]),
            data_dir=folder / "data",
        )
        headers = {"Authorization": f"Bearer {key_in(folder / 'data')}"}
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False, timeout=30
        ) as client:
            service = Service(client=client, resources=resources, pool=metric_pool)
            tree = Tree(commands, port, serve, Deployment(service, commands, DatabaseReader(url)))
            tree.deployment.benchmark()
            yield tree
        resources.db.dispose()
    EmbeddedPostgres(folder / "data").stop()


@pytest.fixture
def deployment(tree: Tree) -> Deployment:
    """The service of the tree, which runs."""
    if not tree.serve.runs:
        tree.again()
    until(tree.answers, what=tree.serve.log)
    return tree.deployment


def interrupted_run(deployment: Deployment, name: str, interrupt: Callable[[], None]) -> str:
    """A run in the middle of which something happens; its id once it has completed."""
    deployment.upload(f"gate:{name}")
    run_id = deployment.start(f"gate:{name}")
    until(deployment.programs.gate(name).was_reached)
    interrupt()
    deployment.programs.gate(name).open()
    deployment.completed_run(run_id)
    return run_id


def postmaster_of(tree: Tree) -> int:
    pid = EmbeddedPostgres(tree.data_dir).status().pid
    assert pid is not None
    return pid


def restart(tree: Tree) -> None:
    """Stop the database as an operator does, and start it again."""
    server = EmbeddedPostgres(tree.data_dir)
    server.stop()
    server.acquire().release()


def test_killed_database__the_run_completes_after_a_restart(
    tree: Tree, deployment: Deployment
) -> None:
    def kill() -> None:
        os.kill(postmaster_of(tree), signal.SIGKILL)
        until(tree.answers, what=tree.serve.log)

    runs = [
        interrupted_run(deployment, "killed-database", kill),
        interrupted_run(deployment, "restarted-database", lambda: restart(tree)),
    ]

    killed, restarted = (deployment.rows.stored(run_id) for run_id in runs)
    assert killed == restarted
    assert len({row[0] for row in killed.results}) == len(killed.results) == TRACES


def test_serve__killed_worker_is_restarted_and_its_run_completes(
    tree: Tree, deployment: Deployment
) -> None:
    before = tree.child("worker")

    interrupted_run(deployment, "killed-worker", lambda: os.kill(before, signal.SIGKILL))

    assert tree.child("worker") != before
    assert "restarting it" in tree.serve.log


def test_serve__killed_api_is_restarted(tree: Tree, deployment: Deployment) -> None:
    before = tree.child("api")

    os.kill(before, signal.SIGKILL)

    until(lambda: tree.answers() and tree.child("api") != before, what=tree.serve.log)


def test_serve__second_service_on_a_used_port_names_the_port_and_exits(
    tree: Tree, deployment: Deployment
) -> None:
    second = tree.programs.start("serve", MOSAICO_PORT=str(tree.port))

    assert second.ended() == 69
    assert f"port {tree.port}" in second.log
    assert "MOSAICO_PORT" in second.log
    assert "Traceback" not in second.log
    assert tree.answers()


def test_serve__second_service_shares_the_database_and_leaves_it_running(
    tree: Tree, deployment: Deployment
) -> None:
    port = free_port()
    second = started(tree.programs, port)
    agents = httpx.get(
        f"http://127.0.0.1:{port}/api/v1/agents",
        headers=deployment.service.client.headers,
        trust_env=False,
    )
    assert [agent["id"] for agent in agents.json()["items"]] == ["agent-001"]

    second.send(signal.SIGINT)

    assert second.ended() == 0, second.log
    assert tree.answers()


def test_serve__sigterm_ends_every_process(tree: Tree, deployment: Deployment) -> None:
    children = children_of(tree.serve.pid)
    postmaster = postmaster_of(tree)

    assert len(tree.processes()) > len(children)

    tree.serve.send(signal.SIGTERM)

    assert tree.serve.ended() == 0, tree.serve.log
    assert not lives(postmaster)
    assert not any(map(lives, children))
    until(lambda: not tree.processes(), what=str(tree.processes()))
    assert tree.serve.log.rstrip().endswith("stopped")


def test_serve__children_of_a_killed_service_end_and_the_data_remains(
    tree: Tree, deployment: Deployment
) -> None:
    run_id = interrupted_run(deployment, "before-the-kill", lambda: None)
    children, postmaster = children_of(tree.serve.pid), postmaster_of(tree)

    tree.serve.kill()

    until(lambda: not any(map(lives, children)), what=str(children))
    until(lambda: not lives(postmaster), what="the last child stops the database as it leaves")
    tree.again()
    assert deployment.service.get(f"/benchmark-runs/{run_id}")["status"] == "COMPLETED"


def test_serve__log_contains_no_secret(tree: Tree, deployment: Deployment) -> None:
    key = key_in(tree.data_dir)
    password = deployment.rows.url.partition("://")[2].partition(":")[2].partition("@")[0]
    logs = "".join(program.log for program in tree.programs.started)

    assert "MOSAICO runs at" in logs
    for secret in (key, password, *_file_secrets(tree.data_dir)):
        assert secret not in logs


def _file_secrets(data_dir: Path) -> list[str]:
    files = [path for path in data_dir.glob("*") if path.is_file() and path.stat().st_size < 500]
    return [text for path in files if len(text := path.read_text().strip()) > 16]
