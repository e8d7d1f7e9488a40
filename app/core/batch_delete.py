"""Deletes many rows in short transactions."""

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import ColumnElement, delete, inspect, select, tuple_
from sqlalchemy.orm import Session

from app.core.clock import Clock
from app.core.db import Base, Database

BATCH_ROWS = 5_000


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
    """Call a function that deletes one batch until it returns 0, each time in a new transaction."""
    deleted = 1
    while deleted:
        with db.begin() as session:
            deleted = delete_some(session, clock())
