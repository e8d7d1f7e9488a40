"""B2 to B4 and B6: the batches of jobs, purges, key rotation and deliveries, each in a transaction of its own."""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from benchmarks.bulk.rows import BOX
from benchmarks.bulk.timings import (
    ROWS,
    Timing,
    milliseconds_per_window,
    milliseconds_since,
    time_batches,
)
from benchmarks.list_rows import TABLES
from benchmarks.table_rows import insert_rows
from mosaico.core.batch_delete import delete_batch
from mosaico.core.clock import utc_now
from mosaico.core.db import Database
from mosaico.core.key_rotation import (
    count_key_usage,
    drop_lost_secrets,
    list_encrypted_columns,
    require_known_keys,
    rotate_keys,
)
from mosaico.jobs.handlers import JobHandlers
from mosaico.jobs.rescue import rescue_jobs
from mosaico.jobs.silent_sessions import SilentSessions
from mosaico.notifications.delivery_jobs import enqueue_due_deliveries, hold_or_restart
from mosaico.notifications.models import Delivery
from mosaico.runs.retention import (
    count_runs_before,
    end_link_batch,
    purge_expired_runs,
    restore_purged_runs,
)
from mosaico.schedules.firing import delete_old_fires
from mosaico.schedules.missed_schedules import report_missed_schedules
from mosaico.table_list import METADATA
from mosaico.traces.otel.service import delete_expired_traces
from mosaico.worker import PURGES

# Of no text: only the search for them is measured.
LOST_KEY: Final = "lost"
# All rows are younger than the first time and older than the second one.
BEFORE: Final = datetime(2010, 1, 1, tzinfo=UTC)
AFTER: Final = datetime(2030, 1, 1, tzinfo=UTC)
SPANS: Final = partial(delete_expired_traces, keep=timedelta(days=30))
ALL_PURGES: Final[Mapping[str, Callable[[Session, datetime], int]]] = {
    **PURGES,
    "received_spans": SPANS,
    "schedule_fires": delete_old_fires,
    "runs": purge_expired_runs,
}

# The batches of jobs and ticks.
DROP_DELIVERIES: Final = "notifications.drop_deliveries"
HOLD_OR_RESTART: Final = "notifications.hold_or_restart"
END_LINKS: Final = "runs.end_links"
RESTORE_PURGED: Final = "purge --undo"
MISSED_SCHEDULES: Final = "missed schedules"
RESCUE: Final = "rescue"
ROTATION: Final = "rotation"
DROP_LOST: Final = "secrets drop-lost"
DUE_DELIVERIES: Final = "deliveries"
WAITING_ENDPOINTS: Final = 200
LET_WAIT: Final = """
    UPDATE deliveries SET status = 'PENDING', due_at = now() + interval '1 day',
           endpoint_id = 'waiting-' || (extract(epoch FROM created_at)::bigint % :endpoints)
"""


def time_job_batches(db: Database) -> Iterator[Timing]:
    drop = partial(delete_batch, table=Delivery, condition=Delivery.endpoint_id == "endpoint-1")
    yield time_batches(DROP_DELIVERIES, db, drop)
    restart = partial(hold_or_restart, endpoint_id="endpoint-2", now=utc_now())
    yield time_batches(HOLD_OR_RESTART, db, restart)
    yield time_batches(END_LINKS, db, partial(end_link_batch, run_id="run-8"))
    yield time_batches(MISSED_SCHEDULES, db, _report_missed)
    started = time.perf_counter()
    count_runs_before(db, AFTER)
    yield Timing("purge --dry-run", milliseconds_per_window(started, ROWS))
    started = time.perf_counter()
    restore_purged_runs(db)
    yield Timing(RESTORE_PURGED, milliseconds_per_window(started, ROWS))
    yield time_batches(RESCUE, db, _rescue)


def _report_missed(session: Session) -> int:
    report_missed_schedules(session, utc_now())
    return 1


def _rescue(session: Session) -> int:
    """The tick of a worker that looks for jobs of dead workers among all jobs."""
    rescue_jobs(session, JobHandlers(), SilentSessions())
    return 1


def time_purges(db: Database) -> Iterator[Timing]:
    """Each purge where nothing has expired, then where everything has."""
    for name, delete_some in ALL_PURGES.items():
        yield time_batches(f"{name} (young)", db, partial(_purge_nothing, delete_some))
        yield time_batches(f"{name} (old)", db, partial(_purge, delete_some))


def _purge_nothing(delete_some: Callable[[Session, datetime], int], session: Session) -> int:
    """Called again and again, as by a worker: the first call of a process compiles its statements."""
    assert delete_some(session, BEFORE) == 0
    return 1


def _purge(delete_some: Callable[[Session, datetime], int], session: Session) -> int:
    return delete_some(session, AFTER)


def time_rotation(db: Database) -> Iterator[Timing]:
    """The means of a window, for a column of which few texts need another key."""
    [column] = [
        column
        for column in list_encrypted_columns(METADATA)
        if column.name == "idempotency_keys.response"
    ]
    with db.begin() as session:
        rows = session.scalar(select(func.count()).select_from(column.table)) or 0
    started = time.perf_counter()
    rotate_keys(db, [column], BOX)
    yield Timing(ROTATION, milliseconds_per_window(started, rows))
    started = time.perf_counter()
    count_key_usage(db, [column])
    yield Timing("secrets status", milliseconds_per_window(started, rows))
    started = time.perf_counter()
    drop_lost_secrets(db, [column], LOST_KEY)
    yield Timing(DROP_LOST, milliseconds_per_window(started, rows))
    started = time.perf_counter()
    with db.read() as session:
        require_known_keys(session, [column], BOX)
    yield Timing("check at startup", milliseconds_since(started))


def time_tick(db: Database) -> Timing:
    """The tick that starts due deliveries, while all others wait for a later time."""
    with db.begin() as session:
        session.execute(text("SET LOCAL statement_timeout = 0"))
        for number in range(WAITING_ENDPOINTS):
            recipient = f"'waiting-{number}'"
            insert_rows(
                session,
                "endpoints",
                {**TABLES["endpoints"], "id": recipient, "recipient_hash": recipient},
            )
        session.execute(text(LET_WAIT), {"endpoints": WAITING_ENDPOINTS})
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SET statement_timeout = 0"))
        connection.execute(text("VACUUM ANALYZE deliveries"))

    def tick(session: Session) -> int:
        enqueue_due_deliveries(session, utc_now())
        return 1

    return time_batches(DUE_DELIVERIES, db, tick)
