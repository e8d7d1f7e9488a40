"""Creates a cluster and starts its server; translates the output of Postgres into errors."""

import random
import re
import secrets
import shlex
import shutil
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mosaico.core.errors import AppError
from mosaico.core.row_limits import LIMITED_ROLE
from mosaico.core.secret_files import replace_secret_file, sync_folder
from mosaico.postgres.data_folder import DatabaseFolder, FileLock
from mosaico.postgres.errors import BlockedStart, DatabaseStartError, DiskFull, WrongOwner
from mosaico.postgres.postmaster import (
    Postmaster,
    drop_stale_lock_file,
    end_orphaned_sessions,
    find_postmaster,
)
from mosaico.postgres.programs import PostgresBinaries, ServerAccount, run_as

HOST = "127.0.0.1"
SUPERUSER = "postgres"
APP_ROLE = "mosaico"
DATABASE = "mosaico"
# One in each line, as Postgres reads them without a server.
CREATE_LIMITED_ROLE = f"CREATE ROLE {LIMITED_ROLE} NOLOGIN;\nGRANT {LIMITED_ROLE} TO {APP_ROLE};\n"
ORPHAN_TIMEOUT_S = 60.0
START_TIMEOUT_S = 60.0
RETRY_INTERVAL_S = 0.1
# A link of the kernel to the working folder, which was entered as root: it works even below folders that
# the account cannot enter.
WORKING_FOLDER = Path("/proc/self/cwd")

# Below those that the system gives to outgoing connections, one of which could take the port while the
# server is down (Linux: from 32768).
PORTS = range(20_000, 32_000)
# For every database and role, from this machine only.
AUTHENTICATION = f"host all all {HOST}/32 scram-sha-256\n"

