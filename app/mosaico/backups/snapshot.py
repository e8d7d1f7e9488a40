"""Writes a backup: every table as of one moment, while the service runs."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from mosaico.backups.archive import FORMAT, BackupWriter, Manifest, TableCopy
from mosaico.backups.tables import (
    Connection,
    last_sequence_values,
    list_columns,
    list_own_tables,
)
from mosaico.core.db import DatabaseUnavailable
from mosaico.core.engine import libpq_url
from mosaico.core.errors import Misconfigured, Unavailable
from mosaico.core.key_rotation import EncryptedColumn
from mosaico.core.migrations import same_as_released

CONNECT_TIMEOUT_S: Final = 10
# An upgrade that holds its locks for longer is waited for by nobody.
LOCK_TIMEOUT: Final = "10s"
# All times and numbers as text that any server reads back unchanged, and no limits of the role. Row security is off, so
# that a role that does not see all rows gets an error, not a part of them.
_SETTINGS: Final = f"""
    SET timezone = 'UTC'; SET datestyle = 'ISO'; SET intervalstyle = 'postgres'; SET extra_float_digits = 3;
    SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET lock_timeout = '{LOCK_TIMEOUT}';
    SET row_security = off
"""
_MOMENT: Final = "SELECT now(), version_num FROM alembic_version"
_COUNT_KEYS: Final = """
    SELECT split_part(left({column}, 40), '.', 2), count(*) FROM {table} WHERE {column} IS NOT NULL GROUP BY 1
"""


class UnreadableTables(Misconfigured):
    """The role of DATABASE_URL does not see all rows; make the backup with the role that owns the tables."""


class BusySchema(Unavailable):
    """An upgrade of the schema is running; repeat the backup after it."""


def write_backup(
    url: str,
    path: Path,
    table_names: Collection[str],
    encrypted_columns: Iterable[EncryptedColumn],
) -> tuple[Manifest, list[str]]:
    """Write every table of the database as of one moment; returns the manifest, and the tables of other programs, which
    are left out.

    `path` is overwritten. The service may run meanwhile; an upgrade of the schema waits.
    Cost:    memory for one row and 256 KiB; one snapshot for the duration.
    Raises: `DatabaseUnavailable`, `UnreadableTables`, `BusySchema`; `OSError` of the file.
    """
    with _snapshot(url, table_names) as connection:
        own, foreign = list_own_tables(connection, table_names)
        [(created_at, revision)] = connection.execute(_MOMENT)
        with BackupWriter(path) as writer:
            manifest = Manifest(
                format=FORMAT,
                version=version("mosaico"),
                revision=same_as_released(revision),
                created_at=created_at.astimezone(UTC).isoformat(timespec="seconds"),
                postgres=connection.info.parameter_status("server_version") or "",
                master_keys=_count_keys(connection, own, encrypted_columns),
                tables=tuple(_copy_table(connection, writer, name) for name in own),
                # After the rows: a value may be skipped, but none is used twice.
                sequences=last_sequence_values(connection, own),
            )
            writer.finish(manifest)
    return manifest, foreign


@contextmanager
def _snapshot(url: str, table_names: Collection[str]) -> Iterator[Connection]:
    """A transaction that sees the database as of one moment, at which no upgrade changes its tables."""
    try:
        with psycopg.connect(
            libpq_url(url),
            connect_timeout=CONNECT_TIMEOUT_S,
            application_name="mosaico-backup",
            autocommit=True,
        ) as connection:
            connection.execute(_SETTINGS)
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            present, _ = list_own_tables(connection, table_names)
            with connection.transaction():
                # Before the first query, which fixes the moment.
                _lock(connection, present)
                yield connection
    except psycopg.errors.LockNotAvailable as error:
        raise BusySchema from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise UnreadableTables(
            f"the role of DATABASE_URL does not see all rows ({error.diag.message_primary}); make the backup with the"
            " role that owns the tables, which `mosaico db upgrade` uses"
        ) from error
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(
            f"the database ended the backup: {str(error).strip()}; no file was written"
        ) from error


def _lock(connection: Connection, tables: Iterable[str]) -> None:
    """Let no upgrade change the tables before they are read."""
    names = sql.SQL(", ").join(map(sql.Identifier, tables))
    connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(names))


def _copy_table(connection: Connection, writer: BackupWriter, name: str) -> TableCopy:
    columns = list_columns(connection, name)
    statement = sql.SQL("COPY {} ({}) TO STDOUT").format(
        sql.Identifier(name), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        return writer.write_table(name, columns, copy)


def _count_keys(
    connection: Connection, tables: Collection[str], columns: Iterable[EncryptedColumn]
) -> dict[str, int]:
    """The number of stored secrets by the ID of their master key."""
    counts: Counter[str] = Counter()
    for column in columns:
        # A revision before it lacks the table.
        if column.table.name not in tables:
            continue
        statement = sql.SQL(_COUNT_KEYS).format(
            column=sql.Identifier(column.value.name), table=sql.Identifier(column.table.name)
        )
        rows: Any = connection.execute(statement)
        counts.update({str(key_id): int(count) for key_id, count in rows})
    return dict(sorted(counts.items()))
