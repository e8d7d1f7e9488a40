"""The scheduler process: fires due schedules, fails stalled runs and deletes old fires."""

import logging
from datetime import timedelta

from mosaico.core.batch_delete import purge_in_batches
from mosaico.core.clock import utc_now
from mosaico.core.resources import Resources
from mosaico.core.settings import Settings
from mosaico.runs.stalled_runs import fail_runs_without_progress
from mosaico.schedules.firing import delete_old_fires
from mosaico.schedules.heartbeat import PERIOD_S, enqueue_heartbeat
from mosaico.schedules.rules import SCHEDULER_NAME
from mosaico.schedules.ticker import Ticker
from mosaico.startup import opened_resources, set_up_logs, stop_on_signals

log = logging.getLogger(__name__)

STALLED_RUNS_INTERVAL_S = 30.0
DELETE_INTERVAL_S = 3600.0


def run_scheduler(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT. Any number of schedulers may run in parallel."""
    set_up_logs(settings)
    stopping = stop_on_signals()
    stale_after = timedelta(seconds=settings.stale_run_s)
    with opened_resources(settings, name=SCHEDULER_NAME, pool_size=3) as resources:
        ticker = Ticker(
            resources.db,
            chores={
                "fail-stalled-runs": (
                    STALLED_RUNS_INTERVAL_S,
                    lambda: fail_stalled_runs(resources, stale_after),
                ),
                "heartbeat": (PERIOD_S, lambda: enqueue_heartbeat(resources)),
                "delete-old-fires": (
                    DELETE_INTERVAL_S,
                    lambda: purge_in_batches(
                        resources.db, "schedule_fires", delete_old_fires, utc_now
                    ),
                ),
            },
        )
        ticker.start()
        log.info("scheduler is ready")
        stopping.wait()
        ticker.stop()


def fail_stalled_runs(resources: Resources, stale_after: timedelta) -> None:
    """Fail runs that make no progress and have no job left."""
    with resources.db.begin() as session:
        fail_runs_without_progress(session, resources.clock(), stale_after)
