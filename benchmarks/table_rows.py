"""Rows for benchmarks, made in the database: many at once, with a value in each required column."""

import json
from collections.abc import Mapping
from typing import Final

from sqlalchemy import Column, Table, text
from sqlalchemy.orm import Session

from mosaico.notifications.types import NotificationMessage
from mosaico.table_list import METADATA

TIME: Final = "timestamptz '2026-01-01' + n * interval '1 second'"
DEFAULTS: Final[Mapping[str, str]] = {
    "TEXT": "'x'",
    "JSONB": "'{}'",
    "ARRAY": "'{}'",
    "BIGINT": "1",
    "INTEGER": "1",
    "SMALLINT": "1",
    "BOOLEAN": "false",
    "DOUBLE": "0.5",
    "BLOB": "'\\x00'",
    "TIMESTAMP": TIME,
}
MESSAGE: Final = NotificationMessage(topic="test", title="Test").to_document()


def insert_rows(
    session: Session, table_name: str, columns: Mapping[str, str], row_count: int = 1
) -> None:
    """Insert rows; each value is an SQL expression of the row number `n`, which counts from 1.

    `:message` in an expression is a notification as JSON.
    """
    table: Table = METADATA.tables[table_name]
    required = {column.name: _default(column) for column in table.columns if _is_required(column)}
    times = {"created_at": TIME} if "created_at" in table.columns else {}
    values = {**required, **times, **columns}
    parameters: dict[str, object] = {"rows": row_count}
    if ":message" in "".join(values.values()):
        parameters["message"] = json.dumps(MESSAGE)
    session.execute(
        text(
            f"INSERT INTO {table.name} ({', '.join(values)}) SELECT {', '.join(values.values())}"
            " FROM generate_series(1, :rows) AS n"
        ),
        parameters,
    )


def _is_required(column: Column[object]) -> bool:
    return not column.nullable and column.server_default is None and column.identity is None


def _default(column: Column[object]) -> str:
    return DEFAULTS[str(column.type).partition(" ")[0].partition("(")[0].removesuffix("[]")]
