"""Putting work on the queue, in the caller's own transaction: a row and its job, or neither."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import procrastinate
from procrastinate.exceptions import AlreadyEnqueued
from sqlalchemy.orm import Session

from app.core import correlation

# Never opened: it has no connection of its own and only writes on those it is given.
_DEFERRER = procrastinate.App(connector=procrastinate.SyncPsycopgConnector())


# The argument of a job that holds the id of the request that it belongs to.
CORRELATION = "_correlation"


class JobArguments(NamedTuple):
    """A job's arguments, and what it goes on with: see `app.core.correlation`."""

    arguments: dict[str, Any]
    correlation: dict[str, str]


def enqueue(
    session: Session,
    name: str,
    *,
    lock: str | None = None,
    start_at: datetime | None = None,
    **arguments: Any,
) -> None:
    """Enqueue one job, which exists once the transaction of `session` commits.

    `name` is `<queue>.<what>`, the name of a handler in any process. Jobs with one `lock` run
    one after the other, in the order they came. `at` is the earliest start.
    """
    enqueue_many(session, name, [arguments], lock=lock, start_at=start_at)


def enqueue_many(
    session: Session,
    name: str,
    arguments: Sequence[Mapping[str, Any]],
    *,
    lock: str | None = None,
    start_at: datetime | None = None,
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
        connection=session.connection().connection.driver_connection,
    )
    carried = _correlation_argument()
    task.batch_defer(*({**each, **carried} for each in arguments))


def enqueue_once(session: Session, name: str, *, key: str, **arguments: Any) -> bool:
    """Enqueue a job unless one with this key already waits; False when one does."""
    task = _DEFERRER.configure_task(
        name,
        allow_unknown=True,
        queue=queue_of(name),
        queueing_lock=key,
        connection=session.connection().connection.driver_connection,
    )
    try:
        with session.begin_nested():
            task.defer(**arguments, **_correlation_argument())
    except AlreadyEnqueued:
        return False
    return True


def split_correlation(arguments: Mapping[str, Any]) -> JobArguments:
    """What a job is called with, apart from what it goes on with."""
    carried = arguments.get(CORRELATION, {})
    return JobArguments(
        {name: arguments[name] for name in arguments if name != CORRELATION}, carried
    )


def _correlation_argument() -> dict[str, Any]:
    known = correlation.get_correlation()
    return {CORRELATION: known} if known else {}


def queue_of(name: str) -> str:
    """Each domain has its own queue, named as the part before the dot."""
    return name.partition(".")[0]
