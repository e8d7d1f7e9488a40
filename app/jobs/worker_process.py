"""The identity of a worker process."""

import os
import platform
import uuid
from dataclasses import dataclass
from pathlib import Path

SUPERVISED = "MOSAICO_SUPERVISED"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOrigin:
    """The origin of a process: its machine, the boot of that machine, and its parent `mosaico
    serve`.

    `boot_id` and `supervisor` are empty where there is none. `instance` is unique to the process:
    one that registers its worker again gets another worker ID, and did not die.
    """

    machine: str
    boot_id: str
    supervisor: str
    instance: str

    @property
    def root(self) -> str:
        """Return the process that survives the death of this process: its supervisor, else the boot
        of its machine.
        """
        return self.supervisor or self.boot_id or self.machine


def read_process_origin() -> ProcessOrigin:
    """The origin of this process; read it once, because each call names another instance."""
    boot_id = BOOT_ID.read_text(encoding="ascii").strip() if BOOT_ID.exists() else ""
    return ProcessOrigin(
        machine=platform.node(),
        boot_id=boot_id,
        supervisor=os.environ.get(SUPERVISED, ""),
        instance=uuid.uuid4().hex,
    )
