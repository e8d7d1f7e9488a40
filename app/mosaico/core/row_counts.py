"""The number of rows of a list, counted up to a limit."""

from typing import Any, Final

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

MAX_COUNTED: Final = 10_000


def count_selected(session: Session, rows: Select[*tuple[Any, ...]]) -> int:
    """The number of rows that a statement selects, at most its limit."""
    return session.scalar(select(func.count()).select_from(rows.subquery())) or 0


def count_rows(session: Session, rows: Select[*tuple[Any, ...]]) -> str:
    """How many rows there are, as a text; at most `MAX_COUNTED` are counted."""
    total = count_selected(session, rows.limit(MAX_COUNTED + 1))
    return f"more than {MAX_COUNTED:,}" if total > MAX_COUNTED else f"{total:,}"
