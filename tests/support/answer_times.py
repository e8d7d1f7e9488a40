"""Times of the service as on a quiet machine: without the time that its threads waited for a processor."""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from sqlalchemy import text

from mosaico.core.db import Database

_BACKENDS: Final = text("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")


class AnswerTimer:
    """Measures acts of the service, which runs in threads of this process, one act after the other.

    Unlike processor time, its times contain every wait: for a lock, for the database, for a pause. Waits for a
    processor, which other programs cause, are known to Linux; elsewhere they count.
    """

    def __init__(self, db: Database) -> None:
        with db.read() as session:
            self._backends = [Path(f"/proc/{pid}/schedstat") for pid in session.scalars(_BACKENDS)]

    def time_ms(self, act: Callable[[], object]) -> float:
        before = self._read_delays_s()
        started_s = time.perf_counter()
        act()
        passed_s = time.perf_counter() - started_s
        delays_s = (delay - before.get(file, 0.0) for file, delay in self._read_delays_s().items())
        return 1000 * (passed_s - sum(delays_s))

    def _read_delays_s(self) -> Mapping[Path, float]:
        """The seconds that each thread waited for a processor since its start."""
        files: Iterable[Path] = [*Path("/proc/self/task").glob("*/schedstat"), *self._backends]
        return {file: delay for file in files if (delay := _read_delay_s(file)) is not None}


def _read_delay_s(file: Path) -> float | None:
    """None of a thread that has ended."""
    try:
        return int(file.read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return None
