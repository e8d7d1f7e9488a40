"""B1-B8: deletions, purges, key rotation, deliveries, histories, summaries and trials at a million rows.

Each request and each transaction of a batch within 50 ms. The rows are made with SQL. Requests go to the
service over HTTP; the batches of jobs and purges are called one after the other in this process, and the
median of up to 20 counts. Set `MOSAICO_BENCH_BULK_ROWS` for another number of rows.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import httpx
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from app.access.service import create_key
from app.comparison.baselines import list_baseline_runs, list_last_valid_runs
from app.core.batch_delete import delete_batch
from app.core.clock import utc_now
from app.core.db import Database
from app.core.encryption import SecretBox
from app.core.key_rotation import (
    count_key_usage,
    drop_lost_secrets,
    list_encrypted_columns,
    require_known_keys,
    rotate_keys,
)
from app.core.migrations import upgrade
from app.core.row_windows import WINDOW_ROWS
from app.jobs.handlers import JobHandlers
from app.jobs.rescue import rescue_jobs
from app.jobs.silent_sessions import SilentSessions
from app.jobs.worker_process import read_process_origin
from app.notifications.delivery_jobs import enqueue_due_deliveries, hold_or_restart
from app.notifications.models import Delivery
from app.results.kpi_trend import list_kpi_points
from app.results.queries import get_run
from app.results.run_series import list_series_runs
from app.runs.retention import (
    count_runs_before,
    end_link_batch,
    purge_expired_runs,
    restore_purged_runs,
)
from app.schedules.firing import delete_old_fires
from app.schedules.missed_schedules import report_missed_schedules
from app.tables import METADATA
from app.traces.otel.service import delete_expired_traces
from app.traces.service import create_collection
from app.traces.trial_numbers import (
    READ_POSITIONS,
    WRITTEN_POSITIONS,
    TrialCounts,
    read_window,
    write_window,
)
from app.worker import PURGES
from benchmarks.api import MASTER_KEY, open_server
from benchmarks.list_rows import NAMES, TABLES
from benchmarks.result_rows import BenchRow
from benchmarks.table_rows import TIME, insert_rows
from tests.support.postgres import cluster, drop_database, make_database
from tests.support.results import PLAN

ROWS: Final = int(os.environ.get("MOSAICO_BENCH_BULK_ROWS", "1000000"))
GOAL_MS: Final = 50.0
BATCHES: Final = 20
REPEATS: Final = 5
DAY: Final = "2026-01-05"
BOX: Final = SecretBox.from_keys([MASTER_KEY])
# Of no text: only the search for them is measured.
LOST_KEY: Final = "lost"
CURRENT_CIPHERTEXT: Final = BOX.encrypt("{}", table="bench", row="bench", column="bench")
REQUEST_TIMEOUT_S: Final = 60
# Of an input and of an output: most rows keep them in their table.
TRACE_CHARS: Final = 600

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

RUN: Final = {
    **NAMES,
    "id": "'run-' || n",
    "status": "'COMPLETED'",
    "triggered_by": "'MANUAL'",
    "validity": "'VALID'",
    "completed_at": TIME,
    "fingerprint": "'f'",
    "source_seq": "n",
    # A source run that was evaluated ten thousand times.
    "same_source_as": "CASE WHEN n BETWEEN 11 AND 10010 THEN 'run-8' END",
}
ROWS_OF_TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "benchmark_runs": RUN,
    "kpi_history": {**TABLES["kpi_history"], **NAMES},
    # Its triggers refuse to delete entries that are young by the clock of the database.
    "audit_log": {
        **TABLES["audit_log"],
        "at": "timestamptz '2020-01-01' + n * interval '1 second'",
    },
    "trigger_events": TABLES["trigger_events"],
    "notifications": TABLES["notifications"],
    # Of one endpoint, which the benchmark deletes, and of another one with held ones.
    "deliveries": {
        **TABLES["deliveries"],
        "endpoint_id": "CASE WHEN n % 2 = 0 THEN 'endpoint-1' ELSE 'endpoint-2' END",
        "status": "CASE WHEN n % 2 = 0 THEN 'DELIVERED' ELSE 'HELD' END",
    },
    "schedule_fires": TABLES["schedule_fires"],
    "alert_events": {**TABLES["alert_events"], **NAMES},
    "incidents": {**TABLES["incidents"], **NAMES, "rule_id": "'rule-1'"},
    "idempotency_keys": {
        "id": "'key-' || n",
        "api_key_id": "'k'",
        "response": f"'{CURRENT_CIPHERTEXT}'",
        "expires_at": TIME,
    },
    "browser_sessions": {"digest": "int8send(n)", "api_key_id": "'k'", "expires_at": TIME},
    "login_links": {"digest": "int8send(n)", "api_key_id": "'k'", "expires_at": TIME},
    "llm_cache": {"key": "int8send(n)"},
    "otel_traces": {"trace_id": "'trace-' || n", "last_received_at": TIME},
    "otel_spans": {"trace_id": "'trace-' || n", "span_id": "'span'"},
}
JOBS: Final = """
    INSERT INTO procrastinate_jobs (queue_name, task_name, status)
    SELECT 'runs', 'runs.score', CASE WHEN n % 2 = 0 THEN 'todo' ELSE 'succeeded' END::procrastinate_job_status
    FROM generate_series(1, :rows) AS n
