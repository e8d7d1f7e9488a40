"""One owner starts and stops the server; other processes connect to it."""

import os
import signal
from pathlib import Path

import psycopg
import pytest

from mosaico.postgres.data_folder import DatabaseFolder, FileLock, embedded_postgres_dir
from mosaico.postgres.errors import BlockedStart, DatabaseHasOwner, DatabaseNotRunning
from mosaico.postgres.server import EmbeddedPostgres
from tests.e2e.postgres.conftest import StartOwner
from tests.support.waiting import LIVENESS_S

OWNER_WITH_SPAWNED_CHILD = """
import subprocess, sys
from pathlib import Path
from mosaico.postgres.server import EmbeddedPostgres
with EmbeddedPostgres(Path(sys.argv[1]), durable=False).own():
    child = subprocess.Popen(["cat"], close_fds=False)
    print("child", child.pid, flush=True)
    child.wait()
"""


def test_own__server_is_stopped_after_an_error(postgres: EmbeddedPostgres) -> None:
    with pytest.raises(OSError, match="of the caller"), postgres.own():
        raise OSError("of the caller")
    assert not postgres.status().running


def test_own__other_processes_connect_and_are_no_owners(
    postgres: EmbeddedPostgres, start_owner: StartOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mosaico.postgres.data_folder.OWNER_TIMEOUT_S", 0.0)
    owner = start_owner()
    url = owner.read_line()
    assert postgres.url() == url
    assert postgres.status().owner == owner.process.pid

    for operation in (postgres.own().__enter__, postgres.start, postgres.stop):
        with pytest.raises(DatabaseHasOwner, match="mosaico serve"):
            operation()

    with psycopg.connect(url):
        assert postgres.status().running
        assert postgres.count_sessions() == 1
    owner.stop()
    assert postgres.status().owner is None
    assert not postgres.status().running


def test_own__next_owner_uses_and_stops_the_server_of_a_killed_owner(
    postgres: EmbeddedPostgres, start_owner: StartOwner
) -> None:
    owner = start_owner()
    url = owner.read_line()
    pid = postgres.status().pid
    owner.kill()
    assert postgres.status().owner is None
    with postgres.own() as own_url:
        assert (own_url, postgres.status().pid) == (url, pid)
    assert not postgres.status().running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_server__survives_a_signal_to_the_process_group_of_its_owner(
    postgres: EmbeddedPostgres, start_owner: StartOwner, number: signal.Signals
) -> None:
    owner = start_owner()
    owner.read_line()
    os.killpg(owner.process.pid, number)
    owner.process.communicate(timeout=LIVENESS_S)
    assert postgres.status().running


def test_owner__child_of_a_killed_owner_does_not_count(
    postgres: EmbeddedPostgres, start_owner: StartOwner
) -> None:
    owner = start_owner(OWNER_WITH_SPAWNED_CHILD)
    child = int(owner.read_line().removeprefix("child "))
    try:
        assert postgres.status().owner == owner.process.pid
        owner.process.kill()
        owner.process.wait(timeout=LIVENESS_S)
        os.kill(child, 0)  # it lives
        assert postgres.status().owner is None
    finally:
        os.kill(child, signal.SIGKILL)


def test_start__detached_server_runs_until_it_is_stopped(
    postgres: EmbeddedPostgres, start_owner: StartOwner
) -> None:
    url = postgres.start()
    assert postgres.start() == url
    owner = start_owner()
    assert owner.read_line() == url
    owner.stop()
    status = postgres.status()
    assert (status.running, status.detached, status.owner) == (True, True, None)
    assert postgres.stop()
    assert not postgres.stop()
    assert not postgres.status().detached


def test_server__every_process_holds_the_server_lock(
    postgres: EmbeddedPostgres, data_dir: Path
) -> None:
    """What tells that a cluster is in use even where its processes cannot be seen."""
    path = DatabaseFolder(embedded_postgres_dir(data_dir)).server_lock
    with (
        postgres.own(),
        pytest.raises(BlockedStart, match="in use"),
        FileLock(path, timeout=0, error=BlockedStart("in use")),
    ):
        pass
    # The process that writes the log reads to its end: it goes a moment after the server.
    with FileLock(path, timeout=LIVENESS_S, error=BlockedStart("in use")):
        pass


def test_status__contains_everything_but_the_password(
    new_server: EmbeddedPostgres, data_dir: Path
) -> None:
    before = new_server.status()
    assert (before.running, before.pid, before.url, before.version) == (False, None, None, None)
    assert not data_dir.exists()  # asking makes nothing
    with new_server.own() as url:
        status = new_server.status()
        port = psycopg.conninfo.conninfo_to_dict(url)["port"]
    assert status.url == f"postgresql://mosaico@127.0.0.1:{port}/mosaico"
    assert status.port == int(str(port))
    assert (status.version or "").startswith("18.")
    assert status.owner == os.getpid()
    assert status.data_dir == data_dir
    assert new_server.status().version == "18"


def test_url__stopped_server_is_an_error_with_a_remedy(new_server: EmbeddedPostgres) -> None:
    with pytest.raises(DatabaseNotRunning, match="mosaico serve"):
        new_server.url()
    # sysexits: EX_CONFIG.
    assert DatabaseNotRunning.exit_code == 78
