"""Making a cluster and starting its server, with what the programs say turned into errors."""

import os
import re
import secrets
import shlex
import shutil
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.core.secret_files import replace_secret_file
from app.postgres.account import Account, can_enter, run_as
from app.postgres.binaries import Binaries
from app.postgres.errors import CannotStart, DiskFull, WrongOwner
from app.postgres.folder import Folder
from app.postgres.locks import FileLock, StillLocked
from app.postgres.process import (
    Postmaster,
    drop_stale_lock_file,
    find_postmaster,
    lock_file,
    quit_leftovers,
)

HOST = "127.0.0.1"
SUPERUSER = "postgres"
APP_ROLE = "mosaico"
LEFTOVER_SECONDS = 60.0
START_SECONDS = 60.0
DYING_SECONDS = 3.0
RETRY_SECONDS = 0.1
# Magic link of the kernel: it leads to the working folder whatever lies above it.
WORKING_FOLDER = Path("/proc/self/cwd")

CLUSTER_SETTINGS = {
    "timezone": "UTC",
    "log_timezone": "UTC",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "jit": "off",
}
SERVER_SETTINGS = {
    "listen_addresses": HOST,
    # No socket files: their path may be 107 bytes long, and a data folder lies anywhere.
    "unix_socket_directories": "",
    "cluster_name": "mosaico",
    "logging_collector": "on",
    "log_directory": "../log",
    "log_filename": "postgres-%a.log",
    "log_rotation_age": "1d",
    "log_rotation_size": "0",
    "log_truncate_on_rotation": "on",
}
FAST_BUT_FORGETFUL = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    # Its workers belong to the superuser, and one in a database keeps a test from dropping it.
    "autovacuum": "off",
}


class PortTaken(CannotStart):
    """Another program listens on the port of the embedded database."""


