"""Deleting many rows in transactions that stay short."""

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
    """Delete some of the rows that fulfil a condition; returns how many. Call again, in a new
    transaction, until it is 0.
    """
    key = inspect(table).primary_key
    some = select(*key).where(condition).limit(batch_rows)
    deleted = delete(table).where(tuple_(*key).in_(some)).returning(*key)
    return len(session.execute(deleted, execution_options={"synchronize_session": False}).all())
