"""The stored rows of a run, in a form in which two runs can be compared."""

import random
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, NamedTuple

import psycopg
from sqlalchemy import text

from mosaico.core.db import Database
from mosaico.core.engine import libpq_url
from tests.support.service import JSON, pair

WORDS = ["the", "pelican", "flew", "over", "a", "harbor", "and", "nobody", "saw", "it", "land"]

RESULTS = """
    SELECT trace.trace_id, result.position, result.values::text, result.notes::text
    FROM trace_results AS result
    JOIN benchmark_runs AS run ON run.seq = result.run_seq
    LEFT JOIN collected_traces AS trace
      ON trace.collection_id = run.collection_id AND trace.position = result.position
    WHERE run.id = %s ORDER BY result.position
"""
METRICS = """
    SELECT metric, n, mean::text, std::text, min, max, p50::text, p95::text, p99::text, sum::text,
           run_metrics.coverage, expected, missing::text
    FROM run_metrics JOIN benchmark_runs AS run ON run.seq = run_seq WHERE run.id = %s
    ORDER BY ordinal
"""
KPIS = "SELECT name, value::text, undefined_reason FROM kpi_history WHERE run_id = %s ORDER BY name"
# A trigger with this function and the name of a lock stops a write as long as somebody has the lock.
WAIT_FOR_LOCK = """
    CREATE OR REPLACE FUNCTION wait_for_lock() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM set_config('lock_timeout', '300s', true);
        PERFORM pg_advisory_xact_lock_shared(hashtextextended(TG_ARGV[0], 0));
        RETURN NEW;
    END $$
"""
# The connections of a killed worker end at once, as when its machine is lost.
TERMINATE_WAITING_SESSIONS = """
    SELECT pg_terminate_backend(pid, 60000) FROM pg_locks
    WHERE locktype = 'advisory' AND NOT granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
RUN = """
    SELECT status, traces_total, traces_processed, metrics_computed, shards_total, shards_done,
           validity, coverage, error_share FROM benchmark_runs WHERE id = %s
"""


class StoredRun(NamedTuple):
    """Every row of a run that the API shows; floats as Postgres text, exact to the last bit."""

    run: tuple[Any, ...]
    results: list[tuple[Any, ...]]
    metrics: list[tuple[Any, ...]]
    kpis: list[tuple[Any, ...]]


class HeldLock:
    """A lock that a test holds in its own session."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def is_awaited(self) -> bool:
        """Whether another session waits for the lock."""
        query = """
            SELECT count(*) FROM pg_locks AS ours JOIN pg_locks AS theirs
              ON (theirs.classid, theirs.objid) = (ours.classid, ours.objid)
            WHERE ours.locktype = 'advisory' AND theirs.locktype = 'advisory'
              AND ours.pid = pg_backend_pid() AND NOT theirs.granted
        """
        row = self._connection.execute(query).fetchone()
        return row is not None and bool(row[0])

    def release(self) -> None:
        self._connection.execute("SELECT pg_advisory_unlock_all()")


