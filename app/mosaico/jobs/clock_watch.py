"""Periodic functions go on after the clock of the machine or of the database was set.

APScheduler follows the wall clock: after a jump backwards it would wait until the old time comes again,
and after one forwards it would count every start that it missed.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mosaico.core.clock import CLOCK_JUMP_S, wall_clock_offset_s

# Heartbeats and presences tolerate less.
DATABASE_CLOCK_JUMP_S = 2.0


class PeriodicTrigger(BaseTrigger):  # type: ignore[misc]
    """Starts a function every `interval_s` seconds, and once for all starts that were missed.

    The trigger of APScheduler lists them one by one, after a jump of 60 days millions. All threads of the
    process wait meanwhile: on a busy machine so long that its jobs are taken away from it.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval = timedelta(seconds=interval_s)

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """The first start after `now`."""
        due = (previous_fire_time or now) + self._interval
        return due if due > now else now + self._interval


class ClockWatch:
    """Notices that the clock was set; call it about once a second."""

    def __init__(self) -> None:
        self._offset_s = wall_clock_offset_s()

    def find_jump(self) -> float:
        """The seconds by which the clock was set since the last call; 0 if it was not."""
        offset_s = wall_clock_offset_s()
        jump_s = offset_s - self._offset_s
        if abs(jump_s) <= CLOCK_JUMP_S:
            return 0.0
        self._offset_s = offset_s
        return jump_s


class _OffsetRange(NamedTuple):
    """The limits of the difference between the clock of the database and the monotonic clock, in seconds."""

    lowest_s: float
    highest_s: float


class DatabaseClockWatch:
    """Notices that the clock of the database was set; call it every few seconds."""

    def __init__(self) -> None:
        self._range: _OffsetRange | None = None

    def find_jump(self, session: Session) -> float:
        """The seconds by which the clock was set since the last call, at least; 0 if it was not."""
        sent_s = time.monotonic()
        database_s = session.scalars(select(func.clock_timestamp())).one().timestamp()
        # The answer of a busy database may take seconds, which is not a jump.
        offsets = _OffsetRange(database_s - time.monotonic(), database_s - sent_s)
        earlier, self._range = self._range or offsets, offsets
        forward_s = offsets.lowest_s - earlier.highest_s
        backward_s = offsets.highest_s - earlier.lowest_s
        if forward_s > DATABASE_CLOCK_JUMP_S:
            return forward_s
        return backward_s if backward_s < -DATABASE_CLOCK_JUMP_S else 0.0


def run_jobs_now(scheduler: BackgroundScheduler) -> None:
    """Run every periodic function now, and then at its interval again."""
    for job in scheduler.get_jobs():
        job.modify(next_run_time=datetime.now(UTC))
