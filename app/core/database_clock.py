"""The clock of the database as the clock of a process: a wrong or jumping clock of the machine changes
nothing that is due, overdue or expired.
"""

import threading
import time
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import func, select

from app.core.clock import CLOCK_JUMP_S, wall_clock_offset_s
from app.core.db import Database
from app.core.errors import Unavailable

# The clock of the database may be set, too.
READ_AGAIN_AFTER_S = 60.0


class ClockReading(NamedTuple):
    """The time of the database, and the clocks of this process at that moment."""

    database_time: datetime
    monotonic_s: float
    offset_s: float


class DatabaseClock:
    """A `Clock` that follows the database.

    It is read at the start, every minute and after each jump of the clock of this machine; in between the
    monotonic clock counts, which cannot be set. While the database is away the last reading counts.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._last = self._read()

    def __call__(self) -> datetime:
        # Without waiting: the other threads count from the last reading meanwhile.
        if self._is_outdated() and self._lock.acquire(blocking=False):
            try:
                self._last = self._read()
            except Unavailable:
                pass
            finally:
                self._lock.release()
        last = self._last
        return last.database_time + timedelta(seconds=time.monotonic() - last.monotonic_s)

    def _is_outdated(self) -> bool:
        last = self._last
        # A jump, or a machine that slept: the monotonic clock does not advance meanwhile.
        return (
            abs(wall_clock_offset_s() - last.offset_s) > CLOCK_JUMP_S
            or time.monotonic() - last.monotonic_s > READ_AGAIN_AFTER_S
        )

    def _read(self) -> ClockReading:
        offset_s, before_s = wall_clock_offset_s(), time.monotonic()
        with self._db.read_statement() as session:
            database_time = session.scalars(select(func.clock_timestamp())).one()
        return ClockReading(database_time, (before_s + time.monotonic()) / 2, offset_s)
