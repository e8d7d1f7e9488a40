"""Bulk inserts with COPY, inside the caller's transaction."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO

import psycopg
from psycopg import sql
from sqlalchemy.orm import Session

# Source: Postgres manual, COPY § Binary Format.
SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
_FIELD_COUNT = struct.Struct(">h")
_FIELD_LENGTH = struct.Struct(">i")
_NULL = _FIELD_LENGTH.pack(-1)

BLOCK_BYTES = 256 * 1024


def copy_encoded_rows(
    session: Session, table: str, columns: Sequence[str], rows: Iterable[bytes]
) -> None:
    """Append rows that are already encoded in the binary COPY format."""
    with _open_copy(session, table, columns) as copy:
        # One write: a call per row costs more than the copy.
        copy.write(b"".join((SIGNATURE, *rows, TRAILER)))


def copy_encoded_file(
    session: Session, table: str, columns: Sequence[str], rows: IO[bytes]
) -> None:
    """Append the rows of a file, which are already encoded in the binary COPY format.

    Cost:    memory for one block at a time; nothing is computed while the transaction is open.
    """
    with _open_copy(session, table, columns) as copy:
        copy.write(SIGNATURE)
        while block := rows.read(BLOCK_BYTES):
            copy.write(block)
        copy.write(TRAILER)


def encode_row(*fields: bytes | None) -> bytes:
    """Encode one row in the binary COPY format; each field in the binary form of its type, None for
    NULL.
    """
    parts = [_FIELD_COUNT.pack(len(fields))]
    for field in fields:
        if field is None:
            parts.append(_NULL)
        else:
            parts += (_FIELD_LENGTH.pack(len(field)), field)
    return b"".join(parts)


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
