"""Deletes many rows in short transactions."""

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, func, inspect, select, tuple_
from sqlalchemy.orm import Session

from app.core.clock import Clock
from app.core.db import Base, Database
from app.core.errors import Unavailable

BATCH_ROWS = 5_000
MAX_CLOCK_DIFFERENCE = timedelta(minutes=5)


class ClocksDiffer(Unavailable):
    """The clocks of this machine and of the database differ by more than five minutes, and nothing
    old is deleted; set both clocks, for example with NTP.
    """

    code = "clocks-differ"


def delete_batch(
    session: Session,
    table: type[Base],
    condition: ColumnElement[bool],
    batch_rows: int = BATCH_ROWS,
) -> int:
    """Delete one batch of the rows that match a condition; returns how many.

    Call it again in a new transaction until it returns 0.
    """
    key = inspect(table).primary_key
    # PostgreSQL's DELETE has no LIMIT, hence the subquery.
    some = select(*key).where(condition).limit(batch_rows)
    deleted = delete(table).where(tuple_(*key).in_(some)).returning(*key)
    return len(session.execute(deleted, execution_options={"synchronize_session": False}).all())


def delete_in_batches(
    db: Database, delete_some: Callable[[Session, datetime], int], clock: Clock
) -> None:
    """Call a function that deletes one batch until it returns 0, each time in a new transaction.

    It gets the time of the database. Raises: `ClocksDiffer`.
    """
    deleted = 1
    while deleted:
        with db.begin() as session:
            deleted = delete_some(session, trusted_now(session, clock()))


def trusted_now(session: Session, process_time: datetime) -> datetime:
    """The time of the database, if that of the process agrees with it. Raises: `ClocksDiffer`."""
    # Neither clock is trusted alone: a clock that is months ahead would delete everything.
    database_time = session.scalars(select(func.now())).one()
    difference = abs(database_time - process_time)
    if difference > MAX_CLOCK_DIFFERENCE:
        raise ClocksDiffer(
            f"the clock of this machine ({process_time:%Y-%m-%d %H:%M} UTC) and that of the database"
            f" ({database_time:%Y-%m-%d %H:%M} UTC) differ by {difference}: nothing old is deleted;"
            " set both clocks, for example with NTP"
        )
    return database_time
