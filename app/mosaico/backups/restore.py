"""Makes a database from a backup: schema, rows and upgrade in one transaction, so that it is complete or unchanged."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

import psycopg
from psycopg import sql
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from mosaico.backups.archive import BackupFile, TableCopy, UnusableBackup
from mosaico.backups.tables import Connection, list_columns, list_own_tables
from mosaico.core.db import DatabaseUnavailable
from mosaico.core.engine import CONNECTION_ERRORS, libpq_url, sqlalchemy_url
from mosaico.core.errors import Conflict
from mosaico.core.migrations import current_revision, migrate, require_migrations_to

# Foreign keys of our tables; they are created again when all rows are there, in one check for all.
_FOREIGN_KEYS: Final = """
    SELECT relname, conname, pg_get_constraintdef(pg_constraint.oid) FROM pg_constraint
    JOIN pg_class ON pg_class.oid = conrelid
    WHERE contype = 'f' AND relnamespace = to_regnamespace(current_schema()) AND relname = ANY(%s)
"""
# As in the settings of a backup, and no limits of the role.
_SETTINGS: Final = """
    SET LOCAL timezone = 'UTC'; SET LOCAL datestyle = 'ISO'; SET LOCAL intervalstyle = 'postgres';
    SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL lock_timeout = 0
"""


class DatabaseNotEmpty(Conflict):
    """The database has tables of MOSAICO already; restore into an empty database."""


def restore_backup(url: str, backup: BackupFile, table_names: Collection[str]) -> None:
    """Fill an empty database, and upgrade it to the schema of this program.

    Cost:    memory for one block; the transaction lasts as long as the restore.
    Raises: `UnusableBackup`, `DatabaseNotEmpty`, `ForeignTables`, `SchemaMismatch`, `DatabaseUnavailable`; nothing is
    changed then.
    """
    require_migrations_to(backup.manifest.revision)
    if current_revision(url) is not None:
        raise DatabaseNotEmpty(
            "the database has tables of MOSAICO already, and a restore makes them itself; name an empty database in"
            " DATABASE_URL, or for the embedded one a new folder in MOSAICO_DATA_DIR"
        )
    engine = create_engine(sqlalchemy_url(url), poolclass=NullPool, hide_parameters=True)
    with _named_failures(), engine.begin() as connection:
        connection.execute(text("SET LOCAL application_name = 'mosaico-restore'"))
        migrate(connection, backup.manifest.revision)
        _load(cast("Connection", connection.connection.driver_connection), backup, table_names)
        migrate(connection, "head")
    _analyze(url, backup)


def _load(connection: Connection, backup: BackupFile, table_names: Collection[str]) -> None:
    manifest = backup.manifest
    connection.execute(_SETTINGS)
    tables, _ = list_own_tables(connection, table_names)
    _require_same_tables(tables, manifest.tables)
    with _without_checks(connection, tables):
        # Rows that a migration made are in the backup.
        names = sql.SQL(", ").join(map(sql.Identifier, tables))
        connection.execute(sql.SQL("TRUNCATE {}").format(names))
        for table in manifest.tables:
            _copy_rows(connection, backup, table)
    for name, value in manifest.sequences.items():
        connection.execute("SELECT setval(quote_ident(%s)::regclass, %s)", [name, value])


def _require_same_tables(tables: Collection[str], copies: Collection[TableCopy]) -> None:
    """Raise `UnusableBackup` unless the backup has the tables of its revision."""
    differing = sorted({table.name for table in copies} ^ set(tables))
    if differing:
        raise UnusableBackup(
            f"the tables of this backup are not those of its schema ({', '.join(differing)}); use another backup, and"
            " report this as a bug if `mosaico backup` wrote it"
        )


@contextmanager
def _without_checks(connection: Connection, tables: list[str]) -> Iterator[None]:
    """Load rows in any order, and without the triggers that react to new ones."""
    keys = connection.execute(_FOREIGN_KEYS, [tables]).fetchall()
    for table, key, _ in keys:
        _alter(connection, "DROP CONSTRAINT {}", table, key)
    for table in tables:
        _alter(connection, "DISABLE TRIGGER USER", table)
    yield
    for table in tables:
        _alter(connection, "ENABLE TRIGGER USER", table)
    for table, key, definition in keys:
        _alter(connection, f"ADD CONSTRAINT {{}} {definition}", table, key)


def _alter(connection: Connection, change: str, table: str, *names: str) -> None:
    identifiers: Any = map(sql.Identifier, (table, *names))
    connection.execute(sql.SQL("ALTER TABLE {} " + change).format(*identifiers))


def _copy_rows(connection: Connection, backup: BackupFile, table: TableCopy) -> None:
    if set(table.columns) != set(list_columns(connection, table.name)):
        raise UnusableBackup(
            f"the columns of {table.name} in this backup are not those of its schema; use another backup"
        )
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(table.name), sql.SQL(", ").join(map(sql.Identifier, table.columns))
    )
    with connection.cursor() as cursor:
        with cursor.copy(statement) as copy:
            for block in backup.blocks(table):
                copy.write(block)
        if cursor.rowcount != table.rows:
            raise UnusableBackup(
                f"{table.name} has {cursor.rowcount} rows in this backup, not {table.rows}; use another backup"
            )


@contextmanager
def _named_failures() -> Iterator[None]:
    try:
        yield
    except (*CONNECTION_ERRORS, DBAPIError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if isinstance(cause, CONNECTION_ERRORS):
            raise DatabaseUnavailable(
                f"the database ended the restore: {str(cause).strip()}; it is unchanged, so repeat the restore"
            ) from error
        raise


def _analyze(url: str, backup: BackupFile) -> None:
    """Let the server know the new rows before the first query."""
    with psycopg.connect(
        libpq_url(url), application_name="mosaico-restore", autocommit=True
    ) as connection:
        for table in backup.manifest.tables:
            connection.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(table.name)))
