"""S1: 10 000 schedules that are due in the same second, compared with APScheduler and its job store.

Both sides start with the rows in place and take turns; after a minute no new round starts.
"""

import pickle
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import NamedTuple

from apscheduler.job import Job
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import text

from benchmarks.result_rows import BenchRow
from benchmarks.table_rows import insert_rows
from mosaico.core.db import Database
from mosaico.core.migrations import upgrade
from mosaico.schedules.ticker import Ticker
from tests.support.postgres import cluster, drop_database, make_database

SCHEDULES = 10_000
ROUNDS = 3
ENOUGH_S = 60.0
LATEST_S = 2.0
GOAL = 10.0
GRACE_S = 3600
PATIENCE_S = 240.0
LEAD = timedelta(seconds=8)  # a starting scheduler recomputes every schedule

_samples: list[float] = []

EMPTY = "TRUNCATE schedule_configs, schedule_fires; DELETE FROM procrastinate_jobs;"
FILL = text(
    """
    INSERT INTO schedule_configs (id, name, benchmark_id, agent_id, cron_expression, timezone,
        dst_policy, enabled, misfire_policy, catchup_window_seconds, concurrency_policy,
        auto_disable_on_failure, max_consecutive_failures, consecutive_failures, revision,
        next_run_at)
    SELECT 's-' || n, 'nightly', 'b', 'a', :cron, 'Europe/Rome', 'SPRING', true, 'FIRE_ONCE',
        86400, 'FORBID', true, 3, 0, 1, :due
    FROM generate_series(1, :count) AS n
    """
)
FIRED = text("SELECT count(*), count(DISTINCT (schedule_id, due_at)) FROM schedule_fires")
WAITING = text("SELECT id FROM schedule_configs WHERE next_run_at <= :due LIMIT 1")
STARTS = text(
    "SELECT sum(jsonb_array_length(args -> 'fires')) FROM procrastinate_jobs"
    " WHERE task_name = 'schedules.start'"
)


class Lateness(NamedTuple):
    """The number of fires, and the seconds from the due instant to the last fire."""

    fired: int
    last_s: float


class Round(NamedTuple):
    """One measurement of each side."""

    ours: Lateness
    peer: Lateness


def measure() -> Iterator[BenchRow]:
    rounds: list[Round] = []
    begun = time.monotonic()
    with _database() as db:
        while not rounds or (len(rounds) < ROUNDS and time.monotonic() - begun < ENOUGH_S):
            rounds.append(Round(_ours(db), _peer(db)))
    ours, peer = (_typical([durations[side] for durations in rounds]) for side in (0, 1))
    ratio = peer.last_s / ours.last_s
    holds = ours.fired == peer.fired == SCHEDULES and ours.last_s <= LATEST_S and ratio >= GOAL
    yield BenchRow(
        "S1",
        f"≥ {GOAL:g}× sooner than APScheduler's SQLAlchemyJobStore, last ≤ {LATEST_S:g} s late",
        ratio,
        holds,
        f"{ours.fired} due in one second, each once: the last {ours.last_s:.2f} s late"
        f" compared with {peer.last_s:.1f} s ({peer.fired}); median of {len(rounds)}",
    )


def _typical(rounds: list[Lateness]) -> Lateness:
    return Lateness(
        min(lateness.fired for lateness in rounds), median(lateness.last_s for lateness in rounds)
    )


def _ours(db: Database) -> Lateness:
    """Lateness of the commit with the fire, the job of its run and the next instant."""
    due = _whole_second(datetime.now(UTC) + LEAD)
    cron = f"{due.second} {due.minute} * * * *"
    with db.begin() as session:
        session.execute(text(EMPTY))
        session.execute(FILL, {"cron": cron, "due": due, "count": SCHEDULES})
    ticker = Ticker(db)
    ticker.start()
    try:
        _wait_until(lambda: _all_fired(db, due))
        last_s = (datetime.now(UTC) - due).total_seconds()
    finally:
        ticker.stop()
    with db.read() as session:
        rows, distinct = session.execute(FIRED).one()
        assert rows == distinct == session.scalar(STARTS), "an instant fired twice"
    return Lateness(rows, last_s)


def _peer(db: Database) -> Lateness:
    """The same number of cron jobs that only record the time."""
    _samples.clear()
    store = SQLAlchemyJobStore(engine=db.engine)
    scheduler = BackgroundScheduler(
        # By default APScheduler drops what is more than a second late.
        jobstores={"default": store},
        job_defaults={"misfire_grace_time": GRACE_S},
        timezone="UTC",
    )
    scheduler.start(paused=True)
    due = _whole_second(datetime.now(UTC) + LEAD)
    try:
        scheduler.remove_all_jobs()
        first = scheduler.add_job(note, "cron", second=due.second, minute=due.minute, id="0")
        _fill_store(db, store, first)
        scheduler.resume()
        _wait_until(lambda: len(_samples) >= SCHEDULES)
        return Lateness(len(_samples), max(_samples) - due.timestamp())
    finally:
        scheduler.shutdown()


def _fill_store(db: Database, store: SQLAlchemyJobStore, first: Job) -> None:
    """Insert copies of the first job at once: adding jobs one by one is slower than firing them."""
    state = first.__getstate__()
    rows = [
        {
            "id": str(number),
            "next_run_time": first.next_run_time.timestamp(),
            "job_state": pickle.dumps({**state, "id": str(number)}, store.pickle_protocol),
        }
        for number in range(1, SCHEDULES)
    ]
    with db.begin() as session:
        session.execute(store.jobs_t.insert(), rows)


def note() -> None:
    _samples.append(time.time())


def _all_fired(db: Database, due: datetime) -> bool:
    with db.read() as session:
        return session.scalar(WAITING, {"due": due}) is None


def _wait_until(condition: Callable[[], bool]) -> None:
    pause, deadline = threading.Event(), time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < deadline:
        pause.wait(0.05)


def _whole_second(instant: datetime) -> datetime:
    return instant.replace(microsecond=0) + timedelta(seconds=1)


@contextmanager
def _database() -> Iterator[Database]:
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as running:
        drop_database(running.url, "bench")
        url = make_database(running.url, "bench")
        upgrade(url)
        db = Database(url, pool_size=4, name="bench")
        with db.begin() as session:
            insert_rows(session, "agents", {"id": "'a'"})
            insert_rows(
                session, "benchmarks", {"id": "'b'", "source": "'local'", "metrics": "'[]'"}
            )
        yield db
        db.dispose()
