"""Bulk inserts with COPY, inside the caller's transaction."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import psycopg
from psycopg import sql
from sqlalchemy.orm import Session

# Source: Postgres manual, COPY § Binary Format.
SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"


def copy_rows(
    session: Session, table: str, columns: Mapping[str, str], rows: Iterable[tuple[object, ...]]
) -> int:
    """Append rows in binary form; returns how many.

    `columns` maps each column, in the order of the row's values, to its Postgres type.
    Cost:    memory for one row at a time.
    """
    count = 0
    with _open_copy(session, table, columns) as copy:
        # Binary COPY does no casts: the values must have exactly the types of the columns.
        copy.set_types(list(columns.values()))
        for row in rows:
            copy.write_row(row)
            count += 1
    return count


def copy_encoded_rows(
    session: Session, table: str, columns: Sequence[str], rows: Iterable[bytes]
) -> None:
    """Append rows that are already encoded in the binary COPY format."""
    with _open_copy(session, table, columns) as copy:
        # One write: a call per row costs more than the copy.
        copy.write(b"".join((SIGNATURE, *rows, TRAILER)))


@contextmanager
def _open_copy(session: Session, table: str, columns: Iterable[str]) -> Iterator[psycopg.Copy]:
    # The driver's connection of the session, so the rows belong to its transaction.
    connection = session.connection().connection.driver_connection
    assert isinstance(connection, psycopg.Connection)
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        yield copy
