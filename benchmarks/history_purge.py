"""The purge of a million traces of one run and of many small runs, beside a connection that inserts."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import median
from typing import Final

import psycopg

from benchmarks.history_rows import ITEMS, TRIALS, HistorySize
from benchmarks.result_rows import BenchRow
from mosaico.core.clock import utc_now
from mosaico.jobs.declarations import DropPurgedRun, DropResults, DropTraces
from mosaico.jobs.handlers import JobContext
from mosaico.runs import retention
from tests.support.service import Service
from tests.support.statement_log import StatementLog, group_transactions

LARGE_RUN_TRACES: Final = 1_000_000
SMALL_RUNS: Final = 1_000
GOAL_MS: Final = 100.0
LOCK_WAIT: Final = "10ms"
INSERTED_ROWS: Final = 500
INSERT_PAUSE_S: Final = 0.005

# A run that has more traces than any other: the rows of one trace, repeated.
GROW_TABLES: Final = (
    """
    INSERT INTO collected_traces (collection_id, position, trace_id, item_id, trial, outcome, input,
                                  expected_output, output, tags, latency_ms)
    SELECT collection_id, n, md5(n::text), item_id, 1, outcome, input, expected_output, output, tags, latency_ms
    FROM collected_traces, generate_series({first}, {last}) AS n WHERE collection_id = {collection} AND position = 0
    """,
    """
    INSERT INTO trace_results (run_seq, position, values)
    SELECT run_seq, n, values FROM trace_results, generate_series({first}, {last}) AS n
    WHERE run_seq = {seq} AND position = 0
    """,
    "UPDATE collections SET trace_count = {last} + 1 WHERE id = {collection}",
)
INSERT: Final = """
    INSERT INTO collected_traces (collection_id, position, trace_id, item_id, trial, outcome, tags, output)
    SELECT %s, n, md5(n::text), 'case-1', 1, 'scored', '{}', repeat('a word ', 100)
    FROM generate_series(%s::integer, %s::integer) AS n
"""


@dataclass(slots=True)
class ConcurrentInserts:
    """Milliseconds of each insert, and how many waited longer than `LOCK_WAIT` for a lock."""

    times: list[float] = field(default_factory=list)
    lock_waits: int = 0

    def describe(self) -> str:
        times = sorted(self.times)
        p99 = times[int(len(times) * 0.99)]
        return (
            f"median {median(times):.1f}, p99 {p99:.1f}, worst {times[-1]:.1f} ms of {len(times)},"
            f" {self.lock_waits} waited over {LOCK_WAIT} for a lock"
        )


def measure_purge(
    service: Service, superuser_url: str, log: StatementLog, size: HistorySize
) -> Iterator[BenchRow]:
    """Purges as the jobs do it. `size` is that of the history; the service is its database's."""
    job = JobContext(resources=service.resources, pool=service.pool, is_stopping=lambda: False)
    large = min(LARGE_RUN_TRACES, size.traces)
    collection, seq = _grow_run(superuser_url, f"run-{size.runs - 1}", large)
    with _inserting(superuser_url) as alone:
        time.sleep(3)  # the time of the measurement itself, not a wait for something

    def drop_large() -> None:
        retention.drop_traces(job, DropTraces(collection_id=collection))
        retention.drop_results(job, DropResults(run_seq=seq))

    undisturbed = alone.describe()
    yield _row("H8 large run", large, drop_large, superuser_url, log, undisturbed)
    small = min(SMALL_RUNS, size.runs // 10)
    yield _row(
        "H9 small runs",
        small * ITEMS * TRIALS,
        lambda: _purge_small(job, small),
        superuser_url,
        log,
        undisturbed,
    )


def _purge_small(job: JobContext, runs: int) -> None:
    """Mark the oldest runs, then delete what they have, by the jobs that the purge enqueues."""
    # Marked a day ago: the jobs delete nothing before.
    db, now = job.resources.db, utc_now() - retention.UNDO_PERIOD
    with db.read() as session:
        query = "SELECT id, seq, collection_id, completed_at FROM benchmark_runs WHERE id LIKE 'run-%%' ORDER BY seq LIMIT %s"
        marked = session.connection().exec_driver_sql(query, (runs,)).all()
    cutoff, purged = marked[-1].completed_at + timedelta(seconds=1), 1
    while purged:
        with db.begin() as session:
            purged = retention.purge_runs_before(session, cutoff, now)
    for run in marked:
        retention.drop_purged(job, DropPurgedRun(run_id=run.id, purged_at=now))
        retention.drop_results(job, DropResults(run_seq=run.seq))
        retention.drop_traces(job, DropTraces(collection_id=run.collection_id))


def _grow_run(superuser_url: str, run_id: str, traces: int) -> tuple[int, int]:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        row = connection.execute(
            "SELECT collection_id, seq FROM benchmark_runs WHERE id = %s", [run_id]
        ).fetchone()
        assert row is not None
        collection, seq = row
        for statement in GROW_TABLES:
            sql = statement.format(
                first=ITEMS * TRIALS, last=traces - 1, collection=collection, seq=seq
            )
            connection.execute(sql.encode())
        # No run uses the collection: a purge has taken it from the run.
        connection.execute("UPDATE benchmark_runs SET collection_id = NULL WHERE seq = %s", [seq])
    return collection, seq


def _row(
    name: str,
    traces: int,
    purge: Callable[[], None],
    superuser_url: str,
    log: StatementLog,
    undisturbed: str,
) -> BenchRow:
    with _inserting(superuser_url) as inserts:
        log.read_statements()
        started = time.perf_counter()
        purge()
        seconds = time.perf_counter() - started
        transactions = group_transactions(log.read_statements())
    times = [transaction.milliseconds for transaction in transactions]
    holds = max(times) <= GOAL_MS and inserts.lock_waits == 0
    return BenchRow(
        name,
        f"each transaction ≤ {GOAL_MS:g} ms, no lock wait",
        max(times) / GOAL_MS,
        holds,
        f"{traces:,} traces in {seconds:.1f} s, {len(times)} transactions: median {median(times):.1f},"
        f" worst {max(times):.1f} ms; {INSERTED_ROWS} rows inserted beside it: {inserts.describe()};"
        f" without a purge: {undisturbed}",
    )


@contextmanager
def _inserting(superuser_url: str) -> Iterator[ConcurrentInserts]:
    """Insert traces of another collection, again and again, until the block ends."""
    inserts, ended = ConcurrentInserts(), threading.Event()

    def insert() -> None:
        with psycopg.connect(superuser_url, autocommit=True) as connection:
            # Otherwise these inserts would count as statements of the purge.
            connection.execute("SET log_min_duration_statement = -1")
            connection.execute(f"SET lock_timeout = '{LOCK_WAIT}'".encode())
            row = connection.execute(
                "INSERT INTO collections (source, query, trace_count) VALUES ('local', '{}', 0) RETURNING id"
            ).fetchone()
            assert row is not None
            first = 0
            while not ended.wait(INSERT_PAUSE_S):
                started = time.perf_counter()
                try:
                    connection.execute(INSERT, [row[0], first, first + INSERTED_ROWS - 1])
                except psycopg.errors.LockNotAvailable:
                    inserts.lock_waits += 1
                inserts.times.append((time.perf_counter() - started) * 1000)
                first += INSERTED_ROWS

    thread = threading.Thread(target=insert)
    thread.start()
    try:
        yield inserts
    finally:
        ended.set()
        thread.join()
