"""Several owners share one server; the last one stops it."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from mosaico.postgres.data_folder import (
    DatabaseFolder,
    FileLock,
    StillLocked,
    embedded_postgres_dir,
)
from mosaico.postgres.errors import DatabaseNotRunning
from mosaico.postgres.server import EmbeddedPostgres
from tests.integration.postgres.conftest import OwnerProcess, until

StartOwner = Callable[..., OwnerProcess]

OWNER_WITH_A_FORKED_CHILD = """
import os, sys
from pathlib import Path
from mosaico.postgres.server import EmbeddedPostgres
running = EmbeddedPostgres(Path(sys.argv[1]), durable=False).acquire()
if os.fork() == 0:
    running.release()                         # not its owner: nothing happens
    print("child", os.getpid(), flush=True)
    sys.stdin.readline()
    os._exit(0)
os.waitpid(-1, 0)
"""

OWNER_WITH_SPAWNED_CHILD = """
import subprocess, sys
from pathlib import Path
from mosaico.postgres.server import EmbeddedPostgres
running = EmbeddedPostgres(Path(sys.argv[1]), durable=False).acquire()
child = subprocess.Popen(["cat"], close_fds=False)
print("child", child.pid, flush=True)
child.wait()
"""


def test_release__last_owner_stops_the_server(postgres: EmbeddedPostgres) -> None:
    first, second = postgres.acquire(), postgres.acquire()
    assert first.url == second.url == postgres.url()
    first.release()
    assert postgres.status().running
    second.release()
    assert not postgres.status().running


def test_release__second_call_has_no_effect(postgres: EmbeddedPostgres) -> None:
    with postgres.acquire() as running, postgres.acquire():
        running.release()
        running.release()
        assert postgres.status().running


def test_acquire__four_concurrent_processes_share_one_server(
    new_server: EmbeddedPostgres, start_owner: StartOwner
) -> None:
    owners = [start_owner() for _ in range(4)]
    urls = {owner.read_line() for owner in owners}
    assert urls == {new_server.url()}
    assert new_server.status().owners == tuple(sorted(owner.process.pid for owner in owners))
    for owner in owners:
        owner.release()
    assert not new_server.status().running


def test_acquire__next_owner_adopts_and_stops_the_server_of_a_killed_owner(
    postgres: EmbeddedPostgres, start_owner: StartOwner
) -> None:
    owner = start_owner()
    url = owner.read_line()
    pid = postgres.status().pid
    owner.kill()
    assert postgres.status().owners == ()
    with postgres.acquire() as running:
        assert (running.url, postgres.status().pid) == (url, pid)
    assert not postgres.status().running


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_server__survives_a_terminal_signal_to_an_owner(
    postgres: EmbeddedPostgres, start_owner: StartOwner, number: signal.Signals
) -> None:
    with postgres.acquire() as running:  # so that an owner that unwinds on Ctrl-C is not the last
        owner = start_owner()
        owner.read_line()
        os.killpg(owner.process.pid, number)
        owner.process.communicate(timeout=60)
        with psycopg.connect(running.url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_server__survives_a_signal_to_the_process_group_of_its_owner(
    postgres: EmbeddedPostgres, start_owner: StartOwner
) -> None:
    owner = start_owner()
    owner.read_line()
    os.killpg(owner.process.pid, signal.SIGTERM)
    owner.process.communicate(timeout=60)
    assert postgres.status().running


@pytest.mark.parametrize("program", [OWNER_WITH_A_FORKED_CHILD, OWNER_WITH_SPAWNED_CHILD])
def test_owners__children_of_an_owner_do_not_count(
    postgres: EmbeddedPostgres, start_owner: StartOwner, program: str
) -> None:
    owner = start_owner(program)
    child = int(owner.read_line().removeprefix("child "))
    try:
        assert postgres.status().owners == (owner.process.pid,)
        owner.process.kill()
        owner.process.wait(timeout=60)
        os.kill(child, 0)  # it lives
        assert postgres.status().owners == ()
    finally:
        os.kill(child, signal.SIGKILL)


def test_start__detached_server_runs_until_it_is_stopped(
    postgres: EmbeddedPostgres, start_owner: StartOwner
) -> None:
    url = postgres.start()
    assert postgres.start() == url
    owner = start_owner()
    assert owner.read_line() == url
    owner.release()
    status = postgres.status()
    assert (status.running, status.detached, status.owners) == (True, True, ())
    assert postgres.stop()
    assert not postgres.stop()
    assert not postgres.status().detached


def test_stop__ends_a_server_in_use_and_logs_its_owners(
    postgres: EmbeddedPostgres, caplog: pytest.LogCaptureFixture
) -> None:
    with postgres.acquire() as running, psycopg.connect(running.url) as connection:
        assert postgres.stop()
        assert str(os.getpid()) in caplog.text
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert not postgres.status().running


def test_start__keeps_the_port(postgres: EmbeddedPostgres) -> None:
    url = postgres.start()
    postgres.stop()
    assert postgres.start() == url


def test_server__every_process_holds_the_server_lock(
    postgres: EmbeddedPostgres, data_dir: Path
) -> None:
    """What tells that a cluster is in use even where its processes cannot be seen."""
    path = DatabaseFolder(path=embedded_postgres_dir(data_dir)).server_lock
    with (
        postgres.acquire(),
        pytest.raises(StillLocked, match="in use"),
        FileLock(path, timeout=0, complaint="in use"),
    ):
        pass
    # The process that writes the log reads to its end: it goes a moment after the server.
    with FileLock(path, timeout=60, complaint="in use"):
        pass


def test_status__contains_everything_but_the_password(
    new_server: EmbeddedPostgres, data_dir: Path
) -> None:
    before = new_server.status()
    assert (before.running, before.pid, before.url, before.version) == (False, None, None, None)
    assert not data_dir.exists()  # asking makes nothing
    with new_server.acquire() as running:
        status = new_server.status()
        port = psycopg.conninfo.conninfo_to_dict(running.url)["port"]
    assert status.url == f"postgresql://mosaico@127.0.0.1:{port}/mosaico"
    assert status.port == int(str(port))
    assert (status.version or "").startswith("18.")
    assert status.owners == (os.getpid(),)
    assert status.data_dir == data_dir
    assert new_server.status().version == "18"


def test_url__stopped_server_is_an_error_with_a_remedy(
    new_server: EmbeddedPostgres,
) -> None:
    with pytest.raises(DatabaseNotRunning, match="mosaico db start"):
        new_server.url()


def test_release__deleted_folder_is_not_an_error(
    copied_server: EmbeddedPostgres, data_dir: Path
) -> None:
    running = copied_server.acquire()
    pid = copied_server.status().pid
    assert pid is not None
    data_dir.rename(data_dir.with_name("elsewhere"))
    running.release()
    # The fast shutdown of Postgres.
    os.kill(pid, signal.SIGINT)
    until(lambda: not _lives(pid))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
