"""Processor time and memory of the processes of a service, by role."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import psutil

from benchmarks.running_service import RunningService
from mosaico.postgres.server import EmbeddedPostgres


def cpu_seconds_by_role(service: RunningService) -> dict[str, float]:
    """CPU seconds (user and system) so far of a service and its database, ended children included.

    A process that ended counts for the role of its parent.
    """
    seconds: dict[str, float] = defaultdict(float)
    for process in _processes(service):
        try:
            seconds[_role(process)] += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:  # it ended since it was listed
            continue
    return seconds


def peak_mib_by_role(service: RunningService) -> dict[str, float]:
    """The largest resident size so far of a process of each role, in MiB."""
    peaks: dict[str, float] = defaultdict(float)
    for process in _processes(service):
        try:
            role = _role(process)
            peaks[role] = max(peaks[role], peak_mib(process.pid))
        except (psutil.NoSuchProcess, FileNotFoundError, ValueError):
            # It ended since it was listed; a process that nobody has waited for has no size.
            continue
    return peaks


def process_of_role(service: RunningService, role: str) -> psutil.Process:
    """The process of a service with this role, such as `api`."""
    return next(process for process in _processes(service) if _role(process) == role)


def _processes(service: RunningService) -> Iterator[psutil.Process]:
    """The processes of a service and of its database."""
    postmaster = EmbeddedPostgres(service.data_dir).status().pid
    assert postmaster is not None
    for root in (service.pid, postmaster):
        process = psutil.Process(root)
        yield process
        yield from process.children(recursive=True)


def _role(process: psutil.Process) -> str:
    line = " ".join(process.cmdline())
    if "spawn_main" in line:
        return "metric child"
    for role in ("api", "worker", "scheduler"):
        if line.endswith(f"-m mosaico {role}"):
            return role
    return "database" if process.name() == "postgres" else "other"


def peak_mib(pid: int) -> float:
    """The largest resident size of a process so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024
