"""The clock of the database as the clock of a process: a wrong clock of the machine changes nothing that is
due, overdue or expired.
"""

import threading
import time
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import func, select

from mosaico.core.db import Database
from mosaico.core.errors import Unavailable

# The clock of the database may be set, and this machine may sleep: the monotonic clock stands still meanwhile.
READ_AGAIN_AFTER_S = 10.0


class ClockReading(NamedTuple):
    """The time of the database, and the monotonic clock of this process at that moment."""

    database_time: datetime
    monotonic_s: float


class DatabaseClock:
    """A `Clock` that follows the database.

    It is read at the start and every ten seconds; in between the monotonic clock counts, which cannot be
    set. While the database is away the last reading counts. A caller never waits, because it may be the
    event loop of the API.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._last = self._read()
        self._next_reading_s = self._last.monotonic_s + READ_AGAIN_AFTER_S

    def __call__(self) -> datetime:
        if time.monotonic() >= self._next_reading_s and self._lock.acquire(blocking=False):
            threading.Thread(target=self._read_again, name="database clock", daemon=True).start()
        last = self._last
        return last.database_time + timedelta(seconds=time.monotonic() - last.monotonic_s)

    def _read_again(self) -> None:
        try:
            self._last = self._read()
        except Unavailable:
            pass
        finally:
            self._next_reading_s = time.monotonic() + READ_AGAIN_AFTER_S
            self._lock.release()

    def _read(self) -> ClockReading:
        before_s = time.monotonic()
        with self._db.read_statement() as session:
            database_time = session.scalars(select(func.clock_timestamp())).one()
        return ClockReading(database_time, (before_s + time.monotonic()) / 2)
