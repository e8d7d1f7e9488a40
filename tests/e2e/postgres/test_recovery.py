"""Recovery after kills of the server or of its owner, without loss of committed rows."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from mosaico.postgres import launch
from mosaico.postgres.data_folder import DatabaseFolder, embedded_postgres_dir
from mosaico.postgres.postmaster import find_postmaster, lock_file
from mosaico.postgres.programs import server_account
from mosaico.postgres.server import EmbeddedPostgres
from tests.e2e.postgres.conftest import StartOwner
from tests.support.postgres import superuser_url_of
from tests.support.waiting import LIVENESS_S, until

# A subreaper gets the orphaned server as its child, and never waits for it.
STARTER_THAT_KEEPS_ZOMBIES = """
import ctypes, sys
from pathlib import Path
from mosaico.postgres.server import EmbeddedPostgres
PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
print(EmbeddedPostgres(Path(sys.argv[1]), durable=False).start(), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def folder(data_dir: Path) -> DatabaseFolder:
    return DatabaseFolder(embedded_postgres_dir(data_dir))


def kill_server(postgres: EmbeddedPostgres, number: signal.Signals = signal.SIGKILL) -> int:
    pid = postgres.status().pid
    assert pid is not None
    os.kill(pid, number)
    return pid


def is_stopping(folder: DatabaseFolder) -> bool:
    postmaster = find_postmaster(folder.cluster)
    return postmaster is not None and postmaster.stopping


def insert(connection: psycopg.Connection, number: int) -> None:
    connection.execute("INSERT INTO numbers VALUES (%s)", [number])
    connection.commit()


def test_revive__restarts_a_killed_server_with_every_committed_row(
    data_dir: Path,
) -> None:
    postgres = EmbeddedPostgres(data_dir)  # durable, as users have it
    with postgres.own() as url:
        with psycopg.connect(url) as connection:
            assert connection.execute("SHOW fsync").fetchone() == ("on",)
            connection.execute("CREATE TABLE numbers (number int)")
            for number in range(20):
                insert(connection, number)
            connection.execute("INSERT INTO numbers VALUES (99)")  # never committed
            kill_server(postgres)
            connection.close()
        until(postgres.revive)
        assert postgres.url() == url
        with psycopg.connect(url) as connection:
            rows = connection.execute("SELECT number FROM numbers ORDER BY number").fetchall()
        assert rows == [(number,) for number in range(20)]
        assert not postgres.revive()


def test_start__restarts_a_server_that_was_just_killed(postgres: EmbeddedPostgres) -> None:
    url = postgres.start()
    with psycopg.connect(url):
        killed = kill_server(postgres)
        assert postgres.start() == url
        assert postgres.status().pid != killed


def test_revive__ends_sessions_that_outlive_the_killed_server(
    postgres: EmbeddedPostgres,
) -> None:
    hour = "DO $$ BEGIN LOOP END LOOP; END $$"  # never looks up by itself
    with postgres.own() as url:
        connection = psycopg.connect(url)
        connection.pgconn.send_query(hour.encode())
        connection.pgconn.flush()
        with psycopg.connect(superuser_url_of(postgres)) as watcher:
            until(
                lambda: (
                    watcher.execute(
                        "SELECT 1 FROM pg_stat_activity WHERE query = %s AND state = 'active'",
                        [hour],
                    ).fetchone()
                    is not None
                )
            )
        kill_server(postgres)
        until(postgres.revive)
        assert postgres.url() == url
        connection.close()


# After SIGTERM and SIGINT Postgres ends in order and leaves no trace of a crash; after SIGTERM not before
# its clients leave.
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_keep_alive__restarts_a_server_that_a_signal_ended(
    postgres: EmbeddedPostgres, number: signal.Signals
) -> None:
    with postgres.own() as url, psycopg.connect(url), kept_alive(postgres, url):
        ended = kill_server(postgres, number)
        until(lambda: postgres.status().running and postgres.status().pid != ended)


def test_start__restarts_a_server_that_waits_for_its_clients_to_leave(
    postgres: EmbeddedPostgres, folder: DatabaseFolder
) -> None:
    with psycopg.connect(postgres.start()):
        stopping = kill_server(postgres, signal.SIGTERM)
        until(lambda: is_stopping(folder))

        postgres.start()
        assert postgres.status().running
        assert postgres.status().pid != stopping


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux adopts orphans on demand")
def test_find_postmaster__zombie_is_not_a_running_server(
    postgres: EmbeddedPostgres, folder: DatabaseFolder, start_owner: StartOwner
) -> None:
    """As in a container whose first process does not bury its dead."""
    url = start_owner(STARTER_THAT_KEEPS_ZOMBIES).read_line()
    zombie = kill_server(postgres)
    assert postgres.start() == url
    os.kill(zombie, 0)  # its number is still taken
    postmaster = find_postmaster(folder.cluster)
    assert postmaster is not None
    assert postmaster.pid != zombie


def test_own__ignores_another_process_with_the_old_process_id(
    postgres: EmbeddedPostgres, folder: DatabaseFolder
) -> None:
    """As after a restart of the machine: Postgres itself would refuse to start."""
    postgres.start()
    lock_file_lines = lock_file(folder.cluster).read_text().splitlines()
    postgres.stop()
    with UnrelatedProcess(folder) as stranger:
        lock_file(folder.cluster).write_text(
            "\n".join([str(stranger.pid), *lock_file_lines[1:]]) + "\n"
        )
        assert not postgres.status().running
        with postgres.own():
            assert postgres.status().running
        assert stranger.poll() is None


def test_own__copy_of_a_running_cluster_gets_its_own_server(
    postgres: EmbeddedPostgres, folder: DatabaseFolder, tmp_path: Path
) -> None:
    postgres.start()
    postgres.stop()
    copied = DatabaseFolder(tmp_path / "copy" / "postgres")
    shutil.copytree(folder.path, copied.path)
    with postgres.own() as url:
        shutil.copy(lock_file(folder.cluster), lock_file(copied.cluster))
        account = folder.cluster.stat().st_uid
        # A copy made by root would belong to root, as whom Postgres does not run.
        for path in (copied.cluster, *copied.cluster.rglob("*"), copied.log):
            os.chown(path, account, -1)
        shutil.rmtree(copied.log)
        copy = EmbeddedPostgres(tmp_path / "copy", durable=False)
        with copy.own() as url_of_copy:
            assert url_of_copy != url
            assert copy.status().pid != postgres.status().pid


def test_own__completes_a_first_start_that_was_killed(
    new_server: EmbeddedPostgres, folder: DatabaseFolder, start_owner: StartOwner
) -> None:
    require_start_after_kill(new_server, folder, start_owner, "data.new/PG_VERSION")


# What the start of a cluster that exists writes, which the first start does last.
@pytest.mark.parametrize("moment", ["log/startup.log", "data/postmaster.pid"])
def test_own__completes_a_start_that_was_killed(
    copied_server: EmbeddedPostgres, folder: DatabaseFolder, start_owner: StartOwner, moment: str
) -> None:
    shutil.rmtree(folder.log)
    require_start_after_kill(copied_server, folder, start_owner, moment)


def require_start_after_kill(
    postgres: EmbeddedPostgres, folder: DatabaseFolder, start_owner: StartOwner, moment: str
) -> None:
    """Kill the owner of a starting server as soon as a file exists; the next owner has a server."""
    owner = start_owner()
    until((folder.path / moment).exists)
    owner.kill()
    with postgres.own() as url, psycopg.connect(url):
        assert postgres.status().owner == os.getpid()
    assert not postgres.status().running


def test_revive__server_without_its_files_is_not_replaced_by_an_empty_one(
    copied_server: EmbeddedPostgres, folder: DatabaseFolder
) -> None:
    with copied_server.own():
        kill_server(copied_server, signal.SIGINT)
        until(lambda: find_postmaster(folder.cluster) is None)
        folder.cluster.rename(folder.path / "elsewhere")
        assert not copied_server.revive()
        assert not folder.cluster.exists()


def test_keep_alive__owner_learns_that_the_server_has_another_port(
    postgres: EmbeddedPostgres,
) -> None:
    with postgres.own() as url:
        port = postgres.status().port
        assert port is not None
        kill_server(postgres, signal.SIGINT)
        until(lambda: launch.is_free(port))
        moved = threading.Event()
        with taken_port(port), kept_alive(postgres, url, on_move=moved.set):
            assert moved.wait(LIVENESS_S)
        assert postgres.status().port != port
        assert postgres.url() != url


@contextmanager
def kept_alive(
    postgres: EmbeddedPostgres, url: str, on_move: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """The server is restarted whenever it ends, until the block ends."""
    enough = threading.Event()
    keeper = threading.Thread(
        target=postgres.keep_alive,
        args=(url, enough),
        kwargs={"on_move": on_move, "every_seconds": 0.05},
    )
    keeper.start()
    try:
        yield
    finally:
        enough.set()
        keeper.join()


@contextmanager
def taken_port(port: int) -> Iterator[None]:
    """Another program listens on the port."""
    with socket.socket() as squatter:
        # Connections of the stopped server may still be in TIME_WAIT.
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind((launch.HOST, port))
        squatter.listen()
        yield


class UnrelatedProcess:
    """A living process of the account that the server runs as."""

    def __init__(self, folder: DatabaseFolder) -> None:
        self.account = server_account(folder.cluster)

    def __enter__(self) -> subprocess.Popen[bytes]:
        self.process = subprocess.Popen(
            ["cat"],
            stdin=subprocess.PIPE,
            user=self.account.uid if self.account else None,
        )
        return self.process

    def __exit__(self, *exception: object) -> None:
        self.process.communicate(timeout=LIVENESS_S)


def test_own__port_in_use_is_replaced(postgres: EmbeddedPostgres) -> None:
    postgres.start()
    port = postgres.status().port
    assert port is not None
    postgres.stop()
    with taken_port(port), postgres.own() as url, psycopg.connect(url):
        assert postgres.status().port != port
