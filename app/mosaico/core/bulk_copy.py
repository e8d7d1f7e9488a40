"""Bulk inserts with COPY, inside the caller's transaction."""

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Final

import psycopg
from psycopg import sql
from sqlalchemy.orm import Session

# Source: Postgres manual, COPY § Binary Format.
SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
_FIELD_COUNT = struct.Struct(">h")
_FIELD_LENGTH = struct.Struct(">i")
NULL_FIELD: Final = _FIELD_LENGTH.pack(-1)
# Of an array with one dimension: dimensions, whether it has NULLs, type of its elements, length, first index.
# Source: `array_recv`.
ARRAY_HEAD: Final = struct.Struct(">iiiii")
_JSONB_VERSION = b"\x01"

BLOCK_BYTES = 256 * 1024

_COPY: Final = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)")
_COPIED: Final = sql.Identifier("copied_rows")
_CREATE_COPIED: Final = sql.SQL(
    "CREATE TEMPORARY TABLE {copied} ON COMMIT DROP AS SELECT {columns} FROM {target} WITH NO DATA"
)
_INSERT_COPIED: Final = sql.SQL("INSERT INTO {target} ({columns}) SELECT {columns} FROM {copied}")
_DROP_COPIED: Final = sql.SQL("DROP TABLE {}")


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
    encoded = (NULL_FIELD if field is None else encode_field(field) for field in fields)
    return b"".join((_FIELD_COUNT.pack(len(fields)), *encoded))


def encode_field(field: bytes) -> bytes:
    """A field of a row, or an element of an array, given the binary form of its type."""
    return _FIELD_LENGTH.pack(len(field)) + field


def encode_json(document: object) -> bytes:
    """The binary form of jsonb: a version and the text."""
    return _JSONB_VERSION + json.dumps(document).encode()


@contextmanager
def _open_copy(session: Session, table: str, columns: Iterable[str]) -> Iterator[psycopg.Copy]:
    # The driver's connection of the session, so the rows belong to its transaction.
    connection = session.connection().connection.driver_connection
    assert isinstance(connection, psycopg.Connection)
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    with connection.cursor() as cursor:
        if not _has_policies(cursor, table):
            with cursor.copy(_COPY.format(sql.Identifier(table), names)) as copy:
                yield copy
            return
        # Postgres does not copy into a table whose policies apply to the role: to all but its owner.
        parts = {"columns": names, "target": sql.Identifier(table), "copied": _COPIED}
        cursor.execute(_CREATE_COPIED.format(**parts))
        with cursor.copy(_COPY.format(_COPIED, names)) as copy:
            yield copy
        cursor.execute(_INSERT_COPIED.format(**parts))
        cursor.execute(_DROP_COPIED.format(_COPIED))


def _has_policies(cursor: psycopg.Cursor[Any], table: str) -> bool:
    row = cursor.execute("SELECT row_security_active(%s)", [table]).fetchone()
    return row is not None and bool(row[0])
