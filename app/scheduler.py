"""The scheduler process: fires schedules when they are due, and sweeps up runs that stand still."""

import logging
import signal
import threading
from datetime import timedelta

from app.core.resources import Resources
from app.core.settings import Settings
from app.runs.stalled_runs import fail_stale_runs
from app.schedules.firing import purge_fires
from app.schedules.tick import Ticker
from app.startup import opened_resources, set_up_logs

log = logging.getLogger(__name__)

SWEEP_INTERVAL_S = 30.0
PURGE_INTERVAL_S = 3600.0
WATCH_S = 1.0


def run_scheduler(settings: Settings) -> None:
    """Tick until SIGTERM or SIGINT. Any number of these may run beside each other."""
    set_up_logs(settings)
    stopping = threading.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: stopping.set())
    stale_after = timedelta(seconds=settings.stale_run_s)
    with opened_resources(settings, name="mosaico-scheduler", pool_size=3) as resources:
        ticker = Ticker(
            resources.db,
            chores={
                "sweep": (SWEEP_INTERVAL_S, lambda: sweep(resources, stale_after)),
                "purge": (PURGE_INTERVAL_S, lambda: purge(resources)),
            },
        )
        ticker.start()
        log.info("scheduler is ready")
        while not stopping.wait(WATCH_S):
            ticker.watch_clock()
        ticker.stop()


def sweep(resources: Resources, stale_after: timedelta) -> None:
    """Fail the runs that nobody goes on with."""
    with resources.db.begin() as session:
        stale = fail_stale_runs(session, resources.clock(), stale_after)
    if stale:
        log.warning("failed %d runs that stood still: %s", len(stale), ", ".join(stale))


def purge(resources: Resources) -> None:
    """Forget old instants, piece by piece."""
    purged = 1
    while purged:
        with resources.db.begin() as session:
            purged = purge_fires(session, resources.clock())
