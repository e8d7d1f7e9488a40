"""Processor time of the service and its database: unlike the time on a clock, other programs do not make it longer."""

import time
from pathlib import Path
from typing import Final

import psutil
from sqlalchemy import text

from app.core.db import Database

_BACKENDS: Final = text(
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    " AND backend_type IN ('client backend', 'parallel worker')"
)


class ProcessorClock:
    """Counts from its creation; the service runs in threads of this process."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._backends = self._read_backends()
        self._started_s = time.process_time()

    def elapsed_ms(self) -> float:
        """The processor time of this process and of the connections of the database."""
        process_s = time.process_time() - self._started_s
        backends = self._read_backends()
        database_s = sum(used_s - self._backends.get(pid, 0.0) for pid, used_s in backends.items())
        return 1000 * (process_s + database_s)

    def _read_backends(self) -> dict[int, float]:
        with self._db.read() as session:
            pids = list(session.scalars(_BACKENDS))
        return {pid: used_s for pid in pids if (used_s := _read_used_s(pid)) is not None}


def _read_used_s(pid: int) -> float | None:
    """The processor time of a process; None if it has ended."""
    try:
        # In nanoseconds; other counters advance by 10 ms.
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, IndexError):
        pass
    try:
        return float(sum(psutil.Process(pid).cpu_times()[:2]))
    except psutil.NoSuchProcess:
        return None
