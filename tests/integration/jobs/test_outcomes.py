"""Outcomes are recorded only by the holder of the claim; jobs of dead workers are rescued."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.core.resources import Resources
from mosaico.jobs.handlers import JobHandlers
from mosaico.jobs.outcomes import (
    JobClaim,
    JobFailed,
    JobOutcome,
    JobReleased,
    JobRetry,
    JobSucceeded,
    record_outcome,
)
from mosaico.jobs.queue import enqueue
from mosaico.jobs.rescue import rescue_jobs
from mosaico.jobs.silent_sessions import SilentSessions
from mosaico.jobs.worker_process import PRESENCE_LOCK
from tests.support.toy_jobs import BuildToy, ReportToy

HANDLERS = JobHandlers()
HANDLERS.register(BuildToy, on_failure=ReportToy)(lambda _job, _build: None)

FAILURE = JobFailed(code="NO_WOOD", message="bring some")


@pytest.fixture
def session(service_resources: Resources) -> Iterator[Session]:
    with service_resources.db.begin() as session:
        yield session


def fetch_one(session: Session, query: str, **values: Any) -> Any:
    return session.execute(text(query), values).one()


def claim_job(session: Session, *, attempts: int = 0, silent_s: float = 0.0) -> JobClaim:
    """A running claim of a worker whose last heartbeat is `silent_s` seconds old."""
    enqueue(session, BuildToy())
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
    return JobClaim(
        id=job_id,
        name="toys.build",
        arguments={"toy": "boat"},
        attempts=attempts,
        worker_id=worker_id,
    )


def job_state(session: Session, claim: JobClaim) -> tuple[str, int]:
    query = "SELECT status::text, attempts FROM procrastinate_jobs WHERE id = :id"
    status, attempts = fetch_one(session, query, id=claim.id)
    return status, attempts


@pytest.mark.parametrize(
    ("outcome", "status", "attempts"),
    [
        (JobSucceeded(), "succeeded", 1),
        (JobRetry(delay_s=5), "todo", 1),
        # A restart of workers says nothing about the job: it must not come closer to MAX_ATTEMPTS.
        (JobReleased(), "todo", 0),
        (FAILURE, "failed", 1),
    ],
)
def test_record_outcome__lease_holder_sets_the_status(
    session: Session, outcome: JobOutcome, status: str, attempts: int
) -> None:
    claim = claim_job(session)

    assert record_outcome(session, claim, outcome, HANDLERS)

    assert job_state(session, claim) == (status, attempts)


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
    claim = claim_job(session)
    session.execute(text(f"UPDATE procrastinate_jobs SET {concurrent_change}"))
    before = job_state(session, claim)

    assert not record_outcome(session, claim, outcome, HANDLERS)

    assert job_state(session, claim) == before
    assert fetch_one(session, "SELECT count(*) FROM procrastinate_jobs") == (1,)


def test_record_outcome__failure_enqueues_the_on_failure_job(session: Session) -> None:
    claim = claim_job(session)

    record_outcome(session, claim, FAILURE, HANDLERS)

    [arguments] = fetch_one(
        session, "SELECT args FROM procrastinate_jobs WHERE task_name = 'toys.on_failure'"
    )
    assert arguments == {"toy": "boat", "code": "NO_WOOD", "message": "bring some"}


# Limits of zero: every silence counts, and the server of the tests may have started just now.
def rescue(session: Session, *, absent_after_s: float = 0.0, reconnect_s: float = 0.0) -> int:
    return rescue_jobs(
        session,
        HANDLERS,
        SilentSessions(),
        absent_after_s=absent_after_s,
        reconnect_s=reconnect_s,
    )


def hold_presence(session: Session, worker_id: int | None) -> None:
    session.execute(
        text("SELECT pg_advisory_lock_shared(:lock, :worker ::int)"),
        {"lock": PRESENCE_LOCK, "worker": worker_id},
    )


def test_rescue_jobs__job_of_a_dead_worker_returns_to_the_queue(session: Session) -> None:
    claim = claim_job(session, silent_s=60)

    assert rescue(session) == 1

    assert job_state(session, claim) == ("todo", 1)


def test_rescue_jobs__job_of_a_worker_with_heartbeats_is_left_alone(session: Session) -> None:
    claim = claim_job(session, silent_s=0)

    assert rescue(session, absent_after_s=0.5) == 0

    assert job_state(session, claim) == ("doing", 0)


def test_rescue_jobs__slow_worker_with_presence_keeps_its_job(session: Session) -> None:
    # More than ABSENT_AFTER_S (3 s) and less than SUSPENDED_AFTER_S (15 s): the presence decides.
    claim = claim_job(session, silent_s=10)
    hold_presence(session, claim.worker_id)

    assert rescue(session) == 0

    assert job_state(session, claim) == ("doing", 0)


def test_rescue_jobs__suspended_worker_with_presence_loses_its_job(session: Session) -> None:
    # More than SUSPENDED_AFTER_S (15 s): a presence alone may be that of a frozen process.
    claim = claim_job(session, silent_s=60)
    hold_presence(session, claim.worker_id)

    assert rescue(session) == 1

    assert job_state(session, claim) == ("todo", 1)


def test_rescue_jobs__restarted_database_gives_workers_time_to_connect(session: Session) -> None:
    a_year_s = 365 * 24 * 3600.0  # the database of the tests is younger than that

    claim_job(session, silent_s=2 * a_year_s)

    assert rescue(session, reconnect_s=a_year_s) == 0
