"""Deletes many rows in short transactions, and what has expired a day after it was marked.

A clock that is wrong must not delete what is still needed: it has to be wrong for a day before anything is lost.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, func, inspect, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from mosaico.core.clock import Clock
from mosaico.core.db import Base, Database
from mosaico.core.defaults import MAX_CLOCK_DIFFERENCE
from mosaico.core.errors import Unavailable
from mosaico.core.text import format_utc

BATCH_ROWS = 1_000
PURGE_DELAY = timedelta(days=1)


class PurgeMark(Base):
    """The time at which the expired rows of one kind were marked: those that had expired then."""

    __tablename__ = "purge_marks"

    kind: Mapped[str] = mapped_column(primary_key=True)
    marked_at: Mapped[datetime]


class ClocksDiffer(Unavailable):
    """The clocks of this machine and of the database differ too much, and nothing old is deleted; set
    both clocks, for example with NTP.
    """


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


def delete_all(session: Session, table: type[Base], condition: ColumnElement[bool]) -> None:
    """Delete all rows that match a condition, batch by batch, in the transaction of the session.

    For rows that must disappear together. The locks of all of them are held until its end.
    """
    while delete_batch(session, table, condition):
        pass


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


def purge_in_batches(
    db: Database, kind: str, delete_some: Callable[[Session, datetime], int], clock: Clock
) -> None:
    """Mark the rows of a kind that have expired, and delete them at the first call a day later.

    `delete_some` deletes one batch of the rows that had expired at a time. Nothing is deleted before
    the mark is a day old. Raises: `ClocksDiffer`.
    """
    with db.begin() as session:
        now = trusted_now(session, clock())
        marked_at = _valid_mark(session, kind, now)
    if now < marked_at + PURGE_DELAY:
        return
    delete_in_batches(db, lambda session, _: delete_some(session, marked_at), clock)
    # Last: a purge that is interrupted goes on with the same mark.
    is_purged = (PurgeMark.kind == kind) & (PurgeMark.marked_at == marked_at)
    with db.begin() as session:
        session.execute(update(PurgeMark).where(is_purged).values(marked_at=now))


def _valid_mark(session: Session, kind: str, now: datetime) -> datetime:
    """The time of the mark of a kind: now if there is none, or if it lies in the future, because a
    clock that was ahead set it.
    """
    mark = insert(PurgeMark).values(kind=kind, marked_at=now)
    earlier = func.least(PurgeMark.marked_at, mark.excluded.marked_at)
    statement = mark.on_conflict_do_update(
        index_elements=[PurgeMark.kind], set_={"marked_at": earlier}
    )
    return session.scalars(statement.returning(PurgeMark.marked_at)).one()


def trusted_now(session: Session, process_time: datetime) -> datetime:
    """The time of the database, if that of the process agrees with it. Raises: `ClocksDiffer`."""
    # Neither clock is trusted alone: a clock that is months ahead would delete everything.
    database_time = session.scalars(select(func.now())).one()
    difference = abs(database_time - process_time)
    if difference > MAX_CLOCK_DIFFERENCE:
        raise ClocksDiffer(
            f"the clock of this machine ({format_utc(process_time)}) and that of the database"
            f" ({format_utc(database_time)}) differ by {difference}: nothing old is deleted;"
            " set both clocks, for example with NTP"
        )
    return database_time
