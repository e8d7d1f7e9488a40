"""The stored rows of a run, in a form in which two runs can be compared."""

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import psycopg
from sqlalchemy import text

from app.core.db import Database
from app.core.engine import libpq_url
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
    """Direct queries to the database of a service."""

    def __init__(self, url: str) -> None:
        self.url = libpq_url(url)

    def all(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(query.encode(), arguments).fetchall()

    def value(self, query: str, *arguments: object) -> Any:
        [[value]] = self.all(query, *arguments)
        return value

    def execute(self, query: str, *arguments: object) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(query.encode(), arguments)

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


def varied_pairs(count: int, *, tags: list[str] | None = None, tagged: int = -1) -> list[JSON]:
    """Pairs of different short texts; the pair at index `tagged` has the tags."""
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