CLUSTER_SETTINGS = {
    # Settings in the file of the cluster: they stay as they were when it was created.
    "timezone": "UTC",
    "log_timezone": "UTC",
    "max_connections": "100",
    "shared_buffers": "64MB",
    # After a checkpoint the first change of each page is logged as the whole page. With the default of
    # 1 GB a run of 1,000,000 traces causes several, each of which logs the pages of the indexes again.
    "max_wal_size": "4GB",
    # The default, 2 MB, is full after a page of traces: the session then writes the log itself.
    "wal_buffers": "16MB",
    # Compiling costs more than it saves for the short queries of this service.
    "jit": "off",
}
SERVER_SETTINGS = {
    # Settings on the command line: a newer version of the service may change them for existing
    # clusters.
    "listen_addresses": HOST,
    # No socket files: their path is limited to 107 bytes, and the data folder may have a longer path.
    "unix_socket_directories": "",
    "cluster_name": "mosaico",
    "logging_collector": "on",
    "log_directory": "../log",
    # One file per day of the week, truncated after a week: the log cannot fill the disk.
    "log_filename": "postgres-%a.log",
    "log_rotation_age": "1d",
    "log_rotation_size": "0",
    "log_truncate_on_rotation": "on",
}
NOT_DURABLE_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    # An autovacuum worker inside a database prevents a test from dropping the database.
    "autovacuum": "off",
    # The processes of a test run share the server, with about twelve connections each.
    "max_connections": "400",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """Creates and starts the server of one folder. The caller holds the lock of its owner."""

    folder: DatabaseFolder
    binaries: PostgresBinaries
    account: ServerAccount | None
    durable: bool

    def create_cluster(self) -> None:
        """Create the cluster atomically: initdb works in another folder, which is renamed at the end."""
        cluster = self.folder.incomplete_cluster
        with self._server_lock(ORPHAN_TIMEOUT_S) as server_lock:
            # What a killed initdb has left.
            shutil.rmtree(cluster, ignore_errors=True)
            # Before initdb: a cluster whose password was never written could not be used by
            # anybody.
            for role in (SUPERUSER, APP_ROLE):
                replace_secret_file(self.folder.password_file(role), secrets.token_urlsafe(24))
            self._make_folder(cluster)
            try:
                self._initdb(cluster, server_lock.descriptor)
                self._create_database(cluster, server_lock.descriptor)
            except AppError:
                shutil.rmtree(cluster, ignore_errors=True)
                raise
            cluster.rename(self.folder.cluster)
            # The rename is durable only after its folder is synchronized.
            sync_folder(self.folder.path)

    def start(self) -> Postmaster:
        """Start the server on its previous port, or on another one if that is in use.

        Raises: `DiskFull`, `WrongOwner`, or `DatabaseStartError` with what the server said last.
        """
        self._make_folder(self.folder.log)
        deadline = time.monotonic() + ORPHAN_TIMEOUT_S
        while True:
            # A killed starter may have left a server that is still starting.
            if postmaster := find_postmaster(self.folder.cluster):
                return postmaster
            try:
                return self._start_on(self._choose_port())
            # Another program may take a free port before Postgres binds it, and what is left of a
            # killed server needs a moment to end.
            except BlockedStart:
                if time.monotonic() > deadline:
                    raise
            time.sleep(RETRY_INTERVAL_S)

    def _choose_port(self) -> int:
        # The same port as before: clients that have the URL in their configuration reconnect.
        last_port = self.folder.last_port()
        return last_port if last_port and is_free(last_port) else find_free_port()

    def _start_on(self, port: int) -> Postmaster:
        # Before the lock, which these sessions hold.
        end_orphaned_sessions(self.folder.cluster)
        # The descriptor is inherited by every process of the server. As long as one of them runs,
        # in whatever container, nobody else can start a server on the same files.
        with self._server_lock(RETRY_INTERVAL_S) as server_lock:
            if self.folder.last_port() != port:
                replace_secret_file(self.folder.port_file, str(port))
            drop_stale_lock_file(self.folder.cluster)
            return self._pg_ctl_start(port, server_lock.descriptor)

    def _server_lock(self, timeout: float) -> FileLock:
        """The lock that every Postgres process inherits and holds until it ends."""
        return FileLock(
            self.folder.server_lock,
            timeout=timeout,
            error=BlockedStart(
                f"processes of an earlier server still use {self.folder.path} (perhaps in another"
                " container); stop them, then try again"
            ),
        )

    def _pg_ctl_start(self, port: int, server_lock: int) -> Postmaster:
        # The log files are appended to: only what is new explains this start.
        before = _log_sizes(self.folder.log)
        settings = {**SERVER_SETTINGS, "port": str(port)}
        if not self.durable:
            settings |= NOT_DURABLE_SETTINGS
        command: list[str | Path] = [
            *(self.binaries.program("pg_ctl"), "-D", self._path_of(self.folder.cluster)),
            *("-w", "-t", f"{START_TIMEOUT_S:.0f}", "-l", "../log/startup.log"),
            *("-o", shlex.join(_options(settings)), "start"),
        ]
        done = run_as(self.account, command, cwd=self.folder.cluster, pass_fds=(server_lock,))
        # The exit code of pg_ctl is not used: it may give up waiting although the server has
        # started.
        started = find_postmaster(self.folder.cluster)
        if started is None:
            output = _log_text_since(self.folder.log, before) or done.stderr + done.stdout
            raise _error_of_output(output, f"see the log files in {self.folder.log}")
        return started

    def _initdb(self, cluster: Path, server_lock: int) -> None:
        command: list[str | Path] = [
            *(self.binaries.program("initdb"), "-D", self._path_of(cluster), "-U", SUPERUSER),
            # The builtin locale sorts equally on every system; the one of the C library changes
            # with its version, which corrupts indexes.
            *("--encoding=UTF8", "--locale=C"),
            *("--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
            *("--auth=trust", "--no-instructions", *([] if self.durable else ["--no-sync"])),
            *_options(CLUSTER_SETTINGS),
        ]
        done = run_as(self.account, command, cwd=cluster, pass_fds=(server_lock,))
        if done.returncode != 0:
            raise _error_of_output(
                done.stderr or done.stdout, f"initdb ended with {done.returncode}"
            )
        (cluster / "pg_hba.conf").write_text(AUTHENTICATION, encoding="ascii")

    def _create_database(self, cluster: Path, server_lock: int) -> None:
        """Create our role and database before the first start, so that a server always has them."""
        command: list[str | Path] = [
            *(self.binaries.program("postgres"), "--single", "-D", self._path_of(cluster)),
            *_options({"exit_on_error": "on", "fsync": "on" if self.durable else "off"}),
            SUPERUSER,
        ]
        # On stdin: arguments are visible in the process list.
        statements = (
            f"ALTER ROLE {SUPERUSER} PASSWORD '{self.folder.password(SUPERUSER)}'\n"
            f"CREATE ROLE {APP_ROLE} LOGIN PASSWORD '{self.folder.password(APP_ROLE)}'\n"
            f"{CREATE_LIMITED_ROLE}"
            f"CREATE DATABASE {DATABASE} OWNER {APP_ROLE}\n"
        )
        done = run_as(self.account, command, cwd=cluster, pass_fds=(server_lock,), stdin=statements)
        if done.returncode != 0:
            raise _error_of_output(done.stderr, f"postgres ended with {done.returncode}")

    def _make_folder(self, path: Path) -> None:
        """Create a folder for the account. Also repairs the owner after a kill between the two steps."""
        path.mkdir(mode=0o700, exist_ok=True)
        if self.account:
            self.account.take_ownership(path)

    def _path_of(self, cluster: Path) -> Path:
        """The path by which the account of the server reaches the cluster, its working folder."""
        if self.account is not None and WORKING_FOLDER.exists():
            return WORKING_FOLDER
        return cluster


def find_free_port() -> int:
    """A free TCP port of this machine."""
    ports = random.sample(PORTS, len(PORTS))
    return next(port for port in ports if is_free(port))


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As Postgres does: connections of the previous server in TIME_WAIT do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _error_of_output(output: str, where: str) -> DatabaseStartError | WrongOwner:
    """Translate the output of a Postgres program into an error."""
    reason = _reason_in_output(output)
    # Texts instead of exit codes: Postgres exits with 1 for all of these. The locale of the
    # programs is C, so the texts are English.
    if "No space left on device" in output or "Disk quota exceeded" in output:
        return DiskFull(f"the disk is full ({reason}); free some space and start again")
    if "Address already in use" in output:
        return BlockedStart(reason)
    if "invalid permissions" in output or "wrong ownership" in output:
        return WrongOwner(
            f"Postgres refuses its data folder ({reason}); it must belong to the user that runs"
            " the server, with mode 0700: `chmod 700` the folder `data`"
        )
    return DatabaseStartError(f"the embedded database does not start: {reason} ({where})")


def _reason_in_output(output: str) -> str:
    """The most informative line: the first fatal one, else the last one."""
    lines = [line for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"\b(FATAL|PANIC|error):", line)]
    line = (telling or lines[-1:] or ["no output"])[0]
    return re.sub(r"^.*?\b(FATAL|PANIC|error): +", "", line)


def _options(settings: Mapping[str, str]) -> list[str]:
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]


def _log_sizes(log: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in log.glob("*.log")}


def _log_text_since(log: Path, before: Mapping[Path, int]) -> str:
    texts = []
    for path, size in _log_sizes(log).items():
        start = before.get(path, 0)
        # A smaller file was truncated by the weekly rotation in between: all of it is new.
        text = path.read_bytes()[start if start <= size else 0 :]
        texts.append(text.decode("utf-8", errors="replace"))
    return "\n".join(texts)
