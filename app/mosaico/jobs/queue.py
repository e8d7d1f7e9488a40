"""Enqueues jobs in the caller's own transaction: either the row and its job exist, or neither."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import procrastinate
from procrastinate.exceptions import AlreadyEnqueued
from procrastinate.jobs import JobDeferrer
from sqlalchemy.orm import Session

from mosaico.core import correlation
from mosaico.core.batches import batched
from mosaico.jobs.deaths import JobDeaths, read_deaths
from mosaico.jobs.declarations import FailureReport, JobRequest, queue_of

# Never opened: it has no connection of its own and writes on the connection of each session.
_DEFERRER = procrastinate.App(connector=procrastinate.SyncPsycopgConnector())


# The job argument that holds the correlation ids of the request that enqueued the job.
CORRELATION = "_correlation"
# The job arguments that hold the number of attempts that ended with a rescue, and the deaths of workers
# that held the job.
RESCUES = "_rescues"
DEATHS = "_deaths"
# All other jobs have the priority 0. Higher ones start first: a run that has begun goes on before the next one
# begins, and short jobs also go on while a worker waits until it can start a job that must run alone.
SHORT_JOB_PRIORITY = 3
ALONE_PRIORITY = 2
NEXT_STEP_PRIORITY = 1


class NewJob(NamedTuple):
    """A job to enqueue; see `enqueue` and `enqueue_many`."""

    request: JobRequest
    lock: str | None = None
    is_short: bool = False


class JobCall(NamedTuple):
    """The arguments of a job, and what the queue adds to them.

    `correlation`: see `mosaico.core.correlation`; `rescues`: see `mosaico.jobs.rescue`; `deaths`: see
    `mosaico.jobs.deaths`.
    """

    arguments: dict[str, Any]
    correlation: dict[str, str]
    rescues: int
    deaths: JobDeaths


def enqueue(
    session: Session,
    request: JobRequest,
    *,
    lock: str | None = None,
    start_at: datetime | None = None,
) -> None:
    """Enqueue one job, which exists once the transaction of `session` commits.

    Jobs with the same `lock` run one after the other, in the order of their creation. `start_at` is the
    earliest start.
    """
    task = _task(session, request.NAME, lock=lock, schedule_at=start_at)
    task.defer(**request.arguments(), **_correlation_argument())


def enqueue_next(session: Session, request: JobRequest, *, lock: str | None = None) -> None:
    """Enqueue the next step of a run that has begun: it starts before the first steps of other runs."""
    task = _task(session, request.NAME, lock=lock, priority=NEXT_STEP_PRIORITY)
    task.defer(**request.arguments(), **_correlation_argument())


def enqueue_many(
    session: Session, requests: Sequence[JobRequest], *, is_short: bool = False
) -> None:
    """Enqueue jobs, in one statement for `STATEMENT_ROWS` of them. Short jobs start before all others,
    which may take minutes each.
    """
    enqueue_jobs(session, [NewJob(request, None, is_short) for request in requests])


def enqueue_jobs(session: Session, jobs: Sequence[NewJob]) -> None:
    """As `enqueue_many`, each job with a lock of its own."""
    correlation_argument = _correlation_argument()
    for batch in batched(jobs):
        deferrers = [(_deferrer_of(session, job), job.request.arguments()) for job in batch]
        _DEFERRER.job_manager.batch_defer_jobs(
            [
                deferrer.make_new_job(**arguments, **correlation_argument)
                for deferrer, arguments in deferrers
            ],
            connection=deferrers[0][0].connection,
        )


def enqueue_once(
    session: Session, request: JobRequest, *, key: str, is_short: bool = False
) -> bool:
    """Enqueue a job unless a job with this key is waiting already; returns whether it was enqueued."""
    priority = SHORT_JOB_PRIORITY if is_short else None
    task = _task(session, request.NAME, queueing_lock=key, priority=priority)
    try:
        # A savepoint: the violated unique index would otherwise abort the caller's transaction.
        with session.begin_nested():
            task.defer(**request.arguments(), **_correlation_argument())
    except AlreadyEnqueued:
        return False
    return True


def enqueue_failure(
    session: Session,
    report: type[FailureReport],
    arguments: Mapping[str, Any],
    failure: Mapping[str, str],
) -> None:
    """Enqueue the report of a failed job: its stored arguments, with code and message.

    The arguments are not decoded here: they may be the cause of the failure.
    """
    _task(session, report.NAME).defer(**arguments, **failure, **_correlation_argument())


def split_arguments(job_arguments: Mapping[str, Any]) -> JobCall:
    """Separate the arguments of a job from those that the queue adds."""
    reserved = (CORRELATION, RESCUES, DEATHS)
    return JobCall(
        {name: job_arguments[name] for name in job_arguments if name not in reserved},
        job_arguments.get(CORRELATION, {}),
        job_arguments.get(RESCUES, 0),
        read_deaths(job_arguments.get(DEATHS, {})),
    )


def _correlation_argument() -> dict[str, Any]:
    correlation_values = correlation.get_correlation()
    return {CORRELATION: correlation_values} if correlation_values else {}


def _deferrer_of(session: Session, job: NewJob) -> JobDeferrer:
    priority = SHORT_JOB_PRIORITY if job.is_short else None
    return _task(session, job.request.NAME, lock=job.lock, priority=priority)


def _task(session: Session, name: str, **options: Any) -> JobDeferrer:
    return _DEFERRER.configure_task(
        name,
        allow_unknown=True,
        queue=queue_of(name),
        connection=session.connection().connection.driver_connection,
        **options,
    )
