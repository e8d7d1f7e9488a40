"""What drives schedules: a tick that fires what is due and comes again when something is."""

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from apscheduler.schedulers.background import BackgroundScheduler

from app.core.db import Database
from app.core.errors import Unavailable
from app.schedules import firing, queries, service

log = logging.getLogger(__name__)

BATCH = 2000
LONGEST_WAIT_S = 1.0
# Others hold what is due already: there is no hurry to look again.
SHORTEST_WAIT_S = 0.02
JUMP_S = 0.5


def fire_all_due(db: Database) -> float:
    """Fire everything that is due now; returns in how many seconds to come again."""
    claimed = BATCH
    while claimed == BATCH:
        with db.begin() as session:
            claimed = firing.fire_due(session, queries.database_now(session), BATCH)
    with db.read() as session:
        wait_s = queries.seconds_until_due(session)
    return LONGEST_WAIT_S if wait_s is None else min(max(wait_s, SHORTEST_WAIT_S), LONGEST_WAIT_S)


def recompute_all(db: Database) -> None:
    """Compute anew when each schedule is due: after a start, or when the clock was set back."""
    after_id: str | None = ""
    while after_id is not None:
        with db.begin() as session:
            after_id = service.recompute(session, queries.database_now(session), after_id, BATCH)


class Ticker:
    """Ticks in a thread of this process, as many of which may run as one likes.

    `chores` are done beside them, each every so many seconds. APScheduler goes by the clock of
    this machine: `watch_clock`, called about once a second, notices when that is set.
    """

    def __init__(
        self, db: Database, chores: dict[str, tuple[float, Callable[[], object]]] | None = None
    ) -> None:
        self._db = db
        self._chores = chores or {}
        self._scheduler = BackgroundScheduler(timezone="UTC")
        self._clock_ahead_s = _clock_ahead_s()
        self._recomputed = threading.Event()
        self._stopping = threading.Event()
        self._ticking = threading.Lock()

    def start(self) -> None:
        self._add("tick", LONGEST_WAIT_S, self._tick)
        for name, (interval_s, chore) in self._chores.items():
            self._add(name, interval_s, _survive(name, chore))
        self._scheduler.start()

    def stop(self) -> None:
        """End after the tick under way."""
        self._stopping.set()
        self._scheduler.shutdown(wait=False)
        with self._ticking:
            pass

    def watch_clock(self) -> None:
        """When the clock was set, tick at once and compute anew what is due."""
        ahead_s = _clock_ahead_s()
        if abs(ahead_s - self._clock_ahead_s) > JUMP_S:
            log.warning("the clock was set by %.1f s", ahead_s - self._clock_ahead_s)
            self._clock_ahead_s = ahead_s
            self._recomputed.clear()
            for job in self._scheduler.get_jobs():
                job.modify(next_run_time=datetime.now(UTC))

    def _add(self, name: str, interval_s: float, function: Callable[[], None]) -> None:
        self._scheduler.add_job(
            function,
            "interval",
            seconds=interval_s,
            id=name,
            max_instances=1,
            coalesce=True,
            misfire_grace_time=None,
            next_run_time=datetime.now(UTC),
        )

    def _tick(self) -> None:
        """Fire what is due, and stay for what is due within the next second.

        APScheduler leaves out a start while it thinks that the last one is under way: that may
        only happen when nothing is due before the start after it.
        """
        with self._ticking:
            wait_s = 0.0
            while wait_s < LONGEST_WAIT_S and not self._stopping.wait(wait_s):
                wait_s = self._fire()

    def _fire(self) -> float:
        """In how many seconds to come again."""
        try:
            if not self._recomputed.is_set():
                recompute_all(self._db)
                self._recomputed.set()
            return fire_all_due(self._db)
        except Unavailable as error:
            log.warning("a tick failed, the next one tries again: %s", error)
            return LONGEST_WAIT_S


def _clock_ahead_s() -> float:
    """How far the wall clock is ahead of the one that cannot be set."""
    return time.time() - time.monotonic()


def _survive(name: str, chore: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        try:
            chore()
        except Unavailable as error:
            log.warning("%s failed, it is tried again: %s", name, error)

    return run
