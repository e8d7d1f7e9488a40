"""Locks that the kernel drops when a process dies, however it dies."""

import fcntl
import os
import secrets
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from app.postgres.errors import CannotStart

RETRY_SECONDS = 0.02


class StillLocked(CannotStart):
    """Another process holds a lock of the database for too long; end it and try again."""


_open: set[int] = set()


def _close_inherited() -> None:
    for descriptor in _open:
        os.close(descriptor)
    _open.clear()


# A forked child shares its parent's locks: it would count as an owner after the parent is gone.
os.register_at_fork(after_in_child=_close_inherited)


def _open_lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    _open.add(descriptor)
    return descriptor


def _close(descriptor: int) -> None:
    if descriptor in _open:
        _open.discard(descriptor)
        os.close(descriptor)


class FileLock:
    """At most one holder of a file, among processes and threads; not reentrant.

    `__enter__` waits `timeout` seconds, then raises `StillLocked` with `complaint`. Programs that
    were started with the `descriptor` hold the lock too, until the last of them has ended.
    """

    def __init__(self, path: Path, *, timeout: float, complaint: str) -> None:
        self._path = path
        self._timeout = timeout
        self._complaint = complaint
        self.descriptor = -1

    def __enter__(self) -> Self:
        descriptor = _open_lock(self._path)
        deadline = time.monotonic() + self._timeout
        while not _try_lock(descriptor, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                _close(descriptor)
                raise StillLocked(self._complaint)
            time.sleep(RETRY_SECONDS)
        self.descriptor = descriptor
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _close(self.descriptor)
        self.descriptor = -1


class Owner:
    """One user of the server: a locked file named after its process."""

    def __init__(self, folder: Path) -> None:
        self._process = os.getpid()
        self._path = folder / f"{self._process}-{secrets.token_hex(4)}"
        self._descriptor = _open_lock(self._path)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    @property
    def is_mine(self) -> bool:
        """False after `leave`, and in a forked child."""
        return self._descriptor in _open and self._process == os.getpid()

    def leave(self) -> None:
        if self.is_mine:
            self._path.unlink(missing_ok=True)
            _close(self._descriptor)
            self._descriptor = -1


def owner_pids(folder: Path) -> tuple[int, ...]:
    """The processes that use the server now, one entry per lease."""
    return tuple(sorted(_pid(path) for path in folder.glob("*-*") if _is_held(path)))


def sweep_owners(folder: Path) -> None:
    """Remove what owners left who were killed; the caller holds the lock of the folder."""
    for path in folder.glob("*-*"):
        if not _is_held(path):
            path.unlink(missing_ok=True)


def _is_held(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _pid(path: Path) -> int:
    return int(path.name.partition("-")[0])
