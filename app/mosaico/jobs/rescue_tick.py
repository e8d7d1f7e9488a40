"""The periodic rescue of a worker, which follows a clock of the database that may be set.

The age of a heartbeat means nothing until this process has watched that clock for as long: every heartbeat
is of the time before a jump, which a process that starts after the jump cannot notice.
"""

import logging
import time
from collections.abc import Callable

from sqlalchemy.orm import Session

from mosaico.core.db import Database
from mosaico.jobs.clock_watch import DatabaseClockWatch
from mosaico.jobs.handlers import JobHandlers
from mosaico.jobs.rescue import ABSENT_AFTER_S, SUSPENDED_AFTER_S, end_long_waits, rescue_jobs
from mosaico.jobs.silent_sessions import SilentSessions
from mosaico.jobs.worker_process import ProcessOrigin

log = logging.getLogger(__name__)


class RescueTick:
    """Rescues the jobs of dead workers; call it every `RESCUE_INTERVAL_S` seconds.

    `monotonic` is the clock that nobody can set, in seconds.
    """

    def __init__(
        self,
        db: Database,
        handlers: JobHandlers,
        rescuer: ProcessOrigin,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._db = db
        self._handlers = handlers
        self._rescuer = rescuer
        self._monotonic = monotonic
        self._silent_sessions = SilentSessions()
        self._database_clock = DatabaseClockWatch()
        # A worker that died has no presence, whatever the clock says: the first rescue takes its jobs.
        self._absence_counts_from_s = monotonic()
        self._suspension_counts_from_s = monotonic() + SUSPENDED_AFTER_S
        # The clock may have been set back while no worker ran.
        self._may_wait_too_long = True

    def __call__(self) -> None:
        with self._db.begin() as session:
            jump_s = self._database_clock.find_jump(session)
            now_s = self._monotonic()
            if jump_s:
                log.warning("the clock of the database was set by %.1f s", jump_s)
                self._absence_counts_from_s = now_s + ABSENT_AFTER_S
                self._suspension_counts_from_s = now_s + SUSPENDED_AFTER_S
                self._may_wait_too_long = True
            absence_counts = now_s >= self._absence_counts_from_s
            rescued = self._rescue(session, now_s) if absence_counts else 0
        if rescued:
            log.warning("rescued %d jobs of dead workers", rescued)
        if self._may_wait_too_long:
            # In a transaction of its own: where it fails, the rescue goes on.
            with self._db.begin() as session:
                end_long_waits(session)
            self._may_wait_too_long = not absence_counts

    def _rescue(self, session: Session, now_s: float) -> int:
        return rescue_jobs(
            session,
            self._handlers,
            self._silent_sessions,
            self._rescuer,
            suspended_after_s=(
                None if now_s < self._suspension_counts_from_s else SUSPENDED_AFTER_S
            ),
        )
