"""COPY, the fast way into Postgres, inside the caller's transaction."""

from collections.abc import Iterable, Mapping

import psycopg
from psycopg import sql
from sqlalchemy.orm import Session


def copy_rows(
    session: Session, table: str, columns: Mapping[str, str], rows: Iterable[tuple[object, ...]]
) -> int:
    """Append rows in binary form; returns how many.

    `columns` maps each column, in the order of the row's values, to its Postgres type.
    Cost:    memory for one row at a time.
    """
    connection = session.connection().connection.driver_connection
    assert isinstance(connection, psycopg.Connection)
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    count = 0
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(list(columns.values()))
        for row in rows:
            copy.write_row(row)
            count += 1
    return count
