"""The data folder of the embedded database: its files, its owner, and its locks.

The locks are file locks of the kernel, which releases them when a process ends, even by SIGKILL.
"""

import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mosaico.core.secret_files import read_secret_file
from mosaico.postgres.errors import (
    DatabaseStartError,
    DataVersionMismatch,
    DiskFull,
    FolderNotOwned,
)
from mosaico.postgres.programs import MAJOR, check_owner

RETRY_SECONDS = 0.02


class StillLocked(DatabaseStartError):
    """Another process holds a lock of the database for too long; end that process and try again."""

    code = DatabaseStartError.code


_open_descriptors: set[int] = set()


def _close_inherited() -> None:
    for descriptor in _open_descriptors:
        os.close(descriptor)
    _open_descriptors.clear()


# A forked child inherits the locks of its parent and would count as an owner after the parent ended.
os.register_at_fork(after_in_child=_close_inherited)


def _open_lock_file(path: Path) -> int:
    # O_CLOEXEC: programs that we start must not hold our locks, except where a descriptor is passed
    # on purpose.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    _open_descriptors.add(descriptor)
    return descriptor


def _close(descriptor: int) -> None:
    if descriptor in _open_descriptors:
        _open_descriptors.discard(descriptor)
        os.close(descriptor)


class FileLock:
    """An exclusive lock among processes and threads; not reentrant.

    `__enter__` waits `timeout` seconds, then raises `StillLocked` with `complaint`. Programs that
    inherit the `descriptor` hold the lock, too, until the last of them ends.
    """

    def __init__(self, path: Path, *, timeout: float, complaint: str) -> None:
        self._path = path
        self._timeout = timeout
        self._complaint = complaint
        self.descriptor = -1

    def __enter__(self) -> Self:
        descriptor = _open_lock_file(self._path)
        deadline = time.monotonic() + self._timeout
        # Polling, because flock() has no timeout, and a signal handler works in the main thread
        # only.
        while not _try_lock(descriptor, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                _close(descriptor)
                raise StillLocked(self._complaint)
            time.sleep(RETRY_SECONDS)
        self.descriptor = descriptor
        return self

    def __exit__(self, *_: object) -> None:
        _close(self.descriptor)
        self.descriptor = -1


class DatabaseOwner:
    """A process that uses the server: a locked file named after its process ID."""

    def __init__(self, folder: Path) -> None:
        self._process = os.getpid()
        # The suffix allows several owners in one process.
        self._path = folder / f"{self._process}-{secrets.token_hex(4)}"
        self._descriptor = _open_lock_file(self._path)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    @property
    def is_mine(self) -> bool:
        """False after `leave`, and in a forked child."""
        return self._descriptor in _open_descriptors and self._process == os.getpid()

    def leave(self) -> None:
        if self.is_mine:
            # Before the lock is released: a free file would count as one of a killed owner.
            self._path.unlink(missing_ok=True)
            _close(self._descriptor)
            self._descriptor = -1


def owner_pids(folder: Path) -> tuple[int, ...]:
    """The IDs of the processes that use the server, one entry per owner."""
    # A file without a lock belongs to a killed owner, whatever process has its ID now.
    return tuple(sorted(_pid(path) for path in folder.glob("*-*") if _is_held(path)))


def remove_dead_owners(folder: Path) -> None:
    """Remove the files of killed owners; the caller holds the lock of the folder."""
    for path in folder.glob("*-*"):
        if not _is_held(path):
            path.unlink(missing_ok=True)


def _is_held(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared: two processes that look at the same time must not take each other for the owner.
        return not _try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        # flock() and not lockf(): POSIX locks belong to the process and end when any descriptor of
        # the file is closed.
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _pid(path: Path) -> int:
    return int(path.name.partition("-")[0])


MARKER = "MOSAICO"
MARKER_TEXT = "The embedded database of MOSAICO. It is started and stopped by `mosaico db`.\n"
HIGHEST_PORT = 65535
NEEDED_BYTES = 128 * 1024 * 1024  # a new cluster takes 75 to 92 MB


def embedded_postgres_dir(data_dir: Path) -> Path:
    """The subfolder of the data folder for the embedded database."""
    return data_dir.expanduser().resolve() / "postgres"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFolder:
    """The paths and files of one embedded database."""

    path: Path

    @property
    def cluster(self) -> Path:
        return self.path / "data"

    @property
    def incomplete_cluster(self) -> Path:
        # `initdb` writes here, and a rename makes it the cluster: a killed `initdb` never leaves a
        # half cluster in `data`.
        return self.path / "data.new"

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def owners(self) -> Path:
        return self.path / "owners"

    @property
    def runtime(self) -> Path:
        return self.path / "runtime"

    @property
    def decision_lock(self) -> Path:
        return self.path / "lock"

    @property
    def server_lock(self) -> Path:
        return self.path / "server.lock"

    @property
    def port_file(self) -> Path:
        return self.path / "port"

    @property
    def detached_mark(self) -> Path:
        return self.path / "detached"

    @property
    def stopped_mark(self) -> Path:
        return self.path / "stopped"

    def password_file(self, role: str) -> Path:
        return self.path / f"{role}.password"

    def is_claimed(self) -> bool:
        """Return whether MOSAICO created this folder; raises `WrongOwner` if another user
        owns it.
        """
        if not (self.path / MARKER).is_file():
            return False
        check_owner(self.path)
        return True

    def claim(self) -> None:
        """Create the folder, or check that MOSAICO created it.

        Raises: `FolderNotOwned`, `WrongOwner`. A refused folder is not changed.
        """
        _make_private_folder(self.path.parent)
        _make_private_folder(self.path)
        check_owner(self.path)
        if MARKER not in (names := {path.name for path in self.path.iterdir()}):
            # Postgres would change the modes of files here, and `db` commands delete: never in a
            # folder of somebody else.
            if names:
                raise FolderNotOwned(
                    f"{self.path} is not empty and was not created by MOSAICO;"
                    " move it away, or set MOSAICO_DATA_DIR to another folder"
                )
            (self.path / MARKER).write_text(MARKER_TEXT, encoding="utf-8")
        self.owners.mkdir(mode=0o700, exist_ok=True)

    def check_version(self) -> None:
        """Raise `DataVersionMismatch` unless the programs can read the cluster."""
        written = self.written_version()
        if written != str(MAJOR):
            raise DataVersionMismatch(
                f"{self.cluster} was written by Postgres {written or 'of unknown version'}, and"
                f" this version of MOSAICO runs Postgres {MAJOR}; dump it with the version that wrote it"
                f" and load the dump here, or move {self.path} away to start with an empty database"
            )

    def written_version(self) -> str | None:
        """The major version that wrote the cluster; None without a cluster."""
        try:
            return (self.cluster / "PG_VERSION").read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return None

    def check_space(self, free_bytes: Callable[[Path], int]) -> None:
        """Raise `DiskFull` if a new cluster does not fit."""
        free = free_bytes(self.path)
        if free < NEEDED_BYTES:
            raise DiskFull(
                f"the disk of {self.path} is full: {free // 2**20} MB are free, a new database"
                f" needs {NEEDED_BYTES // 2**20} MB; free some space and start again"
            )

    def password(self, role: str) -> str:
        """The password of a database role; raises `DatabaseStartError` if its file is missing."""
        password = read_secret_file(self.password_file(role))
        if not password:
            raise DatabaseStartError(
                f"{self.password_file(role)} is missing and no role can log in without it; restore it from a"
                f" backup, or move {self.path} away to start with an empty database"
            )
        return password

    def last_port(self) -> int | None:
        """The port of the last start; None before the first start or if the file is not valid."""
        try:
            port = int(self.port_file.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return None
        return port if 0 < port <= HIGHEST_PORT else None


def free_bytes(path: Path) -> int:
    """The free space on the disk of a folder, in bytes."""
    return shutil.disk_usage(path).free


def _make_private_folder(path: Path) -> None:
    try:
        # The mode of an existing folder is never changed: MOSAICO did not create it.
        path.mkdir(parents=True)
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    # Started by root, the server runs as another user, who must be able to enter its folder.
    path.chmod(0o711 if os.geteuid() == 0 else 0o700)
