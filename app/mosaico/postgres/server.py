"""The embedded Postgres: one server per data folder, shared by all processes that use it."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psycopg
from psycopg import sql

from mosaico.postgres.data_folder import (
    DatabaseFolder,
    DatabaseOwner,
    FileLock,
    embedded_postgres_dir,
    free_bytes,
    owner_pids,
    remove_dead_owners,
)
from mosaico.postgres.errors import DatabaseNotRunning, DatabaseStartError, translate_os_errors
from mosaico.postgres.launch import APP_ROLE, HOST, SUPERUSER, Launcher
from mosaico.postgres.postmaster import Postmaster, find_postmaster, is_postmaster, shut_down
from mosaico.postgres.programs import packaged_binaries, server_account, usable_binaries

DATABASE = "mosaico"
# Another process may hold the lock during a crash recovery, which replays the log for minutes.
DECISION_TIMEOUT_S = 300.0
READY_TIMEOUT_S = 300.0
POLL_INTERVAL_S = 0.05
NO_ANSWER = (psycopg.OperationalError, psycopg.InterfaceError)
PROBE_TIMEOUT_S = 5

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """The state of the embedded server.

    `url` contains no password. `version` is the version of the running server, else the major version
    that wrote the data. `owners` are the processes that use it. A `detached` server keeps
    running without an owner.
    """

    running: bool
    pid: int | None
    port: int | None
    version: str | None
    url: str | None
    data_dir: Path
    log_dir: Path
    owners: tuple[int, ...]
    detached: bool


class EmbeddedPostgres:
    """A Postgres 18 server in a folder: the first owner starts it, the last one stops it.

    Any number of processes can use one folder at once. A killed process is no longer an owner,
    because its file lock ends with it. The next `acquire`, `start` or `RunningPostgres.revive`
    recovers a killed server. `durable=False` gives up the safety of committed data for speed, for
    tests.
    """

    def __init__(self, data_dir: Path, *, durable: bool = True) -> None:
        self._folder = DatabaseFolder(path=embedded_postgres_dir(data_dir))
        self._durable = durable

    def acquire(self) -> "RunningPostgres":
        """Start the server if needed, and keep it running until it is released.

        Raises: `DatabaseStartError`, `DiskFull`, `FolderNotOwned`, `DataVersionMismatch`, `WrongOwner`.
        Locks:  the folder, so that only one of two concurrent callers starts the server.
        """
        # The owner registers before the lock is released, so that a process that leaves at this
        # moment sees it and does not stop the server.
        with self._decision(claim=True):
            owner = DatabaseOwner(self._folder.owners)
            try:
                return RunningPostgres(self, owner, self._url_of(self._ensure_running()))
            # Also Ctrl-C: an owner that nobody can release would keep the server running until this
            # process ends.
            except BaseException:
                owner.leave()
                raise

    def start(self) -> str:
        """Start the server if needed and keep it running until `stop`; returns its URL."""
        with self._decision(claim=True):
            url = self._url_of(self._ensure_running())
            # After the start: a failed start must not leave a mark behind.
            self._folder.detached_mark.touch()
            return url

    def stop(self) -> bool:
        """Stop the server even if it is in use; False if no server was running."""
        # Without creating the folder: asking to stop must change nothing.
        if not self._is_claimed():
            return False
        with self._decision():
            self._folder.detached_mark.unlink(missing_ok=True)
            # Before the shutdown: the owners must not take it for a crash.
            self._folder.stopped_mark.touch()
            if owners := owner_pids(self._folder.owners):
                log.warning("stopping the database while the processes %s use it", owners)
            return self._shut_down()

    def status(self) -> ServerStatus:
        """The state of the server; not running if the folder does not exist."""
        claimed = self._is_claimed()
        postmaster = find_postmaster(self._folder.cluster) if claimed else None
        version = self._probe(postmaster) if postmaster else None
        return ServerStatus(
            running=version is not None,
            pid=postmaster.pid if postmaster else None,
            port=postmaster.port if postmaster else None,
            version=version or (self._folder.written_version() if claimed else None),
            url=f"postgresql://{APP_ROLE}@{HOST}:{postmaster.port}/{DATABASE}"
            if postmaster
            else None,
            data_dir=self._folder.path.parent,
            log_dir=self._folder.log,
            owners=owner_pids(self._folder.owners) if claimed else (),
            detached=claimed and self._folder.detached_mark.exists(),
        )

    def url(self) -> str:
        """The URL of the running server, with its password; raises `DatabaseNotRunning`."""
        return self._url_of(self._running())

    def superuser_url(self) -> str:
        """The URL of the superuser, who can create roles and extensions."""
        port, password = self._running().port, self._folder.password(SUPERUSER)
        return f"postgresql://{SUPERUSER}:{password}@{HOST}:{port}/{SUPERUSER}"

    def _leave(self, owner: DatabaseOwner) -> None:
        """Release an owner; the last one stops the server unless it is detached."""
        if not self._folder.path.exists():  # the folder was deleted: the server ends by itself
            return
        with self._decision():
            owner.leave()
            # Cleaning up only: the count below ignores files that nobody has locked.
            remove_dead_owners(self._folder.owners)
            # Asked under the lock: two processes that leave at the same time would each see the
            # other.
            if not owner_pids(self._folder.owners) and not self._folder.detached_mark.exists():
                self._shut_down()

    def _revive(self) -> str | None:
        """Restart a server that ended or is stopping; None if it is running or was stopped with `stop`."""
        # Without the lock, because this is asked every second and the answer is nearly always no.
        if not self._has_ended():
            return None
        with self._decision():
            # Asked again: another process may have restarted it while this one waited for the lock.
            if not self._has_ended():
                return None
            log.warning("the database ended: restarting it")
            return self._url_of(self._ensure_running())

    def _find_url(self) -> str | None:
        """The URL of the server, which may still be starting; None if there is none."""
        postmaster = find_postmaster(self._folder.cluster)
        return self._url_of(postmaster) if postmaster else None

    def _has_ended(self) -> bool:
        """Return whether the server ended, or is about to end, without a call of `stop`. The lock file of
        Postgres is not sufficient: a postmaster that received SIGTERM removes it, too.
        """
        if not self._folder.cluster.exists() or self._folder.stopped_mark.exists():
            return False
        postmaster = find_postmaster(self._folder.cluster)
        return postmaster is None or postmaster.stopping

    @contextmanager
    def _decision(self, *, claim: bool = False) -> Iterator[None]:
        with translate_os_errors(self._folder.path):
            if claim:
                self._folder.claim()
            with FileLock(
                self._folder.decision_lock,
                timeout=DECISION_TIMEOUT_S,
                complaint=f"another process has been starting or stopping the database in"
                f" {self._folder.path} for five minutes; end that process, then try again",
            ):
                yield

    def _is_claimed(self) -> bool:
        with translate_os_errors(self._folder.path):
            return self._folder.is_claimed()

    def _ensure_running(self) -> Postmaster:
        self._folder.stopped_mark.unlink(missing_ok=True)
        postmaster = find_postmaster(self._folder.cluster)
        if postmaster is not None and postmaster.stopping:
            # It would wait for clients that never leave, and refuse all others meanwhile.
            shut_down(postmaster, self._folder.cluster)
            postmaster = None
        # A server that a killed process started may still be recovering.
        if postmaster is not None and self._wait_until_ready(postmaster):
            return postmaster
        launcher = self._launcher()
        if not self._folder.cluster.exists():
            self._folder.check_space(free_bytes)
            launcher.create_cluster()
        # Postgres itself refuses the data of another major version, with a message that does not
        # say what to do.
        self._folder.check_version()
        started = launcher.start()
        if not self._wait_until_ready(started):
            raise DatabaseStartError(
                f"the database ended while it started; see the log files in {self._folder.log}"
            )
        return started

    def _launcher(self) -> Launcher:
        account = server_account(self._folder.cluster)
        return Launcher(
            folder=self._folder,
            binaries=usable_binaries(packaged_binaries(), account, self._folder.runtime),
            account=account,
            durable=self._durable,
        )

    def _wait_until_ready(self, server: Postmaster) -> bool:
        """Wait until the server answers, after crash recovery if needed; False if it dies."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            try:
                self._prepare(server)
            except NO_ANSWER as error:
                # Dead: waiting for the deadline is pointless.
                if not is_postmaster(server.pid, self._folder.cluster):
                    return False
                if _is_authentication_error(error) or time.monotonic() > deadline:
                    raise DatabaseStartError(
                        f"the database on port {server.port} refuses the connection:"
                        f" {str(error).strip()}; see {self._folder.log}"
                    ) from error
                time.sleep(POLL_INTERVAL_S)
            else:
                return True

    def _prepare(self, server: Postmaster) -> None:
        """Create our role and database if they are missing: a killed start leaves them out."""
        with self._superuser(server) as connection:
            if not _row_exists(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", APP_ROLE):
                _create_role(connection, self._folder.password(APP_ROLE))
            if not _row_exists(
                connection, "SELECT 1 FROM pg_database WHERE datname = %s", DATABASE
            ):
                connection.execute(
                    sql.SQL("CREATE DATABASE {} OWNER {}").format(
                        sql.Identifier(DATABASE), sql.Identifier(APP_ROLE)
                    )
                )

    def _probe(self, server: Postmaster) -> str | None:
        """The version of the server; None if it does not answer."""
        try:
            with self._superuser(server) as connection:
                return connection.info.parameter_status("server_version")
        except NO_ANSWER:
            return None

    def _superuser(self, server: Postmaster) -> psycopg.Connection:
        # require_auth: another program on this port must prove that it knows the password, too.
        return psycopg.connect(
            host=HOST,
            port=server.port,
            user=SUPERUSER,
            password=self._folder.password(SUPERUSER),
            # The database `postgres`, which initdb creates; ours may not exist yet.
            dbname=SUPERUSER,
            require_auth="scram-sha-256",
            sslmode="disable",
            gssencmode="disable",
            connect_timeout=PROBE_TIMEOUT_S,
            application_name="mosaico launcher",
            autocommit=True,
        )

    def _running(self) -> Postmaster:
        postmaster = find_postmaster(self._folder.cluster) if self._is_claimed() else None
        if postmaster is None or self._probe(postmaster) is None:
            raise DatabaseNotRunning(
                f"no database is running in {self._folder.path}; start it with"
                " `mosaico db start` or `mosaico serve`"
            )
        return postmaster

    def _shut_down(self) -> bool:
        postmaster = find_postmaster(self._folder.cluster)
        if postmaster is not None:
            shut_down(postmaster, self._folder.cluster)
        return postmaster is not None

    def _url_of(self, server: Postmaster) -> str:
        password = self._folder.password(APP_ROLE)
        return f"postgresql://{APP_ROLE}:{password}@{HOST}:{server.port}/{DATABASE}"


class RunningPostgres:
    """Keeps a server running until `release` or the end of the `with` block."""

    def __init__(self, server: EmbeddedPostgres, owner: DatabaseOwner, url: str) -> None:
        self._server = server
        self._owner = owner
        self._url = url

    @property
    def url(self) -> str:
        """`postgresql://mosaico:…@127.0.0.1:PORT/mosaico`; it changes only with `revive`."""
        return self._url

    def revive(self) -> bool:
        """Restart the server if it ended, by a crash or a signal; True if that was necessary.

        A server that was stopped with `EmbeddedPostgres.stop` stays stopped. The port stays the same unless another
        program uses it now.
        """
        url = self._server._revive() if self._owner.is_mine else None  # noqa: SLF001 - one module
        self._url = url or self._url
        return url is not None

    def keep_alive(
        self,
        until: threading.Event,
        *,
        on_move: Callable[[], None] = lambda: None,
        every_seconds: float = 1.0,
    ) -> None:
        """Restart the server whenever it ends, until the event is set; runs in a thread.

        `on_move` is called each time the server has another URL, whichever process restarted it.
        """
        known_url = self._url
        while not until.wait(every_seconds):
            try:
                self.revive()
                url = self._server._find_url() or known_url  # noqa: SLF001 - one module
            except Exception:  # a disk that is full now must not end the supervision for good
                log.warning("the database could not be restarted", exc_info=True)
            else:
                if url != known_url:
                    known_url = url
                    on_move()

    def release(self) -> None:
        """Stop using the server; its last owner stops it. Does nothing in a forked child."""
        if self._owner.is_mine:
            self._server._leave(self._owner)  # noqa: SLF001 - one module

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _row_exists(connection: psycopg.Connection, query: str, name: str) -> bool:
    return connection.execute(query.encode(), [name]).fetchone() is not None


def _create_role(connection: psycopg.Connection, password: str) -> None:
    # The client computes the verifier, so the password never reaches the server or its log.
    verifier = connection.pgconn.encrypt_password(
        password.encode(), APP_ROLE.encode(), b"scram-sha-256"
    )
    connection.execute(
        sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
            sql.Identifier(APP_ROLE), sql.Literal(verifier.decode())
        )
    )


def _is_authentication_error(error: psycopg.Error) -> bool:
    """Return whether the server rejects our password: waiting does not help then."""
    return "authentication" in str(error)
