"""The embedded Postgres: one server per data folder, with one owner that starts and supervises it."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from mosaico.core.row_limits import LIMITED_ROLE
from mosaico.postgres.data_folder import DatabaseFolder, embedded_postgres_dir
from mosaico.postgres.errors import DatabaseNotRunning, DatabaseStartError, translate_os_errors
from mosaico.postgres.launch import (
    APP_ROLE,
    CREATE_LIMITED_ROLE,
    DATABASE,
    HOST,
    SUPERUSER,
    Launcher,
)
from mosaico.postgres.postmaster import Postmaster, find_postmaster, is_postmaster, shut_down
from mosaico.postgres.programs import server_account, usable_binaries

# Crash recovery replays the log for minutes.
READY_TIMEOUT_S = 300.0
POLL_INTERVAL_S = 0.05
NO_ANSWER = (psycopg.OperationalError, psycopg.InterfaceError)
PROBE_TIMEOUT_S = 5

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """The state of the embedded server.

    `url` contains no password. `version` is the version of the running server, else the major version
    that wrote the data. `owner` is the process that supervises it. A `detached` server keeps running
    without an owner.
    """

    running: bool
    pid: int | None
    port: int | None
    version: str | None
    url: str | None
    data_dir: Path
    log_dir: Path
    owner: int | None
    detached: bool


class EmbeddedPostgres:
    """A Postgres 18 server in a folder.

    One process at a time owns it: `own` starts, supervises and stops it, `start` and `stop` own it for
    the moment. All other processes connect to its `url`. `durable=False` gives up the safety of
    committed data for speed, for tests.
    """

    def __init__(self, data_dir: Path, *, durable: bool = True) -> None:
        self._folder = DatabaseFolder(embedded_postgres_dir(data_dir))
        self._durable = durable

    @contextmanager
    def own(self) -> Iterator[str]:
        """Start the server if needed, and stop it when the block ends; yields its URL.

        A server that a killed owner left behind is used. A detached one is not stopped.

        Raises: `DatabaseHasOwner`, `DatabaseStartError`, `DiskFull`, `FolderNotOwned`,
        `DataVersionMismatch`, `WrongOwner`.
        """
        with self._ownership():
            url = self._start_server()
            try:
                yield url
            finally:
                if not self._folder.detached_mark.exists():
                    self._shut_down()

    @contextmanager
    def running(self, *, create: bool) -> Iterator[str]:
        """The URL of the server, which is started for the block if it does not run.

        Without `create`, a folder without a database is an error. Raises: `DatabaseNotRunning`; as `own`.
        """
        status = self.status()
        if status.running or (status.version is None and not create):
            yield self.url()
            return
        with self.own() as url:
            yield url

    def revive(self) -> bool:
        """Restart the server if it ended or is stopping; True if that was necessary. For the owner.

        The port stays the same unless another program uses it now.
        """
        postmaster = find_postmaster(self._folder.cluster)
        # A postmaster that received SIGTERM runs until its clients leave, and accepts no others.
        is_running = postmaster is not None and not postmaster.stopping
        # Without its files there is nothing to restart: a new cluster would be empty.
        if is_running or not self._folder.cluster.exists():
            return False
        log.warning("the database ended: restarting it")
        self._start_server()
        return True

    def keep_alive(
        self,
        url: str,
        until: threading.Event,
        *,
        on_move: Callable[[], None] = lambda: None,
        every_seconds: float = 1.0,
    ) -> None:
        """Restart the server whenever it ends, until the event is set; runs in a thread of the owner.

        `on_move` is called each time the server has another URL than before, which is `url` at first.
        """
        while not until.wait(every_seconds):
            try:
                self.revive()
                # A restart that failed late may have moved it, too.
                new_url = self._find_url() or url
            except Exception:  # a disk that is full now must not end the supervision for good
                log.warning("the database could not be restarted", exc_info=True)
                continue
            if new_url != url:
                url = new_url
                on_move()

    def start(self) -> str:
        """Start the server if needed and keep it running until `stop`; returns its URL."""
        with self._ownership(), translate_os_errors(self._folder.path):
            url = self._url_of(self._ensure_running())
            # After the start: a failed start must not leave a mark behind.
            self._folder.detached_mark.touch()
            return url

    def stop(self) -> bool:
        """Stop the server; False if no server was running. Raises: `DatabaseHasOwner`."""
        # Without creating the folder: asking to stop must change nothing.
        if not self._is_claimed():
            return False
        with self._ownership():
            self._folder.detached_mark.unlink(missing_ok=True)
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
            owner=self._folder.owner_pid() if claimed else None,
            detached=claimed and self._folder.detached_mark.exists(),
        )

    def url(self) -> str:
        """The URL of the running server, with its password; raises `DatabaseNotRunning`."""
        return self._url_of(self._running())

    def add_missing_role(self) -> None:
        """Create the role that a server of an earlier version lacks. Raises: `DatabaseNotRunning`."""
        self._add_missing_role(self._running())

    def count_sessions(self) -> int:
        """The number of sessions that use the database; 0 if the server is not running."""
        try:
            server = self._running()
        except DatabaseNotRunning:
            return 0
        with self._connect(server) as connection:
            sessions = (
                "SELECT 1 FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            return connection.execute(sessions).rowcount

    @contextmanager
    def _ownership(self) -> Iterator[None]:
        with ExitStack() as stack:
            with translate_os_errors(self._folder.path):
                self._folder.claim()
                stack.enter_context(self._folder.owned())
            yield

    def _find_url(self) -> str | None:
        """The URL of the server, which may still be starting; None if there is none."""
        postmaster = find_postmaster(self._folder.cluster)
        return self._url_of(postmaster) if postmaster else None

    def _is_claimed(self) -> bool:
        with translate_os_errors(self._folder.path):
            return self._folder.is_claimed()

    def _start_server(self) -> str:
        with translate_os_errors(self._folder.path):
            return self._url_of(self._ensure_running())

    def _ensure_running(self) -> Postmaster:
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
            self._folder.check_space()
            launcher.create_cluster()
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
            binaries=usable_binaries(account),
            account=account,
            durable=self._durable,
        )

    def _wait_until_ready(self, server: Postmaster) -> bool:
        """Wait until the server answers, after crash recovery if needed; False if it dies."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            try:
                self._add_missing_role(server)
            except NO_ANSWER as error:
                # Dead: waiting for the deadline is pointless.
                if not is_postmaster(server.pid, self._folder.cluster):
                    return False
                # A rejected password stays rejected.
                if "authentication" in str(error) or time.monotonic() > deadline:
                    raise DatabaseStartError(
                        f"the database on port {server.port} refuses the connection:"
                        f" {str(error).strip()}; see {self._folder.log}"
                    ) from error
                time.sleep(POLL_INTERVAL_S)
            else:
                return True

    def _add_missing_role(self, server: Postmaster) -> None:
        """Create the role of limited callers, which a folder from before it lacks. Raises: `NO_ANSWER`."""
        with self._connect(server) as connection:
            has_role = "SELECT FROM pg_roles WHERE rolname = %s"
            if connection.execute(has_role, [LIMITED_ROLE]).rowcount:
                return
        with self._connect(server, SUPERUSER) as connection:
            connection.execute(CREATE_LIMITED_ROLE.encode())

    def _probe(self, server: Postmaster) -> str | None:
        """The version of the server; None if it does not answer."""
        try:
            with self._connect(server) as connection:
                return connection.info.parameter_status("server_version")
        except NO_ANSWER:
            return None

    def _connect(self, server: Postmaster, role: str = APP_ROLE) -> psycopg.Connection:
        return psycopg.connect(
            self._url_of(server, role),
            # Another program on this port must prove that it knows the password, too.
            require_auth="scram-sha-256",
            sslmode="disable",
            gssencmode="disable",
            connect_timeout=PROBE_TIMEOUT_S,
            application_name="mosaico launcher",
        )

    def _running(self) -> Postmaster:
        postmaster = find_postmaster(self._folder.cluster) if self._is_claimed() else None
        if postmaster is None or self._probe(postmaster) is None:
            raise DatabaseNotRunning(
                f"no database is running in {self._folder.path}; run `mosaico serve` first, or"
                " `mosaico db start` for the database alone"
            )
        return postmaster

    def _shut_down(self) -> bool:
        postmaster = find_postmaster(self._folder.cluster)
        if postmaster is not None:
            shut_down(postmaster, self._folder.cluster)
        return postmaster is not None

    def _url_of(self, server: Postmaster, role: str = APP_ROLE) -> str:
        password = self._folder.password(role)
        return f"postgresql://{role}:{password}@{HOST}:{server.port}/{DATABASE}"
