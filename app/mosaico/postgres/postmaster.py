"""The server process (postmaster), found by its lock file and the process table."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from mosaico.postgres.errors import DatabaseStartError

POLL_SECONDS = 0.02
# A checkpoint on a slow disk takes this long.
FAST_STOP_SECONDS = 60.0
IMMEDIATE_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Postmaster:
    """A server process and the port it listens on.

    A `stopping` server accepts no connections any more. After SIGTERM it waits for all clients to leave,
    which those of a service never do.
    """

    pid: int
    port: int
    stopping: bool = False


def lock_file(cluster: Path) -> Path:
    """The lock file: a server writes it at start, removes it at shutdown, leaves it in a crash."""
    return cluster / "postmaster.pid"


def find_postmaster(cluster: Path) -> Postmaster | None:
    """The running server of a cluster; it may still be starting.

    Not counted: a zombie, another program that reuses the process ID of a dead server, and the server
    of the original of a copied cluster.
    """
    postmaster = _read_lock_file(cluster)
    return postmaster if postmaster is not None and is_postmaster(postmaster.pid, cluster) else None


def is_postmaster(pid: int, cluster: Path) -> bool:
    """Return whether a process is running and is the server of this cluster."""
    try:
        process = psutil.Process(pid)
        # Root without the right to trace, as in most containers, cannot read the working folder: the
        # name of the program must do.
        return _program(process).endswith("postgres") and _works_in(
            process, cluster, if_hidden=True
        )
    except (psutil.NoSuchProcess, OSError):  # a zombie, too, is no such process
        return False


def drop_stale_lock_file(cluster: Path) -> None:
    """Remove the lock file of a server that no longer runs.

    Postgres refuses to start if the process ID in the file belongs to any process of the same user: a
    zombie, or an unrelated process after a restart of the machine or container. The caller holds the
    lock that every process of a server holds, so no process is left.
    """
    lock_file(cluster).unlink(missing_ok=True)


def end_orphaned_sessions(cluster: Path) -> None:
    """End the sessions of a killed server; crash recovery rolls back their transactions.

    Most sessions end by themselves, but a long computation does not notice the crash for minutes.
    SIGQUIT is the signal that a crashing postmaster sends. The caller guarantees that no server
    runs.
    """
    if not lock_file(cluster).exists():
        return
    # Found by the process table, because the children of a killed postmaster have no other link
    # to it.
    for process in psutil.process_iter():
        try:
            if _program(process).startswith("postgres:") and _works_in(
                process, cluster, if_hidden=False
            ):
                process.send_signal(signal.SIGQUIT)
        except (psutil.Error, OSError):
            continue


def shut_down(postmaster: Postmaster, cluster: Path) -> None:
    """Stop a server: end its sessions, roll back their transactions, write a checkpoint.

    A server that does not stop within a minute is stopped immediately and recovers at its next start.
    """
    for number, seconds in (
        # SIGINT is Postgres's fast shutdown, SIGQUIT its immediate one. SIGTERM would wait for all
        # clients to leave.
        (signal.SIGINT, FAST_STOP_SECONDS),
        (signal.SIGQUIT, IMMEDIATE_STOP_SECONDS),
    ):
        try:
            os.kill(postmaster.pid, number)
        except ProcessLookupError:  # it has already ended
            return
        if _wait_until_stopped(postmaster.pid, cluster, seconds):
            return
    raise DatabaseStartError(
        f"the server (pid {postmaster.pid}) does not stop; end it with `kill -9`"
    )


def _read_lock_file(cluster: Path) -> Postmaster | None:
    try:
        lines = lock_file(cluster).read_text(encoding="utf-8", errors="replace").splitlines()
        # The format of Postgres: line 1 is the process ID, line 4 the port, line 8 the state. A server that
        # is just starting has written only the first lines.
        stopping = [line.strip() for line in lines[7:8]] == ["stopping"]
        return Postmaster(pid=int(lines[0]), port=int(lines[3]), stopping=stopping)
    except (FileNotFoundError, ValueError, IndexError):
        return None


def _wait_until_stopped(pid: int, cluster: Path, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while is_postmaster(pid, cluster):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _program(process: psutil.Process) -> str:
    """The first word of a command line; empty for a process of the kernel."""
    return next(iter(process.cmdline()), "")


def _works_in(process: psutil.Process, cluster: Path, *, if_hidden: bool) -> bool:
    """Return whether the cluster is the working folder of a process, as it is of all of its server.

    `if_hidden` is the answer for a process whose folder this user may not read.
    """
    try:
        return Path(process.cwd()).samefile(cluster)
    except psutil.AccessDenied:
        return if_hidden
