"""Enqueues jobs in the caller's own transaction: either the row and its job exist, or neither."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import procrastinate
from procrastinate.exceptions import AlreadyEnqueued
from sqlalchemy.orm import Session

from app.core import correlation

# Never opened: it has no connection of its own and writes on the connection of each session.
_DEFERRER = procrastinate.App(connector=procrastinate.SyncPsycopgConnector())


# The job argument that holds the correlation ids of the request that enqueued the job.
CORRELATION = "_correlation"
# The job arguments that hold the number of attempts that ended with a rescue, and the deaths of workers
# that the job may have caused.
RESCUES = "_rescues"
DEATHS = "_deaths"
# All other jobs have the priority 0. Higher ones start first.
SHORT_JOB_PRIORITY = 1


class JobCall(NamedTuple):
    """The arguments of a job, and what the queue adds to them.

    `correlation`: see `app.core.correlation`; `rescues`: see `app.jobs.rescue`; `deaths`: see
    `app.jobs.deaths.read_deaths`.
    """

    arguments: dict[str, Any]
    correlation: dict[str, str]
    rescues: int
    deaths: list[dict[str, Any]]


def enqueue(
    session: Session,
    name: str,
    *,
    lock: str | None = None,
    start_at: datetime | None = None,
    is_short: bool = False,
    **arguments: Any,
) -> None:
    """Enqueue one job, which exists once the transaction of `session` commits.

    `name` is `<queue>.<job>`, the name of a handler in any process. Jobs with the same `lock`
    run one after the other, in the order of their creation. `start_at` is the earliest start. Short
    jobs start before all others, which may take minutes each.
    """
    enqueue_many(session, name, [arguments], lock=lock, start_at=start_at, is_short=is_short)


def enqueue_many(
    session: Session,
    name: str,
    arguments: Sequence[Mapping[str, Any]],
    *,
    lock: str | None = None,
    start_at: datetime | None = None,
    is_short: bool = False,
) -> None:
    """Enqueue one job for each set of arguments, in one statement."""
    if not arguments:
        return
    task = _DEFERRER.configure_task(
        name,
        allow_unknown=True,
        queue=queue_of(name),
        lock=lock,
        schedule_at=start_at,
        priority=SHORT_JOB_PRIORITY if is_short else None,
        connection=session.connection().connection.driver_connection,
    )
    correlation_argument = _correlation_argument()
    task.batch_defer(*({**job_arguments, **correlation_argument} for job_arguments in arguments))


def enqueue_once(session: Session, name: str, *, key: str, **arguments: Any) -> bool:
    """Enqueue a job unless a job with this key is waiting already; returns whether it was enqueued."""
    task = _DEFERRER.configure_task(
        name,
        allow_unknown=True,
        queue=queue_of(name),
        queueing_lock=key,
        connection=session.connection().connection.driver_connection,
    )
    try:
        # A savepoint: the violated unique index would otherwise abort the caller's transaction.
        with session.begin_nested():
            task.defer(**arguments, **_correlation_argument())
    except AlreadyEnqueued:
        return False
    return True


def split_arguments(job_arguments: Mapping[str, Any]) -> JobCall:
    """Separate the arguments of a job from those that the queue adds."""
    reserved = (CORRELATION, RESCUES, DEATHS)
    return JobCall(
        {name: job_arguments[name] for name in job_arguments if name not in reserved},
        job_arguments.get(CORRELATION, {}),
        job_arguments.get(RESCUES, 0),
        job_arguments.get(DEATHS, []),
    )


def _correlation_argument() -> dict[str, Any]:
    correlation_values = correlation.get_correlation()
    return {CORRELATION: correlation_values} if correlation_values else {}


def queue_of(name: str) -> str:
    """The queue of a job: each domain has one, named by the part before the dot."""
    return name.partition(".")[0]
