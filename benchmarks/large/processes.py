"""Processor time and memory of the processes of a service, by role."""

from collections import defaultdict
from collections.abc import Iterator

import psutil

from benchmarks.memory import peak_mib


def cpu_seconds_by_role(parent: int, postmaster: int) -> dict[str, float]:
    """CPU seconds (user and system) so far of both process trees, ended children included.

    A process that ended counts for the role of its parent.
    """
    seconds: dict[str, float] = defaultdict(float)
    for process in _processes(parent, postmaster):
        try:
            seconds[_role(process)] += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:  # it ended since it was listed
            continue
    return seconds


def peak_mib_by_role(parent: int, postmaster: int) -> dict[str, float]:
    """The largest resident size so far of a process of each role, in MiB."""
    peaks: dict[str, float] = defaultdict(float)
    for process in _processes(parent, postmaster):
        try:
            role = _role(process)
            peaks[role] = max(peaks[role], peak_mib(process.pid))
        except (psutil.NoSuchProcess, FileNotFoundError, ValueError):
            # It ended since it was listed; a process that nobody has waited for has no size.
            continue
    return peaks


def _processes(*roots: int) -> Iterator[psutil.Process]:
    for root in roots:
        process = psutil.Process(root)
        yield process
        yield from process.children(recursive=True)


def _role(process: psutil.Process) -> str:
    line = " ".join(process.cmdline())
    if "spawn_main" in line:
        return "metric child"
    for role in ("api", "worker", "scheduler"):
        if line.endswith(f"app.cli {role}"):
            return role
    return "database" if process.name() == "postgres" else "other"
