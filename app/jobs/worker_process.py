"""The identity of a worker process, and what its death says about the jobs that it ran."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

SUPERVISED = "MOSAICO_SUPERVISED"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOrigin:
    """Where a process runs: its machine, the boot of that machine, and the `mosaico serve` above it.

    `boot_id` and `supervisor` are empty where there is none.
    """

    machine: str
    boot_id: str
    supervisor: str


def read_process_origin() -> ProcessOrigin:
    """The origin of this process."""
    boot_id = BOOT_ID.read_text(encoding="ascii").strip() if BOOT_ID.exists() else ""
    return ProcessOrigin(
        machine=platform.node(), boot_id=boot_id, supervisor=os.environ.get(SUPERVISED, "")
    )


def is_death_counted(
    dead: ProcessOrigin | None, rescuer: ProcessOrigin, *, database_restarted: bool
) -> bool:
    """Whether the job may have ended its worker, so that the attempt counts towards poison.

    Not counted: the database, the machine or the whole process tree of `mosaico serve` was restarted
    since the job was started. A job that ends its worker ends neither of them.
    """
    if database_restarted:
        return False
    if dead is None or dead.machine != rescuer.machine:
        return True
    return (dead.boot_id, dead.supervisor) == (rescuer.boot_id, rescuer.supervisor)
