"""Deletes many rows in short transactions."""

from sqlalchemy import ColumnElement, delete, inspect, select, tuple_
from sqlalchemy.orm import Session

from app.core.db import Base

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
    some = select(*key).where(condition).limit(batch_rows)
    deleted = delete(table).where(tuple_(*key).in_(some)).returning(*key)
    return len(session.execute(deleted, execution_options={"synchronize_session": False}).all())
