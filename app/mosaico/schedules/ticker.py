"""The loop of the scheduler process: calls `firing` whenever a schedule is due."""

import logging
import threading
from collections.abc import Callable

from mosaico.core.db import Database
from mosaico.core.errors import Unavailable
from mosaico.core.periodic_functions import PeriodicFunctions
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
    """Recompute every `next_run_at`."""
    # Pages by id, because the recomputed column itself cannot be the cursor.
    after_id: str | None = ""
    while after_id is not None:
        with db.begin() as session:
            now = queries.database_now(session)
            after_id = service.recompute_next_runs(session, now, after_id, BATCH_SIZE)


class Ticker:
    """Fires schedules in a thread of this process; any number of processes may run one.

    `chores` maps names to (interval in seconds, function); they run in threads of their own.
    """

    def __init__(
        self, db: Database, chores: dict[str, tuple[float, Callable[[], object]]] | None = None
    ) -> None:
        self._db = db
        self._chores = chores or {}
        self._functions = PeriodicFunctions()
        # Not at the start: the zone data or the clock of the database may have changed while no scheduler
        # ran.
        self._is_recomputed = False
        self._stopping = threading.Event()
        self._ticking = threading.Lock()

    def start(self) -> None:
        functions = {"tick": (MAX_WAIT_S, self._tick), **self._chores}
        for name, (interval_s, function) in functions.items():
            self._functions.start(name, interval_s, function, is_first_at_once=True)

    def stop(self) -> None:
        """Stop, after the tick in progress has ended. A chore in progress goes on: the process waits for it when
        it exits.
        """
        self._stopping.set()
        self._functions.stop()
        with self._ticking:
            pass

    def _tick(self) -> None:
        """Fire until nothing is due within the next second, after which it is called again."""
        # Only for `stop`: the calls do not overlap.
        with self._ticking:
            wait_s = 0.0
            while wait_s < MAX_WAIT_S and not self._stopping.wait(wait_s):
                wait_s = self._fire()

    def _fire(self) -> float:
        """Fire what is due; returns the seconds to wait."""
        try:
            # Here and not in `start`, so that a database that is away only delays it.
            if not self._is_recomputed:
                recompute_all(self._db)
                self._is_recomputed = True
            return fire_all_due(self._db)
        except Unavailable as error:
            log.warning("a tick failed and is repeated in %g s: %s", MAX_WAIT_S, error)
            return MAX_WAIT_S
