"""The periodic rescue takes no job from a live worker, whenever the clock of the database is set."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.core.engine import libpq_url
from mosaico.core.resources import Resources
from mosaico.jobs import rescue_tick
from mosaico.jobs.clock_watch import DatabaseClockWatch
from mosaico.jobs.handlers import JobHandlers
from mosaico.jobs.queue import enqueue
from mosaico.jobs.rescue import ABSENT_AFTER_S, RECONNECT_S, SUSPENDED_AFTER_S
from mosaico.jobs.rescue_tick import RescueTick
from mosaico.jobs.worker_process import PRESENCE_LOCK, read_process_origin
from tests.support.processes import until
from tests.support.stored import DatabaseReader
from tests.support.toy_jobs import BuildToy, ReportToy

HANDLERS = JobHandlers()
HANDLERS.register(BuildToy, on_failure=ReportToy)(lambda _job, _build: None)
STARTED = """
    INSERT INTO procrastinate_events (job_id, type)
    SELECT id, 'started' FROM procrastinate_jobs WHERE args ->> 'toy' = ANY (%s)
"""
# Below MAX_RETRY_DELAY_S (60 s): a wait that a retry may have.
SOON = """
    UPDATE procrastinate_jobs SET scheduled_at = now() + interval '50 seconds'
    WHERE args ->> 'toy' = %s
"""
TWO_MONTHS = timedelta(days=60)
WORKER = "INSERT INTO procrastinate_workers (last_heartbeat) VALUES (now()) RETURNING id"
IS_PRESENT = "SELECT count(*) > 0 FROM pg_locks WHERE classid = %s AND objid = %s"
START = "UPDATE procrastinate_jobs SET status = 'doing', worker_id = :worker"


@dataclass(slots=True)
class MonotonicClock:
    """A monotonic clock that passes when the test says so."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass(frozen=True, slots=True)
class Queue:
    """One job of one worker, and the process that rescues."""

    resources: Resources
    clock: MonotonicClock
    worker_id: int
    rows: DatabaseReader

    def start_rescuer(self) -> RescueTick:
        return RescueTick(self.resources.db, HANDLERS, read_process_origin(), monotonic=self.clock)

    def date_heartbeat(self, age: timedelta) -> None:
        """As a heartbeat of now looks after the clock of the database was set."""
        self.rows.execute("UPDATE procrastinate_workers SET last_heartbeat = now() - %s", age)

    def is_rescued(self) -> bool:
        return bool(self.rows.value("SELECT status = 'todo' FROM procrastinate_jobs"))

    @contextmanager
    def presence(self) -> Iterator[None]:
        url = libpq_url(self.resources.db.url)
        with psycopg.connect(url, autocommit=True) as connection:
            hold = "SELECT pg_advisory_lock_shared(%s, %s::int)"
            connection.execute(hold, (PRESENCE_LOCK, self.worker_id))
            yield


@pytest.fixture
def queue(service_resources: Resources) -> Queue:
    with service_resources.db.begin() as session:
        enqueue(session, BuildToy())
        worker_id = session.scalars(text(WORKER)).one()
        session.execute(text(START), {"worker": worker_id})
    rows = DatabaseReader(service_resources.db.url)
    queue = Queue(service_resources, MonotonicClock(), worker_id, rows)
    # No worker counts as dead just after a start of the server, which that of the tests may be.
    age = "SELECT now() - pg_postmaster_start_time() > make_interval(secs => %s)"
    until(lambda: bool(queue.rows.value(age, RECONNECT_S)))
    return queue


