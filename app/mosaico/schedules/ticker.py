"""The clock of the scheduler process: calls `firing` whenever a schedule is due."""

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from apscheduler.schedulers.background import BackgroundScheduler

from mosaico.core.db import Database
from mosaico.core.errors import Unavailable
from mosaico.jobs.clock_watch import ClockWatch, DatabaseClockWatch, PeriodicTrigger, run_jobs_now
from mosaico.schedules import firing, queries, service

log = logging.getLogger(__name__)

# Schedules per transaction: large enough for 1,000 schedules on one second, small enough for the
# statement timeout.
BATCH_SIZE = 2000
# A schedule that is created or edited now is noticed within this time.
MAX_WAIT_S = 1.0
# When other schedulers hold the locks of everything that is due, polling faster is useless.
MIN_WAIT_S = 0.02


def fire_all_due(db: Database) -> float:
    """Fire every schedule that is due; returns the seconds until the next call is needed."""
    claimed = BATCH_SIZE
    while claimed == BATCH_SIZE:
        with db.begin() as session:
            # The time is read in each transaction: during a long catch-up the next instants become
            # due.
            claimed = firing.fire_due(session, queries.database_now(session), BATCH_SIZE)
    with db.read() as session:
        wait_s = queries.seconds_until_due(session)
    return MAX_WAIT_S if wait_s is None else min(max(wait_s, MIN_WAIT_S), MAX_WAIT_S)


def recompute_all(db: Database) -> None:
    """Recompute every `next_run_at`: after a start, or after the clock was set back."""
    # Pages by id, because the recomputed column itself cannot be the cursor.
    after_id: str | None = ""
    while after_id is not None:
        with db.begin() as session:
            now = queries.database_now(session)
            after_id = service.recompute_next_runs(session, now, after_id, BATCH_SIZE)


class Ticker:
    """Fires schedules in a thread of this process; any number of processes may run one.

    `chores` maps names to (interval in seconds, function); they run in threads of their own.
    APScheduler follows the clock of this machine: call `watch_clock` about once a second to notice
    that the clock was set.
    """

    def __init__(
        self, db: Database, chores: dict[str, tuple[float, Callable[[], object]]] | None = None
    ) -> None:
        self._db = db
        self._chores = chores or {}
        self._scheduler = BackgroundScheduler(timezone="UTC")
        self._clock_watch = ClockWatch()
        self._database_clock = DatabaseClockWatch()
        # Not set at the start: the zone data may have changed while no scheduler ran.
        self._recomputed = threading.Event()
        self._stopping = threading.Event()
        self._ticking = threading.Lock()

    def start(self) -> None:
        self._add_job("tick", MAX_WAIT_S, self._tick)
        for name, (interval_s, chore) in self._chores.items():
            self._add_job(name, interval_s, _retry_when_unavailable(name, chore))
        self._scheduler.start()

    def stop(self) -> None:
        """Stop, after the tick in progress has ended."""
        self._stopping.set()
        # Without waiting: a chore in progress can take long, and only an interrupted tick would
        # matter.
        self._scheduler.shutdown(wait=False)
        with self._ticking:
            pass

    def watch_clock(self) -> None:
        """If the clock was set, tick at once and recompute when schedules are due."""
        jump_s = self._clock_watch.find_jump()
        if jump_s:
            log.warning("the clock was set by %.1f s", jump_s)
            self._recomputed.clear()
            run_jobs_now(self._scheduler)

    def _watch_database_clock(self) -> None:
        """If the clock of the database was set back, its schedules would wait until the old time comes."""
        with self._db.read() as session:
            jump_s = self._database_clock.find_jump(session)
        if jump_s:
            log.warning("the clock of the database was set by %.1f s", jump_s)
            self._recomputed.clear()

    def _add_job(self, name: str, interval_s: float, function: Callable[[], None]) -> None:
        self._scheduler.add_job(
            function,
            PeriodicTrigger(interval_s),
            id=name,
            max_instances=1,
            # One call for all that were missed: a tick looks at the table, not at how often it was
            # called.
            coalesce=True,
            # Never dropped for being late: APScheduler's default drops a call that is more than 1 s
            # late.
            misfire_grace_time=None,
            next_run_time=datetime.now(UTC),
        )

    def _tick(self) -> None:
        """Fire until nothing is due within the next second.

        APScheduler omits a start while it believes that the previous one still runs. That is
        harmless only if nothing is due before the start after it: hence the loop.
        """
        # Only for `stop`: APScheduler does not overlap two calls of one job.
        with self._ticking:
            wait_s = 0.0
            while wait_s < MAX_WAIT_S and not self._stopping.wait(wait_s):
                wait_s = self._fire()

    def _fire(self) -> float:
        """Fire what is due; returns the seconds to wait."""
        try:
            self._watch_database_clock()
            # Here and not in `start`, so that a database that is away only delays it.
            if not self._recomputed.is_set():
                recompute_all(self._db)
                self._recomputed.set()
            return fire_all_due(self._db)
        # Any other error is a defect: APScheduler logs its traceback and calls again at the next
        # interval.
        except Unavailable as error:
            log.warning("a tick failed and is repeated in %g s: %s", MAX_WAIT_S, error)
            return MAX_WAIT_S


def _retry_when_unavailable(name: str, chore: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        try:
            chore()
        except Unavailable as error:
            log.warning("%s failed and is repeated at its next interval: %s", name, error)

    return run
