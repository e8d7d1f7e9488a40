"""The server process (postmaster), found by its lock file and the process table."""

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from mosaico.postgres.errors import DatabaseStartError

POLL_SECONDS = 0.02
# A checkpoint on a slow disk takes this long.
FAST_STOP_SECONDS = 60.0
IMMEDIATE_STOP_SECONDS = 10.0
PROCESSES = Path("/proc")


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
    # macOS has no /proc.
    if not PROCESSES.joinpath("self").exists():
        return _is_postgres_by_ps(pid)
    try:
        if _state(pid) in "ZX":
            return False
        # A postmaster works in its cluster. Without the right to know (None) the name must do.
        return _command(pid).endswith("postgres") and _has_working_folder(pid, cluster) is not False
    except OSError:
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
    for folder in PROCESSES.glob("[0-9]*"):
        # Found by the process table, because the children of a killed postmaster have no other link
        # to it.
        pid = int(folder.name)
        try:
            if _command(pid).startswith("postgres:") and _has_working_folder(pid, cluster):
                _send(pid, signal.SIGQUIT)
        except OSError:
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
        _send(postmaster.pid, number)
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


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    # It has already ended.
    except ProcessLookupError:
        return


def _state(pid: int) -> str:
    text = (PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    # The name in brackets may itself contain brackets and spaces: the state follows the last one.
    return text.rpartition(")")[2].strip()[:1] or "X"


def _command(pid: int) -> str:
    words = (PROCESSES / str(pid) / "cmdline").read_bytes().split(b"\0")
    return words[0].decode(errors="replace")


def _has_working_folder(pid: int, cluster: Path) -> bool | None:
    """Return whether the cluster is the working folder of a process; None without permission to
    read it.
    """
    try:
        return (PROCESSES / str(pid) / "cwd").samefile(cluster)
    except PermissionError:  # root without the right to trace, as in most containers
        return None


def _is_postgres_by_ps(pid: int) -> bool:
    done = subprocess.run(  # noqa: S603 - the argument is a process ID
        ["ps", "-o", "stat=,comm=", "-p", str(pid)],  # noqa: S607 - wherever the system has it
        capture_output=True,
        text=True,
        check=False,
    )
    return "postgres" in done.stdout and not done.stdout.lstrip().startswith("Z")
