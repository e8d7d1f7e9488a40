"""The postmaster, as the system and its own lock file show it."""

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from app.postgres.errors import CannotStart

POLL_SECONDS = 0.02
FAST_STOP_SECONDS = 60.0
IMMEDIATE_STOP_SECONDS = 10.0
PROCESSES = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Postmaster:
    """A server process and the port it listens on."""

    pid: int
    port: int


def lock_file(cluster: Path) -> Path:
    """Written by a server that starts, removed by one that shuts down, left by one that dies."""
    return cluster / "postmaster.pid"


def find_postmaster(cluster: Path) -> Postmaster | None:
    """The living server of a cluster; it may still be starting.

    A zombie, another program that got the number of a dead server, and the server of a cluster
    that this one is a copy of do not count.
    """
    noted = _noted(cluster)
    return noted if noted is not None and is_postmaster(noted.pid, cluster) else None


def is_postmaster(pid: int, cluster: Path) -> bool:
    """Whether a process lives and is the server of this cluster."""
    if not PROCESSES.joinpath("self").exists():
        return _is_postgres_by_ps(pid)
    try:
        if _state(pid) in "ZX":
            return False
        return _command(pid).endswith("postgres") and _works_in(pid, cluster) is not False
    except OSError:
        return False


def drop_stale_lock_file(cluster: Path) -> None:
    """Remove the lock file of a server that is gone.

    Postgres refuses to start when the number in it belongs to any process of the same user: a
    zombie, or a stranger after a restart of the machine or container. The caller holds the lock
    that every process of a server holds, so none is left.
    """
    lock_file(cluster).unlink(missing_ok=True)


def quit_leftovers(cluster: Path) -> None:
    """End the sessions of a server that was killed; the recovery undoes what they began.

    Most end by themselves, but one that computes for long does not look up for minutes. They are
    told what a crashing server tells its sessions. The caller knows that no server lives.
    """
    if not lock_file(cluster).exists():
        return
    for folder in PROCESSES.glob("[0-9]*"):
        pid = int(folder.name)
        try:
            if _command(pid).startswith("postgres:") and _works_in(pid, cluster):
                _send(pid, signal.SIGQUIT)
        except OSError:
            continue


def shut_down(postmaster: Postmaster, cluster: Path) -> None:
    """Stop a server: sessions are ended, transactions rolled back, everything written.

    A server that does not obey within a minute is stopped at once and recovers at its next start.
    """
    for number, seconds in (
        (signal.SIGINT, FAST_STOP_SECONDS),
        (signal.SIGQUIT, IMMEDIATE_STOP_SECONDS),
    ):
        _send(postmaster.pid, number)
        if _wait_for_end(postmaster.pid, cluster, seconds):
            return
    raise CannotStart(f"the server (pid {postmaster.pid}) does not stop; end it with kill -9")


def _noted(cluster: Path) -> Postmaster | None:
    try:
        lines = lock_file(cluster).read_text(encoding="utf-8", errors="replace").splitlines()
        return Postmaster(pid=int(lines[0]), port=int(lines[3]))
    except (FileNotFoundError, ValueError, IndexError):
        return None


def _wait_for_end(pid: int, cluster: Path, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while is_postmaster(pid, cluster):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _state(pid: int) -> str:
    text = (PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].strip()[:1] or "X"


def _command(pid: int) -> str:
    words = (PROCESSES / str(pid) / "cmdline").read_bytes().split(b"\0")
    return words[0].decode(errors="replace")


def _works_in(pid: int, cluster: Path) -> bool | None:
    """Whether the cluster is the working folder of a process; None when we may not know."""
    try:
        return (PROCESSES / str(pid) / "cwd").samefile(cluster)
    except PermissionError:  # root without the right to trace, as in most containers
        return None


def _is_postgres_by_ps(pid: int) -> bool:
    done = subprocess.run(  # noqa: S603 - a number of our own
        ["ps", "-o", "stat=,comm=", "-p", str(pid)],  # noqa: S607 - wherever the system has it
        capture_output=True,
        text=True,
        check=False,
    )
    return "postgres" in done.stdout and not done.stdout.lstrip().startswith("Z")