def test_rescue_tick__failure_to_end_long_waits_keeps_no_job_from_its_rescue(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def time_out(_session: Session) -> None:
        raise TimeoutError

    queue.date_heartbeat(timedelta(hours=1))
    with monkeypatch.context() as patches:
        patches.setattr(rescue_tick, "end_long_waits", time_out)
        rescue = queue.start_rescuer()
        with pytest.raises(TimeoutError):
            rescue()
    assert queue.is_rescued()
    rescue()  # and tries again


def test_rescue_tick__new_process_leaves_a_worker_its_job_whose_heartbeat_is_of_before_a_jump(
    queue: Queue,
) -> None:
    """It starts within two seconds of the jump, before the worker has sent its next heartbeat."""
    with queue.presence():
        queue.date_heartbeat(TWO_MONTHS)
        rescue = queue.start_rescuer()

        rescue()
        queue.clock.now_s = SUSPENDED_AFTER_S - 1
        rescue()
        assert not queue.is_rescued()

        # The worker really is silent.
        queue.clock.now_s = SUSPENDED_AFTER_S
        rescue()
        assert queue.is_rescued()


def test_rescue_tick__new_process_takes_the_job_of_a_dead_worker_at_once(queue: Queue) -> None:
    queue.date_heartbeat(timedelta(seconds=ABSENT_AFTER_S + 1))

    queue.start_rescuer()()

    assert queue.is_rescued()


@pytest.mark.parametrize("has_jumped", [False, True])
def test_rescue_tick__retry_does_not_wait_for_a_time_of_a_clock_that_was_ahead(
    service_resources: Resources, monkeypatch: pytest.MonkeyPatch, *, has_jumped: bool
) -> None:
    """The clock was set back before the process started, or meanwhile."""
    rows = DatabaseReader(service_resources.db.url)
    rescue = RescueTick(service_resources.db, HANDLERS, read_process_origin())
    if has_jumped:
        # The first call ends the long waits; a later one does so only after a jump.
        rescue()
        # Other tests use the server, so its clock cannot be set for this one.
        monkeypatch.setattr(DatabaseClockWatch, "find_jump", lambda *_: -3600.0)
    with service_resources.db.begin() as session:
        for toy in ("retried", "soon", "later"):
            enqueue(session, BuildToy(toy=toy), start_at=datetime.now(UTC) + TWO_MONTHS)
    # Two of them were started before, and one of these waits for no longer than a retry does.
    rows.execute(STARTED, ["retried", "soon"])
    rows.execute(SOON, "soon")

    rescue()

    waits = "SELECT args ->> 'toy', scheduled_at > now() FROM procrastinate_jobs"
    assert dict(rows.all(waits)) == {"later": True, "retried": False, "soon": True}


@pytest.mark.parametrize("jump", [TWO_MONTHS, -timedelta(hours=1)], ids=["60 days", "-1 hour"])
def test_rescue_tick__jump_of_the_database_leaves_workers_the_time_to_send_heartbeats(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, jump: timedelta
) -> None:
    rescue = queue.start_rescuer()
    jumps = itertools.chain([jump.total_seconds()], itertools.repeat(0.0))
    monkeypatch.setattr(DatabaseClockWatch, "find_jump", lambda *_: next(jumps))
    # Long after the start of the rescuer, which has its own time of grace: only the jump is left.
    queue.clock.now_s = 60.0
    queue.date_heartbeat(jump)

    with queue.presence():
        rescue()
        queue.clock.now_s += SUSPENDED_AFTER_S - 1
        rescue()
        assert not queue.is_rescued()

    # Without its presence the worker is dead, by any clock; Postgres ends a session a moment later.
    until(lambda: not queue.rows.value(IS_PRESENT, PRESENCE_LOCK, queue.worker_id))
    rescue()
    assert queue.is_rescued()


def test_rescue_tick__jump_of_the_database_delays_the_rescue_of_a_dead_worker_by_seconds(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    rescue = queue.start_rescuer()
    jumps = itertools.chain([3600.0], itertools.repeat(0.0))
    monkeypatch.setattr(DatabaseClockWatch, "find_jump", lambda *_: next(jumps))
    queue.date_heartbeat(timedelta(hours=1))

    rescue()
    assert not queue.is_rescued()

    queue.clock.now_s += ABSENT_AFTER_S
    rescue()
    assert queue.is_rescued()