class DatabaseReader:
    """Direct queries to the database of a service, on one connection.

    A new connection for each query would take longer than the query.
    """

    def __init__(self, url: str) -> None:
        self.url = libpq_url(url)
        self._connection: psycopg.Connection | None = None

    def all(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        return self._execute(query, arguments).fetchall()

    def value(self, query: str, *arguments: object) -> Any:
        [[value]] = self.all(query, *arguments)
        return value

    def execute(self, query: str, *arguments: object) -> None:
        self._execute(query, arguments)

    def _execute(self, query: str, arguments: Sequence[object]) -> psycopg.Cursor:
        if self._connection is not None:
            with suppress(psycopg.OperationalError):
                return self._connection.execute(query.encode(), arguments)
            # The server was restarted, or ended the session, or a lock was not free in time.
            self._connection.close()
        # Without prepared statements, which a change of the schema would break.
        self._connection = psycopg.connect(self.url, autocommit=True, prepare_threshold=None)
        weakref.finalize(self, self._connection.close)
        return self._connection.execute(query.encode(), arguments)

    def status(self, run_id: str) -> str:
        return str(self.value("SELECT status FROM benchmark_runs WHERE id = %s", run_id))

    def seconds_to_end(self, run_id: str, since: object) -> float:
        query = (
            "SELECT extract(epoch FROM completed_at - %s)::float8 FROM benchmark_runs WHERE id = %s"
        )
        return float(self.value(query, since, run_id))

    def now(self) -> object:
        return self.value("SELECT clock_timestamp()")

    def age_heartbeats(self) -> None:
        """Make every heartbeat 30 s old; live workers renew theirs within two seconds."""
        self.execute(
            "UPDATE procrastinate_workers SET last_heartbeat = now() - interval '30 seconds'"
        )

    def prolong_heartbeats(self) -> None:
        """Date every heartbeat an hour ahead: a suspended worker then does not count as dead."""
        self.execute("UPDATE procrastinate_workers SET last_heartbeat = now() + interval '1 hour'")

    @contextmanager
    def locked(self, name: str) -> Iterator["HeldLock"]:
        """An advisory lock on a name, held until it is released or the database ends."""
        with closing(psycopg.connect(self.url, autocommit=True)) as connection:
            connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [name])
            yield HeldLock(connection)

    @contextmanager
    def blocked_write(
        self, name: str, *, event: str, condition: str, function: str = "wait_for_lock"
    ) -> Iterator["HeldLock"]:
        """A lock for which a write waits, such as "INSERT ON alert_events", where its rows meet the
        condition.
        """
        self.execute(
            f'CREATE TRIGGER "stop {name}" BEFORE {event} FOR EACH ROW'
            f" WHEN ({condition}) EXECUTE FUNCTION {function}('{name}')"
        )
        with self.locked(name) as lock:
            yield lock
        self.execute(f'DROP TRIGGER "stop {name}" ON {event.rsplit(maxsplit=1)[-1]}')

    def terminate_waiting_sessions(self) -> None:
        self.all(TERMINATE_WAITING_SESSIONS)

    def stored_run(self, run_id: str) -> StoredRun:
        return StoredRun(
            self.all(RUN, run_id)[0],
            self.all(RESULTS, run_id),
            self.all(METRICS, run_id),
            self.all(KPIS, run_id),
        )


def age_purge_marks(db: Database) -> None:
    """Let a day pass for the rows that are marked for deletion."""
    with db.begin() as session:
        session.execute(text("UPDATE purge_marks SET marked_at = marked_at - interval '1 day'"))


def age_purged_runs(db: Database) -> None:
    """Let two weeks pass for the runs that are purged, and for the jobs that delete their traces."""
    aged = """
        UPDATE procrastinate_jobs
        SET scheduled_at = scheduled_at - interval '14 days', args = args || jsonb_build_object(
            'purged_at', (args ->> 'purged_at')::timestamptz - interval '14 days')
        WHERE task_name = 'runs.drop_purged'
    """
    with db.begin() as session:
        session.execute(
            text("UPDATE benchmark_runs SET purged_at = purged_at - interval '14 days'")
        )
        session.execute(text(aged))


def varied_pairs(count: int, *, tags: list[str] | None = None, tagged: int = -1) -> list[JSON]:
    """Pairs of different short texts; the pair at index `tagged` has the tags."""
    # A fixed seed: runs that a test compares with each other must read the same texts.
    random_source = random.Random(7)
    pairs = [
        pair(
            number,
            " ".join(random_source.choices(WORDS, k=6)),
            " ".join(random_source.choices(WORDS, k=random_source.randint(1, 9))),
        )
        for number in range(count)
    ]
    pairs[tagged]["tags"] = tags or []
    return pairs