"""
WAITING_ENDPOINTS: Final = 200
LET_WAIT: Final = """
    UPDATE deliveries SET status = 'PENDING', due_at = now() + interval '1 day',
           endpoint_id = 'waiting-' || (extract(epoch FROM created_at)::bigint % :endpoints)
"""
SET_PLANS: Final = "UPDATE benchmark_runs SET plan = CAST(:plan AS jsonb) WHERE seq >= :from"
SUSPECTS: Final = 100
MAKE_SUSPECTS: Final = """
    UPDATE procrastinate_jobs SET lock = 'suspects' WHERE id IN (
        SELECT id FROM procrastinate_jobs WHERE status = 'todo' ORDER BY id LIMIT :suspects)
"""
JOB_EVENTS: Final = """
    INSERT INTO procrastinate_events (job_id, type, at)
    SELECT id, 'deferred', timestamptz '2026-01-01' + id * interval '1 second' FROM procrastinate_jobs
"""


REQUESTS: Final = (
    ("POST", "/api/v1/endpoints/endpoint-2/enable"),
    ("DELETE", "/api/v1/endpoints/endpoint-1"),
    # The deliveries of the deleted endpoint are still stored.
    ("GET", "/api/v1/deliveries"),
    ("GET", "/api/v1/deliveries?status=DELIVERED"),
    ("GET", "/api/v1/deliveries?endpointId=endpoint-1"),
    ("DELETE", "/api/v1/alert-configs/rule-1"),
    ("DELETE", "/api/v1/benchmark-runs/run-7"),
    ("DELETE", "/api/v1/benchmark-runs/run-8"),
)
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
READ_TRIALS: Final = "count trials"
WRITE_TRIALS: Final = "number trials"


class Timing(NamedTuple):
    """What was measured, and the milliseconds of its slowest statement or transaction."""

    name: str
    milliseconds: float


def measure() -> Iterator[BenchRow]:
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as running:
        drop_database(running.url, "bench_bulk")
        url = make_database(running.url, "bench_bulk")
        yield from measure_database(url, *fill(url))


def measure_database(url: str, token: str, trend_ms: float) -> Iterator[BenchRow]:
    db = Database(url, pool_size=2, name="bench-bulk")
    try:
        # First: nothing waits for an endpoint, so every notification can be purged.
        yield _row("B3 purges", "each batch", _time_purges(db))
        with (
            open_server("service", url) as server,
            httpx.Client(
                base_url=f"http://127.0.0.1:{server.port}",
                headers={"Authorization": f"Bearer {token}"},
                timeout=REQUEST_TIMEOUT_S,
            ) as client,
        ):
            yield _row("B1 bulk requests", "each request", _time_requests(client))
        yield _row("B5 trend", "without statistics", [Timing("kpi trend", trend_ms)])
        yield _row("B2 job batches", "each batch", _time_job_batches(db))
        yield _row("B4 key rotation", "each batch", _time_rotation(db))
        yield _row("B6 deliveries that wait", "each tick", [_time_tick(db)])
        yield _row("B7 earlier runs", "each query", _time_history(db))
        yield _row("B8 trials", "each statement", _time_trials(db))
    finally:
        db.dispose()


def _row(name: str, unit: str, timings: Iterable[Timing]) -> BenchRow:
    slowest_first = sorted(timings, key=lambda timing: -timing.milliseconds)
    slowest = slowest_first[0].milliseconds
    described = ", ".join(f"{timing.name} {timing.milliseconds:.1f}" for timing in slowest_first)
    return BenchRow(
        name,
        f"{unit} \u2264 {GOAL_MS:g} ms",
        slowest / GOAL_MS,
        slowest <= GOAL_MS,
        f"{ROWS:,} rows in each table; milliseconds: {described}",
    )


def _time_requests(client: httpx.Client) -> Iterator[Timing]:
    """Reads count with their fastest repetition; what changes rows is sent once."""
    for path in (f"/api/v1/daily-summary?date={DAY}", "/metrics", "/api/v1/alert-configs"):
        yield Timing(f"GET {path}", min(_time(client, "GET", path) for _ in range(REPEATS)))
    for method, path in REQUESTS:
        yield Timing(f"{method} {path}", _time(client, method, path))


def _time(client: httpx.Client, method: str, path: str) -> float:
    started = time.perf_counter()
    response = client.request(method, path)
    milliseconds = (time.perf_counter() - started) * 1000
    assert response.is_success, (path, response.text)
    return milliseconds


def _time_job_batches(db: Database) -> Iterator[Timing]:
    drop = partial(delete_batch, table=Delivery, condition=Delivery.endpoint_id == "endpoint-1")
    yield _time_batches(DROP_DELIVERIES, db, drop)
    restart = partial(hold_or_restart, endpoint_id="endpoint-2", now=utc_now())
    yield _time_batches(HOLD_OR_RESTART, db, restart)
    yield _time_batches(END_LINKS, db, partial(end_link_batch, run_id="run-8"))
    yield _time_batches(MISSED_SCHEDULES, db, _report_missed)
    started = time.perf_counter()
    count_runs_before(db, AFTER)
    yield Timing("purge --dry-run", _milliseconds_per_window(started, ROWS))
    started = time.perf_counter()
    restore_purged_runs(db)
    yield Timing(RESTORE_PURGED, _milliseconds_per_window(started, ROWS))
    with db.begin() as session:
        session.execute(text(MAKE_SUSPECTS), {"suspects": SUSPECTS})
    yield _time_batches(RESCUE, db, _rescue)


def _report_missed(session: Session) -> int:
    report_missed_schedules(session, utc_now())
    return 1


def _rescue(session: Session) -> int:
    """The tick of a worker that looks for jobs of dead workers and places the suspects among all jobs."""
    rescue_jobs(session, JobHandlers(), SilentSessions(), read_process_origin())
    return 1


def _milliseconds_per_window(started: float, rows: int) -> float:
    seconds = time.perf_counter() - started
    return seconds * 1000 / max(1, rows / WINDOW_ROWS)


def _time_purges(db: Database) -> Iterator[Timing]:
    """Each purge where nothing has expired, then where everything has."""
    for name, delete_some in ALL_PURGES.items():
        for state, now in (("young", BEFORE), ("old", AFTER)):
            yield _time_batches(f"{name} ({state})", db, partial(_call_purge, delete_some, now))


def _call_purge(
    delete_some: Callable[[Session, datetime], int], now: datetime, session: Session
) -> int:
    return delete_some(session, now)


def _time_batches(name: str, db: Database, process: Callable[[Session], int]) -> Timing:
    """The median of up to `BATCHES` transactions: single ones contain what else the machine did."""
    times: list[float] = []
    row_count = 1
    while row_count and len(times) < BATCHES:
        started = time.perf_counter()
        with db.begin() as session:
            row_count = process(session)
        times.append((time.perf_counter() - started) * 1000)
    return Timing(name, statistics.median(times))


def _time_rotation(db: Database) -> Iterator[Timing]:
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
    yield Timing(ROTATION, _milliseconds_per_window(started, rows))
    started = time.perf_counter()
    count_key_usage(db, [column])
    yield Timing("secrets status", _milliseconds_per_window(started, rows))
    started = time.perf_counter()
    drop_lost_secrets(db, [column], LOST_KEY)
    yield Timing(DROP_LOST, _milliseconds_per_window(started, rows))
    started = time.perf_counter()
    with db.read() as session:
        require_known_keys(session, [column], BOX)
    yield Timing("check at startup", (time.perf_counter() - started) * 1000)


def _time_trials(db: Database) -> Iterator[Timing]:
    """The windows of a collection of `ROWS` traces, three of each item, that all have the number 0."""
    with db.begin() as session:
        session.execute(text("SET LOCAL statement_timeout = 0"))
        collection = create_collection(session, "local", {}).id
        traces = {
            **TABLES["collected_traces"],
            "collection_id": str(collection),
            "item_id": f"'item-' || n % {max(1, ROWS // 3)}",
            "trial": "0",
            "input": f"repeat('x', {TRACE_CHARS})",
            "output": f"repeat('x', {TRACE_CHARS})",
        }
        insert_rows(session, "collected_traces", traces, ROWS)
    firsts = iter(range(0, ROWS, READ_POSITIONS))
    with closing(TrialCounts()) as counts:

        def count(session: Session) -> int:
            items, trials = read_window(session, collection, next(firsts, ROWS))
            counts.add(items, trials)
            return len(items)

        yield _time_batches(READ_TRIALS, db, count)
    written = iter(range(0, ROWS, WRITTEN_POSITIONS))

    def write(session: Session) -> int:
        write_window(session, collection, next(written), [1] * WRITTEN_POSITIONS)
        return 1

    yield _time_batches(WRITE_TRIALS, db, write)


def _time_tick(db: Database) -> Timing:
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

    return _time_batches(DUE_DELIVERIES, db, tick)


def _time_history(db: Database) -> Iterator[Timing]:
    """The queries of the newest of all runs for those that it is compared with."""
    with db.begin() as session:
        # Of those that are read: a document in each of a million rows would fill the disk.
        session.execute(text(SET_PLANS), {"plan": PLAN.model_dump_json(), "from": ROWS - 100})
    with db.read() as session:
        run = get_run(session, f"run-{ROWS}")
        for name, read in (
            ("baseline", lambda: list_baseline_runs(session, run, 5)),
            ("last valid runs", lambda: list_last_valid_runs(session, run, 5)),
            ("series", lambda: list_series_runs(session, run.seq)),
        ):
            yield Timing(name, min(_time_read(read) for _ in range(REPEATS)))


def _time_read(read: Callable[[], Sequence[object]]) -> float:
    started = time.perf_counter()
    assert read()
    return (time.perf_counter() - started) * 1000


def _time_trend(session: Session) -> float:
    started = time.perf_counter()
    assert list_kpi_points(session, "b", "a", "k")
    return (time.perf_counter() - started) * 1000


def fill(url: str) -> tuple[str, float]:
    """Fill each table with `ROWS` rows; returns an API key, and the milliseconds of the trend of a KPI
    before the tables were analyzed.
    """
    upgrade(url)
    db = Database(url, pool_size=1, name="bench-bulk")
    with db.begin() as session:
        session.execute(text("SET LOCAL statement_timeout = 0"))
        insert_rows(session, "agents", {"id": "'a'"})
        insert_rows(session, "benchmarks", {"id": "'b'", "metrics": "'[]'", "keep_days": "30"})
        kpi = {"id": "'k'", "benchmark_id": "'b'", "revision": "1", "name": "'quality'"}
        insert_rows(session, "kpi_definitions", kpi)
        for number in (1, 2):
            endpoint = {
                **TABLES["endpoints"],
                "id": f"'endpoint-{number}'",
                "recipient_hash": f"'{number}'",
                "disabled_at": "now()" if number == 2 else "NULL",
            }
            insert_rows(session, "endpoints", endpoint)
        insert_rows(
            session,
            "alert_rules",
            {**TABLES["alert_rules"], "id": "'rule-1'", "benchmark_id": "'b'", "agent_id": "'a'"},
        )
        insert_rows(session, "api_keys", {"id": "'k'", "role": "'read'"})
        for name, columns in ROWS_OF_TABLES.items():
            insert_rows(session, name, columns, ROWS)
            if name == "kpi_history":
                trend_ms = min(_time_trend(session) for _ in range(REPEATS))
        # The events of jobs are made below, all at once.
        session.execute(text("ALTER TABLE procrastinate_jobs DISABLE TRIGGER USER"))
        session.execute(text(JOBS), {"rows": ROWS})
        session.execute(text("ALTER TABLE procrastinate_jobs ENABLE TRIGGER USER"))
        session.execute(text(JOB_EVENTS))
        key = create_key(session, "bench", "admin", now=utc_now())
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SET statement_timeout = 0"))
        connection.execute(text("VACUUM ANALYZE"))
    db.dispose()
    return key.token.reveal(), trend_ms
