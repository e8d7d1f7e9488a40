"""The data folder of the embedded database: its files and its locks.

The locks are file locks of the kernel, which releases them when a process ends, even by SIGKILL.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from mosaico.core.errors import AppError
from mosaico.core.secret_files import read_secret_file
from mosaico.postgres.errors import (
    DatabaseHasOwner,
    DatabaseStartError,
    DataVersionMismatch,
    DiskFull,
    FolderNotOwned,
)
from mosaico.postgres.programs import MAJOR, check_owner

RETRY_SECONDS = 0.02
# A `mosaico db start` or `stop` at the same time takes about this long.
OWNER_TIMEOUT_S = 5.0
MARKER = "MOSAICO"
MARKER_TEXT = "The embedded database of MOSAICO. It is started and stopped by `mosaico db`.\n"
NEEDED_BYTES = 128 * 1024 * 1024  # a new cluster takes 75 to 92 MB


class FileLock:
    """An exclusive lock among processes and threads; not reentrant.

    `__enter__` waits `timeout` seconds, then raises `error`. Programs that inherit the `descriptor`
    hold the lock, too, until the last of them ends.
    """

    def __init__(self, path: Path, *, timeout: float, error: AppError) -> None:
        self._path = path
        self._timeout = timeout
        self._error = error
        self.descriptor = -1

    def __enter__(self) -> Self:
        # O_CLOEXEC: programs that we start must not hold our locks, except where a descriptor is
        # passed on purpose.
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + self._timeout
        # Polling, because flock() has no timeout, and a signal handler works in the main thread
        # only.
        while not _try_lock(descriptor, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise self._error
            time.sleep(RETRY_SECONDS)
        self.descriptor = descriptor
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)
        self.descriptor = -1


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        # flock() and not lockf(): POSIX locks belong to the process and end when any descriptor of
        # the file is closed.
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def embedded_postgres_dir(data_dir: Path) -> Path:
    """The subfolder of the data folder for the embedded database."""
    return data_dir.expanduser().resolve() / "postgres"


class DatabaseFolder:
    """The paths and files of one embedded database."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cluster = path / "data"
        # `initdb` writes here, and a rename makes it the cluster: a killed `initdb` never leaves a
        # half cluster in `data`.
        self.incomplete_cluster = path / "data.new"
        self.log = path / "log"
        self.owner_lock = path / "lock"
        self.server_lock = path / "server.lock"
        self.port_file = path / "port"
        self.detached_mark = path / "detached"

    def password_file(self, role: str) -> Path:
        return self.path / f"{role}.password"

    def is_claimed(self) -> bool:
        """Return whether MOSAICO created this folder; raises `WrongOwner` if another user owns it."""
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

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Hold the lock of the owner. Raises: `DatabaseHasOwner`."""
        error = DatabaseHasOwner(
            f"another process owns the database in {self.path}; stop it first, for example"
            " `mosaico serve` with Ctrl-C (`mosaico db status` prints its process ID)"
        )
        with FileLock(self.owner_lock, timeout=OWNER_TIMEOUT_S, error=error) as lock:
            os.ftruncate(lock.descriptor, 0)
            os.pwrite(lock.descriptor, str(os.getpid()).encode(), 0)
            yield

    def owner_pid(self) -> int | None:
        """The process that holds the lock of the owner; None if there is none."""
        try:
            descriptor = os.open(self.owner_lock, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            # Shared: two processes that look at the same time must not take each other for the owner.
            if _try_lock(descriptor, fcntl.LOCK_SH):
                return None
            return int(os.read(descriptor, 20) or 0) or None
        finally:
            os.close(descriptor)

    def check_version(self) -> None:
        """Raise `DataVersionMismatch` unless the programs can read the cluster."""
        # Postgres itself refuses the data too, with a message that does not say what to do.
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

    def check_space(self) -> None:
        """Raise `DiskFull` if a new cluster does not fit."""
        free = shutil.disk_usage(self.path).free
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
            return int(self.port_file.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return None


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
