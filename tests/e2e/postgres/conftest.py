"""Embedded Postgres servers in temporary folders, and processes that own them."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from mosaico.postgres.server import EmbeddedPostgres
from tests.support.postgres import SharedServer, cluster
from tests.support.waiting import LIVENESS_S

OWNER = """
import signal
import sys
from pathlib import Path
from mosaico.postgres.server import EmbeddedPostgres
# As a terminal leaves it: tests may be started with it ignored.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
with EmbeddedPostgres(Path(sys.argv[1]), durable=False).own() as url:
    print(url, flush=True)
    sys.stdin.readline()
"""


class OwnerProcess:
    """Another process that owns the server until it stops it or is killed."""

    def __init__(self, data_dir: Path, program: str = OWNER) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(data_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a group of its own, as a terminal gives
        )

    def read_line(self) -> str:
        """The next line of its output; an owner prints the URL of the server."""
        return _pipe(self.process.stdout).readline().strip()

    def stop(self) -> None:
        self.process.communicate("\n", timeout=LIVENESS_S)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.communicate(timeout=LIVENESS_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(timeout=LIVENESS_S)
        for stream in (self.process.stdin, self.process.stdout):
            _pipe(stream).close()


StartOwner = Callable[..., OwnerProcess]


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    shutil.rmtree(tmp_path, ignore_errors=True)  # a cluster takes 60 MB


@pytest.fixture(scope="session")
def stopped_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder with a cluster that is not running: it is created once, because that takes long."""
    path = tmp_path_factory.mktemp("stopped") / "data"
    with EmbeddedPostgres(path, durable=False).own():
        pass
    yield path
    shutil.rmtree(path)


@pytest.fixture
def postgres(
    new_server: EmbeddedPostgres, data_dir: Path, stopped_cluster: Path
) -> Iterator[EmbeddedPostgres]:
    """A stopped server with an existing cluster; tests must leave its files usable."""
    stopped_cluster.rename(data_dir)
    yield new_server
    new_server.stop()
    data_dir.rename(stopped_cluster)


@pytest.fixture
def copied_server(
    new_server: EmbeddedPostgres, data_dir: Path, stopped_cluster: Path
) -> EmbeddedPostgres:
    """A copy of that server; tests may damage its files."""
    subprocess.run(["cp", "-a", stopped_cluster, data_dir], check=True)
    return new_server


@pytest.fixture
def new_server(data_dir: Path) -> Iterator[EmbeddedPostgres]:
    """A server without a data folder."""
    server = EmbeddedPostgres(data_dir, durable=False)
    yield server
    server.stop()


@pytest.fixture
def start_owner(data_dir: Path) -> Iterator[StartOwner]:
    started: list[OwnerProcess] = []

    def start(program: str = OWNER) -> OwnerProcess:
        started.append(OwnerProcess(data_dir, program))
        return started[-1]

    yield start
    for owner in started:
        owner.close()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[SharedServer]:
    base = tmp_path_factory.getbasetemp()
    with cluster(base if worker_id == "master" else base.parent) as running:
        yield running