class StillRecovering(CannotStart):
    """What a killed server left behind is still in use; try again in a few seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """How the server of one folder is made and started; the caller holds the folder's lock."""

    folder: Folder
    binaries: Binaries
    account: Account | None
    durable: bool

    def create_cluster(self) -> None:
        """Make the cluster, all of it or none: a killed attempt is thrown away by the next."""
        cluster = self.folder.unfinished_cluster
        with self._server_lock(LEFTOVER_SECONDS) as server_lock:
            shutil.rmtree(cluster, ignore_errors=True)
            for role in (SUPERUSER, APP_ROLE):
                replace_secret_file(self.folder.password_file(role), secrets.token_urlsafe(24))
            self._make_folder(cluster)
            self._initdb(cluster, server_lock.descriptor)
            cluster.rename(self.folder.cluster)
            _sync(self.folder.path)

    def start(self) -> Postmaster:
        """Start the server on the port it had before, or on another when that is taken.

        Raises: `DiskFull`, `WrongOwner`, or `CannotStart` with what the server said last.
        """
        self._make_folder(self.folder.log)
        port = self.folder.kept_port() or free_port()
        begin = time.monotonic()
        # A killed server is gone from sight a moment before its port is free again.
        port_patience = DYING_SECONDS if lock_file(self.folder.cluster).exists() else 0.0
        while True:
            # Whoever was killed while starting may have left a server that is just coming up.
            if found := find_postmaster(self.folder.cluster):
                return found
            try:
                return self._start_on(port)
            except PortTaken:
                if time.monotonic() - begin >= port_patience:
                    port = free_port()
            except (StillRecovering, StillLocked):
                if time.monotonic() - begin > LEFTOVER_SECONDS:
                    raise
            time.sleep(RETRY_SECONDS)

    def _start_on(self, port: int) -> Postmaster:
        if not is_free(port):
            raise PortTaken(f"port {port} is taken")
        quit_leftovers(self.folder.cluster)
        with self._server_lock(RETRY_SECONDS) as server_lock:
            if self.folder.kept_port() != port:
                replace_secret_file(self.folder.port_file, str(port))
            drop_stale_lock_file(self.folder.cluster)
            return self._pg_ctl_start(port, server_lock.descriptor)

    def _server_lock(self, timeout: float) -> FileLock:
        """The lock that every program of Postgres inherits and holds until it ends."""
        return FileLock(
            self.folder.server_lock,
            timeout=timeout,
            complaint=f"processes of an earlier server still use {self.folder.path} (perhaps in"
            " another container); stop them, then start again",
        )

    def _pg_ctl_start(self, port: int, server_lock: int) -> Postmaster:
        before = _log_sizes(self.folder.log)
        command: list[str | Path] = [
            *(self.binaries.program("pg_ctl"), "-D", self._seen(self.folder.cluster)),
            *("-w", "-t", f"{START_SECONDS:.0f}", "-l", "../log/startup.log"),
            *("-o", shlex.join(_options(self._server_settings(port))), "start"),
        ]
        done = run_as(self.account, command, cwd=self.folder.cluster, pass_fds=(server_lock,))
        started = find_postmaster(self.folder.cluster)
        if started is None:
            said = _logged_since(self.folder.log, before) or done.stderr + done.stdout
            raise _failure(said, f"its log lies in {self.folder.log}")
        return started

    def _initdb(self, cluster: Path, server_lock: int) -> None:
        password = self.folder.path / "initdb.password"
        replace_secret_file(password, self.folder.password(SUPERUSER))
        if self.account:
            self.account.own(password)
        command: list[str | Path] = [
            *(self.binaries.program("initdb"), "-D", self._seen(cluster), "-U", SUPERUSER),
            *("--auth=scram-sha-256", f"--pwfile=../{password.name}"),
            *("--encoding=UTF8", "--locale=C"),
            *("--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
            *("--no-instructions", *([] if self.durable else ["--no-sync"])),
            *_options(CLUSTER_SETTINGS),
        ]
        try:
            done = run_as(self.account, command, cwd=cluster, pass_fds=(server_lock,))
        finally:
            password.unlink()
        if done.returncode != 0:
            shutil.rmtree(cluster, ignore_errors=True)
            raise _failure(done.stderr or done.stdout, f"initdb ended with {done.returncode}")

    def _make_folder(self, path: Path) -> None:
        """Whoever was killed between the two steps left a folder that is not the account's yet."""
        path.mkdir(mode=0o700, exist_ok=True)
        if self.account:
            self.account.own(path)

    def _seen(self, cluster: Path) -> Path:
        """The path under which the server's account reaches the cluster from inside it."""
        if self.account is None or can_enter(cluster.parent, self.account):
            return cluster
        if WORKING_FOLDER.exists():
            return WORKING_FOLDER
        raise WrongOwner(
            f"the server runs as uid {self.account.uid}, who cannot enter {cluster.parent}; set"
            " MOSAICO_DATA_DIR to a folder that everybody may pass through, such as"
            " /var/lib/mosaico, or run MOSAICO as an ordinary user"
        )

    def _server_settings(self, port: int) -> Mapping[str, str]:
        return {
            **SERVER_SETTINGS,
            "port": str(port),
            **({} if self.durable else FAST_BUT_FORGETFUL),
        }


def crashed(cluster: Path) -> bool:
    """Whether the server is gone without having shut down."""
    return lock_file(cluster).exists() and find_postmaster(cluster) is None


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _failure(said: str, where: str) -> CannotStart | WrongOwner:
    """What the output of a program of Postgres means."""
    reason = _reason(said)
    if "No space left on device" in said or "Disk quota exceeded" in said:
        return DiskFull(f"the disk is full ({reason}); free some space and start again")
    if "Address already in use" in said:
        return PortTaken(reason)
    if "still in use" in said or 'lock file "postmaster.pid" already exists' in said:
        return StillRecovering(f"the killed server has not quite ended ({reason}); try again")
    if "invalid permissions" in said or "wrong ownership" in said:
        return WrongOwner(
            f"Postgres refuses its data folder ({reason}); it must belong to the user that runs"
            " the server, with mode 0700: `chmod 700` the folder `data`"
        )
    return CannotStart(f"the embedded database does not start: {reason} ({where})")


def _reason(said: str) -> str:
    """The line that explains most: the first fatal one, else the last."""
    lines = [line for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"\b(FATAL|PANIC|error):", line)]
    line = (telling or lines[-1:] or ["it said nothing"])[0]
    return re.sub(r"^.*?\b(FATAL|PANIC|error): +", "", line)


def _options(settings: Mapping[str, str]) -> list[str]:
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]


def _log_sizes(log: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in log.glob("*.log")}


def _logged_since(log: Path, before: Mapping[Path, int]) -> str:
    texts = []
    for path, size in _log_sizes(log).items():
        start = before.get(path, 0)
        text = path.read_bytes()[start if start <= size else 0 :]
        texts.append(text.decode("utf-8", errors="replace"))
    return "\n".join(texts)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
