"""Recovery after kills of the server or of its owner, without loss of committed rows."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest

from mosaico.postgres import launch
from mosaico.postgres.data_folder import DatabaseFolder, embedded_postgres_dir
from mosaico.postgres.postmaster import find_postmaster, lock_file
from mosaico.postgres.programs import server_account
from mosaico.postgres.server import EmbeddedPostgres, RunningPostgres
from tests.integration.postgres.conftest import OwnerProcess, until

StartOwner = Callable[..., OwnerProcess]

# A subreaper gets the orphaned server as its child, and never waits for it.
OWNER_THAT_KEEPS_ZOMBIES = """
import ctypes, sys
from pathlib import Path
from mosaico.postgres.server import EmbeddedPostgres
PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
running = EmbeddedPostgres(Path(sys.argv[1]), durable=False).acquire()
print(running.url, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def folder(data_dir: Path) -> DatabaseFolder:
    return DatabaseFolder(path=embedded_postgres_dir(data_dir))


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


def test_running_postgres__restarts_a_killed_server_with_every_committed_row(
    data_dir: Path,
) -> None:
    postgres = EmbeddedPostgres(data_dir)  # durable, as users have it
    with postgres.acquire() as running:
        with psycopg.connect(running.url) as connection:
            assert connection.execute("SHOW fsync").fetchone() == ("on",)
            connection.execute("CREATE TABLE numbers (number int)")
            for number in range(20):
                insert(connection, number)
            connection.execute("INSERT INTO numbers VALUES (99)")  # never committed
            kill_server(postgres)
            connection.close()
        url = running.url
        until(running.revive)
        assert running.url == url
        with psycopg.connect(running.url) as connection:
            rows = connection.execute("SELECT number FROM numbers ORDER BY number").fetchall()
        assert rows == [(number,) for number in range(20)]
        assert not running.revive()


def test_acquire__restarts_a_server_that_was_just_killed(postgres: EmbeddedPostgres) -> None:
    with postgres.acquire() as running, psycopg.connect(running.url):
        killed = kill_server(postgres)
        with postgres.acquire() as second:
            assert postgres.status().pid != killed
            assert second.url == running.url


def test_acquire__ends_sessions_that_outlive_the_killed_server(
    postgres: EmbeddedPostgres,
) -> None:
    hour = "DO $$ BEGIN LOOP END LOOP; END $$"  # never looks up by itself
    with postgres.acquire() as running:
        connection = psycopg.connect(running.url)
        connection.pgconn.send_query(hour.encode())
        connection.pgconn.flush()
        with psycopg.connect(postgres.superuser_url()) as watcher:
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
        with postgres.acquire():
            assert postgres.status().running
        connection.close()


# After SIGTERM and SIGINT Postgres ends in order and leaves no trace of a crash; after SIGTERM not before
# its clients leave.
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_keep_alive__restarts_a_server_that_a_signal_ended(
    postgres: EmbeddedPostgres, number: signal.Signals
) -> None:
    with postgres.acquire() as running, psycopg.connect(running.url):
        enough = threading.Event()
        watch = threading.Thread(
            target=running.keep_alive, args=(enough,), kwargs={"every_seconds": 0.05}
        )
        watch.start()
        try:
            ended = kill_server(postgres, number)
            until(lambda: postgres.status().running and postgres.status().pid != ended)
        finally:
            enough.set()
            watch.join()


def test_acquire__restarts_a_server_that_waits_for_its_clients_to_leave(
    postgres: EmbeddedPostgres, folder: DatabaseFolder
) -> None:
    with postgres.acquire() as running, psycopg.connect(running.url):
        stopping = kill_server(postgres, signal.SIGTERM)
        until(lambda: is_stopping(folder))

        with postgres.acquire():
            assert postgres.status().running
            assert postgres.status().pid != stopping


def test_running_postgres__does_not_restart_a_stopped_server(postgres: EmbeddedPostgres) -> None:
    with postgres.acquire() as running:
        postgres.stop()
        assert not running.revive()
        assert not postgres.status().running
        postgres.start()
        kill_server(postgres, signal.SIGINT)
        until(running.revive)  # the earlier stop is over
        assert postgres.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux adopts orphans on demand")
def test_find_postmaster__zombie_is_not_a_running_server(
    postgres: EmbeddedPostgres, folder: DatabaseFolder, start_owner: StartOwner
) -> None:
    """As in a container whose first process does not bury its dead."""
    owner = start_owner(OWNER_THAT_KEEPS_ZOMBIES)
    url = owner.read_line()
    zombie = kill_server(postgres)
    with postgres.acquire() as running:
        os.kill(zombie, 0)  # its number is still taken
        assert running.url == url
        postmaster = find_postmaster(folder.cluster)
        assert postmaster is not None
        assert postmaster.pid != zombie


def test_acquire__ignores_another_process_with_the_old_process_id(
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
        with postgres.acquire():
            assert postgres.status().running
        assert stranger.poll() is None


def test_acquire__ignores_an_unusable_lock_file(
    postgres: EmbeddedPostgres, folder: DatabaseFolder
) -> None:
    postgres.start()
    postgres.stop()
    lock_file(folder.cluster).write_text("")
    with postgres.acquire():
        assert postgres.status().running


def test_acquire__copy_of_a_running_cluster_gets_its_own_server(
    postgres: EmbeddedPostgres, folder: DatabaseFolder, tmp_path: Path
) -> None:
    postgres.start()
    postgres.stop()
    copied = DatabaseFolder(path=tmp_path / "copy" / "postgres")
    shutil.copytree(folder.path, copied.path)
    with postgres.acquire() as running:
        shutil.copy(lock_file(folder.cluster), lock_file(copied.cluster))
        account = folder.cluster.stat().st_uid
        # A copy made by root would belong to root, as whom Postgres does not run.
        for path in (copied.cluster, *copied.cluster.rglob("*"), copied.log):
            os.chown(path, account, -1)
        shutil.rmtree(copied.log)
        copy = EmbeddedPostgres(tmp_path / "copy", durable=False)
        with copy.acquire() as other:
            assert other.url != running.url
            assert copy.status().pid != postgres.status().pid


def test_acquire__incomplete_cluster_is_created_again(
    new_server: EmbeddedPostgres, folder: DatabaseFolder
) -> None:
    folder.claim()
    folder.incomplete_cluster.mkdir()
    (folder.incomplete_cluster / "PG_VERSION").write_text("1")
    with new_server.acquire():
        assert not folder.incomplete_cluster.exists()


# What a start writes, in this order.
@pytest.mark.parametrize("moment", ["data.new/PG_VERSION", "data"])
def test_acquire__completes_a_first_start_that_was_killed(
    new_server: EmbeddedPostgres, folder: DatabaseFolder, start_owner: StartOwner, moment: str
) -> None:
    require_start_after_kill(new_server, folder, start_owner, moment)


# What the start of a cluster that exists writes: to make one for each of them took most of the time.
@pytest.mark.parametrize("moment", ["log", "log/startup.log", "data/postmaster.pid"])
def test_acquire__completes_a_start_that_was_killed(
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
    with postgres.acquire() as running, psycopg.connect(running.url):
        assert len(postgres.status().owners) == 1
    assert not postgres.status().running


def test_acquire__port_in_use_is_replaced(postgres: EmbeddedPostgres) -> None:
    postgres.start()
    port = postgres.status().port
    assert port is not None
    postgres.stop()
    with taken_port(port), postgres.acquire() as running, psycopg.connect(running.url):
        assert postgres.status().port != port


def test_acquire__port_that_is_taken_for_a_moment_is_kept(postgres: EmbeddedPostgres) -> None:
    """Such as by a connection of this machine to any server."""
    postgres.start()
    port = postgres.status().port
    assert port is not None
    postgres.stop()
    with ExitStack() as taken:
        taken.enter_context(taken_port(port))
        release = threading.Timer(0.2, taken.close)
        release.start()
        with postgres.acquire():
            assert postgres.status().port == port
        release.join()


def test_keep_alive__every_owner_learns_that_the_server_has_another_port(
    postgres: EmbeddedPostgres,
) -> None:
    with postgres.acquire() as first, postgres.acquire() as second:
        port = postgres.status().port
        assert port is not None
        kill_server(postgres, signal.SIGINT)
        until(lambda: launch.is_free(port))
        moves: list[RunningPostgres] = []
        enough = threading.Event()
        with taken_port(port):
            keepers = [
                threading.Thread(
                    target=owner.keep_alive,
                    args=(enough,),
                    kwargs={"on_move": partial(moves.append, owner), "every_seconds": 0.05},
                )
                for owner in (first, second)
            ]
            for keeper in keepers:
                keeper.start()
            try:
                # One of them restarts it.
                until(lambda: len(moves) == len(keepers))
            finally:
                enough.set()
                for keeper in keepers:
                    keeper.join()

        assert set(moves) == {first, second}
        assert postgres.status().port != port


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
        self.process.communicate(timeout=60)
