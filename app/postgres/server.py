"""The embedded Postgres: one server per data folder, shared by all who use it."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from psycopg import sql

from app.postgres.account import server_account
from app.postgres.binaries import packaged_binaries, usable_binaries
from app.postgres.errors import CannotStart, NotRunning, clear_os_errors
from app.postgres.folder import Folder, embedded_postgres_dir, free_bytes
from app.postgres.launch import APP_ROLE, HOST, SUPERUSER, Launcher, crashed
from app.postgres.locks import FileLock, Owner, owner_pids, sweep_owners
from app.postgres.process import Postmaster, find_postmaster, is_postmaster, shut_down

DATABASE = "mosaico"
DECISION_SECONDS = 300.0
READY_SECONDS = 300.0
POLL_SECONDS = 0.05
NO_ANSWER = (psycopg.OperationalError, psycopg.InterfaceError)
PROBE_SECONDS = 5

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """The embedded server at one moment.

    `url` holds no password. `version` is the server's, or the major version that wrote the data.
    `owners` are the processes that hold a lease; a `detached` server stays without any.
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
    """A Postgres 18 in a folder, started by the first who needs it, stopped by the last who leaves.

    Any number of processes may use one folder at once. A killed owner stops counting by itself;
    a killed server is recovered by the next `acquire`, `start` or `Lease.revive`. `durable=False`
    trades the safety of committed data against speed, for tests.
    """

    def __init__(self, data_dir: Path, *, durable: bool = True) -> None:
        self._folder = Folder(path=embedded_postgres_dir(data_dir))
        self._durable = durable

    def acquire(self) -> "Lease":
        """Start or find the server, and keep it until the lease is released.

        Raises: `CannotStart`, `DiskFull`, `ForeignFolder`, `ForeignVersion`, `WrongOwner`.
        Locks:  the folder, so that of two who come at once one starts and one finds.
        """
        with self._decision(claim=True):
            owner = Owner(self._folder.owners)
            try:
                return Lease(self, owner, self._url_of(self._ensure_running()))
            except BaseException:
                owner.leave()
                raise

    def start(self) -> str:
        """Start or find the server, and let it run until `stop`; returns its URL."""
        with self._decision(claim=True):
            url = self._url_of(self._ensure_running())
            self._folder.detached_mark.touch()
            return url

    def stop(self) -> bool:
        """Shut the server down, whoever uses it; False when none was running."""
        if not self._is_claimed():
            return False
        with self._decision():
            self._folder.detached_mark.unlink(missing_ok=True)
            if owners := owner_pids(self._folder.owners):
                log.warning("stopping the database under the processes %s", owners)
            return self._shut_down()

    def status(self) -> ServerStatus:
        """What is known about the server; a folder that does not exist has none running."""
        claimed = self._is_claimed()
        found = find_postmaster(self._folder.cluster) if claimed else None
        version = self._probe(found) if found else None
        return ServerStatus(
            running=version is not None,
            pid=found.pid if found else None,
            port=found.port if found else None,
            version=version or (self._folder.written_version() if claimed else None),
            url=f"postgresql://{APP_ROLE}@{HOST}:{found.port}/{DATABASE}" if found else None,
            data_dir=self._folder.path.parent,
            log_dir=self._folder.log,
            owners=owner_pids(self._folder.owners) if claimed else (),
            detached=claimed and self._folder.detached_mark.exists(),
        )

    def url(self) -> str:
        """The URL of the running server, with its password; raises `NotRunning`."""
        return self._url_of(self._running())

    def superuser_url(self) -> str:
        """The same for the superuser, who may make roles and extensions."""
        port, password = self._running().port, self._folder.password(SUPERUSER)
        return f"postgresql://{SUPERUSER}:{password}@{HOST}:{port}/{SUPERUSER}"

    def _leave(self, owner: Owner) -> None:
        """Give up a lease; the last one stops a server that was not started to stay."""
        if not self._folder.path.exists():  # deleted under us: the server ends by itself
            return
        with self._decision():
            owner.leave()
            sweep_owners(self._folder.owners)
            if not owner_pids(self._folder.owners) and not self._folder.detached_mark.exists():
                self._shut_down()

    def _revive(self) -> str | None:
        """Start a server again that died; None when it lives or was stopped on purpose."""
        if not crashed(self._folder.cluster):
            return None
        with self._decision():
            if not crashed(self._folder.cluster):
                return None
            log.warning("the database died; starting it again")
            return self._url_of(self._ensure_running())

    @contextmanager
    def _decision(self, *, claim: bool = False) -> Iterator[None]:
        with clear_os_errors(self._folder.path):
            if claim:
                self._folder.claim()
            with FileLock(
                self._folder.decision_lock,
                timeout=DECISION_SECONDS,
                complaint=f"another process has been starting or stopping the database in"
                f" {self._folder.path} for minutes; end it, then try again",
            ):
                yield

    def _is_claimed(self) -> bool:
        with clear_os_errors(self._folder.path):
            return self._folder.is_claimed()

    def _ensure_running(self) -> Postmaster:
        found = find_postmaster(self._folder.cluster)
        if found is not None and self._wait_until_ready(found):
            return found
        launcher = self._launcher()
        if not self._folder.cluster.exists():
            self._folder.check_space(free_bytes)
            launcher.create_cluster()
        self._folder.check_version()
        started = launcher.start()
        if not self._wait_until_ready(started):
            raise CannotStart(f"the database ended while starting; see {self._folder.log}")
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
        """Wait for a first answer, which may take a recovery; False when the server dies."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                self._prepare(server)
            except NO_ANSWER as error:
                if not is_postmaster(server.pid, self._folder.cluster):
                    return False
                if _is_final(error) or time.monotonic() > deadline:
                    raise CannotStart(
                        f"the database on port {server.port} does not let us in:"
                        f" {str(error).strip()}; see {self._folder.log}"
                    ) from error
                time.sleep(POLL_SECONDS)
            else:
                return True

    def _prepare(self, server: Postmaster) -> None:
        """Make our role and database where they are missing: after a start, or a killed one."""
        with self._superuser(server) as connection:
            if not _exists(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", APP_ROLE):
                _create_role(connection, self._folder.password(APP_ROLE))
            if not _exists(connection, "SELECT 1 FROM pg_database WHERE datname = %s", DATABASE):
                connection.execute(
                    sql.SQL("CREATE DATABASE {} OWNER {}").format(
                        sql.Identifier(DATABASE), sql.Identifier(APP_ROLE)
                    )
                )

    def _probe(self, server: Postmaster) -> str | None:
        """The version that the server answers; None when it does not answer."""
        try:
            with self._superuser(server) as connection:
                return connection.info.parameter_status("server_version")
        except NO_ANSWER:
            return None

    def _superuser(self, server: Postmaster) -> psycopg.Connection:
        # require_auth: a stranger on our port must prove that it knows the password as well.
        return psycopg.connect(
            host=HOST,
            port=server.port,
            user=SUPERUSER,
            password=self._folder.password(SUPERUSER),
            dbname=SUPERUSER,
            require_auth="scram-sha-256",
            sslmode="disable",
            gssencmode="disable",
            connect_timeout=PROBE_SECONDS,
            application_name="mosaico launcher",
            autocommit=True,
        )

    def _running(self) -> Postmaster:
        found = find_postmaster(self._folder.cluster) if self._is_claimed() else None
        if found is None or self._probe(found) is None:
            raise NotRunning(
                f"no database is running in {self._folder.path}; start it with"
                " `mosaico db start`, or let `mosaico serve` do it"
            )
        return found

    def _shut_down(self) -> bool:
        found = find_postmaster(self._folder.cluster)
        if found is not None:
            shut_down(found, self._folder.cluster)
        return found is not None

    def _url_of(self, server: Postmaster) -> str:
        password = self._folder.password(APP_ROLE)
        return f"postgresql://{APP_ROLE}:{password}@{HOST}:{server.port}/{DATABASE}"


class Lease:
    """One owner's claim on a running server; `release` it, or use it in a `with`."""

    def __init__(self, server: EmbeddedPostgres, owner: Owner, url: str) -> None:
        self._server = server
        self._owner = owner
        self._url = url

    @property
    def url(self) -> str:
        """`postgresql://mosaico:…@127.0.0.1:PORT/mosaico`; it changes only with `revive`."""
        return self._url

    def revive(self) -> bool:
        """Start the server again if it was killed; True if that was needed.

        A server that was stopped on purpose stays stopped. The port stays the same unless another
        program took it meanwhile.
        """
        url = self._server._revive() if self._owner.is_mine else None  # noqa: SLF001 - one module
        self._url = url or self._url
        return url is not None

    def keep_alive(self, until: threading.Event, *, every_seconds: float = 1.0) -> None:
        """Revive the server whenever it dies, until the event is set; runs in a thread."""
        while not until.wait(every_seconds):
            try:
                self.revive()
            except Exception:  # a full disk now must not end the watch for ever
                log.warning("the database could not be started again", exc_info=True)

    def release(self) -> None:
        """Leave; the last owner stops the server. In a forked child this does nothing."""
        if self._owner.is_mine:
            self._server._leave(self._owner)  # noqa: SLF001 - one module

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def _exists(connection: psycopg.Connection, query: str, name: str) -> bool:
    return connection.execute(query.encode(), [name]).fetchone() is not None


def _create_role(connection: psycopg.Connection, password: str) -> None:
    # The verifier is made here, so that the password never reaches the server or its log.
    verifier = connection.pgconn.encrypt_password(
        password.encode(), APP_ROLE.encode(), b"scram-sha-256"
    )
    connection.execute(
        sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
            sql.Identifier(APP_ROLE), sql.Literal(verifier.decode())
        )
    )


def _is_final(error: psycopg.Error) -> bool:
    """Whether waiting cannot help: who answered does not share our password."""
    return "authentication" in str(error)
