"""The clock of the database as the clock of a process: a wrong or jumping clock of the machine changes
nothing that is due, overdue or expired.
"""

import math
import threading
import time
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import func, select

from mosaico.core.clock import CLOCK_JUMP_S, wall_clock_offset_s
from mosaico.core.db import Database
from mosaico.core.errors import Unavailable

# The clock of the database may be set, too.
READ_AGAIN_AFTER_S = 60.0
# After a failure: each attempt may take as long as a connection.
RETRY_AFTER_S = 1.0
# A reading takes a millisecond. The thread goes on if the database does not answer in time.
MAX_WAIT_S = 0.1


class ClockReading(NamedTuple):
    """The time of the database, and the clocks of this process at that moment."""

    database_time: datetime
    monotonic_s: float
    offset_s: float


class DatabaseClock:
    """A `Clock` that follows the database.

    It is read at the start, every minute and after each jump of the clock of this machine; in between the
    monotonic clock counts, which cannot be set. While the database is away the last reading counts. A
    caller waits for at most `MAX_WAIT_S`, because it may be the event loop of the API.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._last = self._read()
        self._next_reading_s = -math.inf

    def __call__(self) -> datetime:
        # Without waiting: the other threads count from the last reading meanwhile.
        if self._is_outdated() and self._lock.acquire(blocking=False):
            reader = threading.Thread(target=self._read_again, name="database clock", daemon=True)
            reader.start()
            reader.join(MAX_WAIT_S)
        last = self._last
        return last.database_time + timedelta(seconds=time.monotonic() - last.monotonic_s)

    def _is_outdated(self) -> bool:
        last = self._last
        if time.monotonic() < self._next_reading_s:
            return False
        # A jump, or a machine that slept: the monotonic clock does not advance meanwhile.
        return (
            abs(wall_clock_offset_s() - last.offset_s) > CLOCK_JUMP_S
            or time.monotonic() - last.monotonic_s > READ_AGAIN_AFTER_S
        )

    def _read_again(self) -> None:
        try:
            self._last = self._read()
        except Unavailable:
            self._next_reading_s = time.monotonic() + RETRY_AFTER_S
        finally:
            self._lock.release()

    def _read(self) -> ClockReading:
        offset_s, before_s = wall_clock_offset_s(), time.monotonic()
        with self._db.read_statement() as session:
            database_time = session.scalars(select(func.clock_timestamp())).one()
        return ClockReading(database_time, (before_s + time.monotonic()) / 2, offset_s)
