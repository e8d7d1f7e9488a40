"""Ranges of the rows of a table: a statement that reads a whole table would take seconds."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, SQLColumnExpression, and_, func, select

from mosaico.core.db import Database

WINDOW_ROWS: Final = 5_000


class RowWindow(NamedTuple):
    """A range of the values of a key: `after` is excluded, and None for the first range; `last` is
    included.
    """

    after: Any
    last: Any

    def contains(self, key: SQLColumnExpression[Any]) -> ColumnElement[bool]:
        """Return whether the key of a row is in the range."""
        is_before_end = key <= self.last
        return is_before_end if self.after is None else and_(key > self.after, is_before_end)


def iter_windows(db: Database, key: SQLColumnExpression[Any]) -> Iterator[RowWindow]:
    """All rows of a table in ranges of `WINDOW_ROWS`, in the order of an indexed key. Rows with
    the same key are in one range.

    Each range is read in a transaction of its own; rows that are inserted meanwhile may be left out.
    """
    after = None
    while True:
        keys = select(key).order_by(key).limit(WINDOW_ROWS)
        if after is not None:
            keys = keys.where(key > after)
        with db.read_statement() as session:
            last = session.scalar(select(func.max(keys.subquery().c[0])))
        if last is None:
            return
        yield RowWindow(after, last)
        after = last
