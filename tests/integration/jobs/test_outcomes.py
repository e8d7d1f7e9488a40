"""Outcomes are recorded only by the holder of the lease; jobs of dead workers are rescued."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import ANY

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from app.core.resources import Resources
from app.jobs.handlers import MAX_ATTEMPTS, JobHandlers
from app.jobs.models import WorkerProcess
from app.jobs.outcomes import (
    JobFailed,
    JobLease,
    JobOutcome,
    JobReleased,
    JobRetry,
    JobSucceeded,
    record_outcome,
)
from app.jobs.queue import DEATHS, enqueue, split_arguments
from app.jobs.rescue import rescue_jobs
from app.jobs.silent_sessions import SilentSessions
from app.jobs.worker_presence import PRESENCE_LOCK
from app.jobs.worker_process import ProcessOrigin

HANDLERS = JobHandlers()
HANDLERS.register("toys.build", on_failure="toys.on_failure")(lambda _: None)

ORIGIN = ProcessOrigin(machine="pelican", boot_id="boot-1", supervisor="tree-1")

FAILURE = JobFailed(code="NO_WOOD", message="bring some")


@pytest.fixture
def session(service_resources: Resources) -> Iterator[Session]:
    with service_resources.db.begin() as session:
        yield session


def fetch_one(session: Session, query: str, **values: Any) -> Any:
    return session.execute(text(query), values).one()


def lease_job(session: Session, *, attempts: int = 0, silent_s: float = 0.0) -> JobLease:
    """A running lease of a worker whose last heartbeat is `silent_s` seconds old."""
    enqueue(session, "toys.build", toy="boat")
    [worker_id] = fetch_one(
        session,
        "INSERT INTO procrastinate_workers (last_heartbeat)"
        " VALUES (now() - make_interval(secs => :silent)) RETURNING id",
        silent=silent_s,
    )
    [job_id] = fetch_one(
        session,
        "UPDATE procrastinate_jobs SET status = 'doing', worker_id = :worker, attempts = :attempts"
        " WHERE status = 'todo' RETURNING id",
        worker=worker_id,
        attempts=attempts,
    )
    return JobLease(
        id=job_id,
        name="toys.build",
        arguments={"toy": "boat"},
        attempts=attempts,
        worker_id=worker_id,
    )


def job_state(session: Session, lease: JobLease) -> tuple[str, int]:
    query = "SELECT status::text, attempts FROM procrastinate_jobs WHERE id = :id"
    status, attempts = fetch_one(session, query, id=lease.id)
    return status, attempts


@pytest.mark.parametrize(
    ("outcome", "status", "attempts"),
    [
        (JobSucceeded(), "succeeded", 1),
        (JobRetry(delay_s=5), "todo", 1),
        (JobReleased(), "todo", 0),
        (FAILURE, "failed", 1),
    ],
)
def test_record_outcome__lease_holder_sets_the_status(
    session: Session, outcome: JobOutcome, status: str, attempts: int
) -> None:
    lease = lease_job(session)

    assert record_outcome(session, lease, outcome, HANDLERS)

    assert job_state(session, lease) == (status, attempts)


@pytest.mark.parametrize("outcome", [JobSucceeded(), JobReleased(), JobRetry(delay_s=0), FAILURE])
@pytest.mark.parametrize(
    "concurrent_change",
    [
        "status = 'todo', attempts = attempts + 1",  # rescued and waiting
        "attempts = attempts + 1",  # leased again by the same worker
        "worker_id = NULL",  # the worker is considered dead
        "status = 'succeeded'",  # finished by another worker
    ],
)
def test_record_outcome__lost_lease_changes_nothing(
    session: Session, outcome: JobOutcome, concurrent_change: str
) -> None:
    lease = lease_job(session)
    session.execute(text(f"UPDATE procrastinate_jobs SET {concurrent_change}"))
    before = job_state(session, lease)

    assert not record_outcome(session, lease, outcome, HANDLERS)

    assert job_state(session, lease) == before
    assert fetch_one(session, "SELECT count(*) FROM procrastinate_jobs") == (1,)


def test_record_outcome__failure_enqueues_the_on_failure_job(session: Session) -> None:
    lease = lease_job(session)

    record_outcome(session, lease, FAILURE, HANDLERS)

    [arguments] = fetch_one(
        session, "SELECT args FROM procrastinate_jobs WHERE task_name = 'toys.on_failure'"
    )
    assert arguments == {"toy": "boat", "code": "NO_WOOD", "message": "bring some"}


def rescue(
    session: Session,
    rescuer: ProcessOrigin = ORIGIN,
    *,
    own_worker_ids: Collection[int] = (),
    absent_after_s: float = 0.0,
    reconnect_s: float = 0.0,
) -> int:
    return rescue_jobs(
        session,
        HANDLERS,
        SilentSessions(),
        rescuer,
        own_worker_ids=own_worker_ids,
        absent_after_s=absent_after_s,
        reconnect_s=reconnect_s,
    )


def hold_presence(session: Session, worker_id: int | None) -> None:
    session.execute(
        text("SELECT pg_advisory_lock_shared(:lock, :worker ::int)"),
        {"lock": PRESENCE_LOCK, "worker": worker_id},
    )


def test_rescue_jobs__job_of_a_dead_worker_returns_to_the_queue(session: Session) -> None:
    lease = lease_job(session, silent_s=60)

    assert rescue(session) == 1

    assert job_state(session, lease) == ("todo", 1)


def test_rescue_jobs__job_of_a_worker_with_heartbeats_is_left_alone(session: Session) -> None:
    lease = lease_job(session, silent_s=0)

    assert rescue(session, absent_after_s=0.5) == 0

    assert job_state(session, lease) == ("doing", 0)


def test_rescue_jobs__slow_worker_with_presence_keeps_its_job(session: Session) -> None:
    lease = lease_job(session, silent_s=10)
    hold_presence(session, lease.worker_id)

    assert rescue(session) == 0

    assert job_state(session, lease) == ("doing", 0)


def test_rescue_jobs__suspended_worker_with_presence_loses_its_job(session: Session) -> None:
    lease = lease_job(session, silent_s=60)
    hold_presence(session, lease.worker_id)

    assert rescue(session) == 1

    assert job_state(session, lease) == ("todo", 1)


def test_rescue_jobs__restarted_database_gives_workers_time_to_connect(session: Session) -> None:
    a_year_s = 365 * 24 * 3600.0  # the database of the tests is younger than that

    lease_job(session, silent_s=2 * a_year_s)

    assert rescue(session, reconnect_s=a_year_s) == 0


def count_deaths(session: Session, lease: JobLease, deaths: int) -> None:
    session.execute(
        text(
            "UPDATE procrastinate_jobs SET args = args || jsonb_build_object(:name ::text, :n ::int)"
            " WHERE id = :id"
        ),
        {"name": DEATHS, "n": deaths, "id": lease.id},
    )


def test_rescue_jobs__job_that_kills_its_workers_fails(session: Session) -> None:
    lease = lease_job(session, silent_s=60)
    count_deaths(session, lease, MAX_ATTEMPTS - 1)

    rescue(session)

    assert job_state(session, lease) == ("failed", 1)
    [arguments] = fetch_one(
        session, "SELECT args FROM procrastinate_jobs WHERE task_name = 'toys.on_failure'"
    )
    assert arguments == {"toy": "boat", "code": "POISON", "message": ANY}


def test_rescue_jobs__errors_of_earlier_attempts_are_no_deaths(session: Session) -> None:
    lease = lease_job(session, attempts=MAX_ATTEMPTS - 1, silent_s=60)

    rescue(session)

    assert job_state(session, lease) == ("todo", MAX_ATTEMPTS)
    rescued = stored_lease(session, lease.id)
    assert (rescued.retries, deaths_of(rescued)) == (MAX_ATTEMPTS - 1, 1)


def test_rescue_jobs__worker_of_the_living_process_did_not_die(session: Session) -> None:
    lease = lease_job(session, silent_s=60)
    count_deaths(session, lease, MAX_ATTEMPTS - 1)
    assert lease.worker_id is not None

    rescue(session, own_worker_ids={lease.worker_id})

    assert job_state(session, lease) == ("todo", 1)
    assert deaths_of(stored_lease(session, lease.id)) == MAX_ATTEMPTS - 1


def deaths_of(lease: JobLease) -> int:
    return split_arguments(lease.arguments).deaths


def test_rescue_jobs__restart_of_the_database_does_not_count_towards_poison(
    session: Session,
) -> None:
    lease = lease_job(session, silent_s=60)
    count_deaths(session, lease, MAX_ATTEMPTS - 1)
    session.execute(
        text(
            "UPDATE procrastinate_events SET at = pg_postmaster_start_time() - interval '1 s'"
            " WHERE job_id = :id"
        ),
        {"id": lease.id},
    )

    rescue(session)

    assert job_state(session, lease) == ("todo", 1)
    assert deaths_of(stored_lease(session, lease.id)) == MAX_ATTEMPTS - 1


def test_rescue_jobs__death_of_the_process_tree_does_not_count_towards_poison(
    session: Session,
) -> None:
    lease = lease_job(session, silent_s=60)
    for attempt in range(1, 3 * MAX_ATTEMPTS):
        run_in_process_tree(session, lease, f"tree-{attempt}")

        rescue(session, replace(ORIGIN, supervisor=f"tree-{attempt + 1}"))

        assert job_state(session, lease) == ("todo", attempt)
    assert deaths_of(stored_lease(session, lease.id)) == 0


def run_in_process_tree(session: Session, lease: JobLease, supervisor: str) -> None:
    session.execute(
        text("UPDATE procrastinate_jobs SET status = 'doing', worker_id = :worker WHERE id = :id"),
        {"id": lease.id, "worker": lease.worker_id},
    )
    process = WorkerProcess(
        worker_id=lease.worker_id,
        machine=ORIGIN.machine,
        boot_id=ORIGIN.boot_id,
        supervisor=supervisor,
    )
    session.merge(process)
    session.flush()


def stored_lease(session: Session, job_id: int) -> JobLease:
    query = "SELECT task_name, args, attempts, worker_id FROM procrastinate_jobs WHERE id = :id"
    name, arguments, attempts, worker_id = fetch_one(session, query, id=job_id)
    return JobLease(
        id=job_id, name=name, arguments=arguments, attempts=attempts, worker_id=worker_id
    )
