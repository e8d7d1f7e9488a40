"""Who may say how a job ended, and what becomes of jobs whose worker is gone."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from app.core.resources import Resources
from app.jobs.handlers import MAX_ATTEMPTS, JobHandlers
from app.jobs.outcomes import (
    JobFailed,
    JobLease,
    JobOutcome,
    JobReleased,
    JobRetry,
    JobSucceeded,
    record_outcome,
)
from app.jobs.queue import enqueue
from app.jobs.rescue import rescue_jobs

HANDLERS = JobHandlers()
HANDLERS.register("toys.build", on_failure="toys.give_up")(lambda _: None)

BAD = JobFailed(code="NO_WOOD", message="bring some")


@pytest.fixture
def session(service_resources: Resources) -> Iterator[Session]:
    with service_resources.db.begin() as session:
        yield session


def one(session: Session, query: str, **values: Any) -> Any:
    return session.execute(text(query), values).one()


def held(session: Session, *, attempts: int = 0, silent_s: float = 0.0) -> JobLease:
    """A job that a worker is doing who was last heard of so long ago."""
    enqueue(session, "toys.build", toy="boat")
    [worker_id] = one(
        session,
        "INSERT INTO procrastinate_workers (last_heartbeat)"
        " VALUES (now() - make_interval(secs => :silent)) RETURNING id",
        silent=silent_s,
    )
    [job_id] = one(
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


def state(session: Session, job: JobLease) -> tuple[str, int]:
    query = "SELECT status::text, attempts FROM procrastinate_jobs WHERE id = :id"
    status, attempts = one(session, query, id=job.id)
    return status, attempts


@pytest.mark.parametrize(
    ("ending", "status", "attempts"),
    [
        (JobSucceeded(), "succeeded", 1),
        (JobRetry(delay_s=5), "todo", 1),
        (JobReleased(), "todo", 0),
        (BAD, "failed", 1),
    ],
)
def test_a_job_ends_as_its_holder_says(
    session: Session, ending: JobOutcome, status: str, attempts: int
) -> None:
    job = held(session)

    assert record_outcome(session, job, ending, HANDLERS)

    assert state(session, job) == (status, attempts)


@pytest.mark.parametrize("ending", [JobSucceeded(), JobReleased(), JobRetry(delay_s=0), BAD])
@pytest.mark.parametrize(
    "meanwhile",
    [
        "status = 'todo', attempts = attempts + 1",  # it was rescued and waits
        "attempts = attempts + 1",  # the same worker was given it again
        "worker_id = NULL",  # the worker counts as dead
        "status = 'succeeded'",  # another one has done it
    ],
)
def test_a_worker_that_lost_its_job_changes_nothing(
    session: Session, ending: JobOutcome, meanwhile: str
) -> None:
    job = held(session)
    session.execute(text(f"UPDATE procrastinate_jobs SET {meanwhile}"))
    before = state(session, job)

    assert not record_outcome(session, job, ending, HANDLERS)

    assert state(session, job) == before
    assert one(session, "SELECT count(*) FROM procrastinate_jobs") == (1,)


def test_a_failure_and_the_job_that_tells_of_it_come_together(session: Session) -> None:
    job = held(session)

    record_outcome(session, job, BAD, HANDLERS)

    [arguments] = one(
        session, "SELECT args FROM procrastinate_jobs WHERE task_name = 'toys.give_up'"
    )
    assert arguments == {"toy": "boat", "code": "NO_WOOD", "message": "bring some"}


def test_the_job_of_a_silent_worker_waits_for_another(session: Session) -> None:
    job = held(session, silent_s=60)

    assert rescue_jobs(session, HANDLERS, stalled_after_s=0) == 1

    assert state(session, job) == ("todo", 1)


def test_the_job_of_a_worker_that_was_just_heard_of_is_left_to_it(session: Session) -> None:
    job = held(session, silent_s=0)

    assert rescue_jobs(session, HANDLERS, stalled_after_s=0.5) == 0

    assert state(session, job) == ("doing", 0)


def test_after_a_restart_of_the_database_workers_get_time_to_be_heard(session: Session) -> None:
    a_year_s = 365 * 24 * 3600.0  # the database of the tests is younger than that

    held(session, silent_s=2 * a_year_s)

    assert rescue_jobs(session, HANDLERS, stalled_after_s=a_year_s) == 0


def test_a_job_that_has_ended_its_workers_too_often_is_poison(session: Session) -> None:
    job = held(session, attempts=MAX_ATTEMPTS - 1, silent_s=60)

    rescue_jobs(session, HANDLERS, stalled_after_s=0)

    assert state(session, job) == ("failed", MAX_ATTEMPTS)
    [arguments] = one(
        session, "SELECT args FROM procrastinate_jobs WHERE task_name = 'toys.give_up'"
    )
    assert (arguments["code"], arguments["toy"]) == ("POISON", "boat")
