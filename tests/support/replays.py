"""Rows that are written through the ORM once, and copied when they are written again.

A month of runs takes a third of a second of processor time, and its copy a tenth of that.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime

import psycopg
from psycopg import sql
from sqlalchemy import DateTime, Table
from sqlalchemy.orm import Session

from mosaico.table_list import METADATA

NULL = "\\N"
ROWS_OF_THIS_TRANSACTION = sql.SQL(
    "COPY (SELECT {} FROM {} WHERE xmin = pg_current_xact_id()::xid ORDER BY ctid) TO STDOUT"
)
SEQUENCES = "SELECT format('%I.%I', schemaname, sequencename), last_value FROM pg_sequences"

Numbers = dict[str, int | None]


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """Rows in the text format of COPY; `times` are the positions of the columns that move with the clock."""

    name: str
    columns: tuple[str, ...]
    times: tuple[int, ...]
    rows: tuple[tuple[str, ...], ...]

    def text(self, shift: Callable[[str], str]) -> str:
        lines = []
        for row in self.rows:
            fields = list(row)
            for position in self.times:
                fields[position] = shift(fields[position])
            lines.append("\t".join(fields))
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Recording:
    """What a function has written, and the last numbers of the sequences before and after it."""

    now: datetime
    tables: tuple[CopiedTable, ...]
    before: Numbers
    after: Numbers

    def replay(self, connection: psycopg.Connection, now: datetime) -> bool:
        """Write the rows again, `now` instead of then; refuses where they would get other numbers."""
        numbers = _read_numbers(connection)
        if any(numbers[name] != number for name, number in self.before.items()):
            return False
        delay = now - self.now

        def shift(time: str) -> str:
            return time if time == NULL else str(datetime.fromisoformat(time) + delay)

        for table in self.tables:
            with (
                connection.cursor() as cursor,
                cursor.copy(
                    sql.SQL("COPY {} ({}) FROM STDIN").format(
                        sql.Identifier(table.name),
                        sql.SQL(", ").join(map(sql.Identifier, table.columns)),
                    )
                ) as copy,
            ):
                copy.write(table.text(shift))
        for name, number in self.after.items():
            connection.execute("SELECT setval(%s::text::regclass, %s)", [name, number])
        return True


_RECORDINGS: dict[Hashable, Recording] = {}


def write_or_replay(
    session: Session, key: Hashable, now: datetime, write: Callable[[], object]
) -> None:
    """Write rows, or copy those that `write` made for the same key, with all their times moved to `now`.

    The key names whatever else the rows depend on, also a date in a text.
    """
    connection = session.connection().connection.driver_connection
    assert isinstance(connection, psycopg.Connection)
    recording = _RECORDINGS.get(key)
    if recording is not None and recording.replay(connection, now):
        return
    before = _read_numbers(connection)
    write()
    if recording is None:
        _RECORDINGS[key] = _record(connection, now, before)


def _record(connection: psycopg.Connection, now: datetime, before: Numbers) -> Recording:
    numbers = _read_numbers(connection)
    after = {name: number for name, number in numbers.items() if number != before[name]}
    tables = [_copy_table(connection, table) for table in METADATA.sorted_tables]
    return Recording(
        now=now,
        tables=tuple(table for table in tables if table.rows),
        before={name: before[name] for name in after},
        after=after,
    )


def _copy_table(connection: psycopg.Connection, table: Table) -> CopiedTable:
    columns = [column for column in table.columns if column.computed is None]
    names = tuple(column.name for column in columns)
    statement = ROWS_OF_THIS_TRANSACTION.format(
        sql.SQL(", ").join(map(sql.Identifier, names)), sql.Identifier(table.name)
    )
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        # Not at the other ends of lines that `splitlines` knows: COPY writes those of a text as they are.
        lines = b"".join(copy).decode().split("\n")[:-1]
    return CopiedTable(
        name=table.name,
        columns=names,
        times=tuple(n for n, column in enumerate(columns) if isinstance(column.type, DateTime)),
        rows=tuple(tuple(line.split("\t")) for line in lines),
    )


def _read_numbers(connection: psycopg.Connection) -> Numbers:
    return dict(connection.execute(SEQUENCES).fetchall())
