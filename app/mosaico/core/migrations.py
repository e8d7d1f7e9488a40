"""Database schema: upgrades with Alembic, and a check of the version at each start.

Alembic is imported only for upgrades: every process checks the revision, and the import costs time
and memory.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import MetaData, create_engine, text
from sqlalchemy.engine import make_url

from mosaico.core.db import Database, DatabaseUnavailable, database_errors
from mosaico.core.engine import sqlalchemy_url
from mosaico.core.errors import Unavailable

if TYPE_CHECKING:
    from alembic.config import Config

# The newest of `migrations/versions`; a test compares them.
HEAD_REVISION: Final = "0009"
# A wheel has the migrations inside the package, a checkout has them at its top.
PACKAGE: Final = Path(__file__).resolve().parents[1]
CHECKOUT: Final = PACKAGE.parents[1]


_COLUMNS: Final = text(
    "SELECT relname, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid"
    " WHERE relnamespace = to_regnamespace(current_schema())"
    " AND relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped"
)


class SchemaMismatch(Unavailable):
    """The database has another schema version than this program; run `mosaico db upgrade`."""


def build_alembic_config(url: str) -> "Config":
    """The Alembic configuration for a database."""
    # Alembic takes long to import; a process whose schema is current does without.
    from alembic.config import Config

    folder = PACKAGE if (PACKAGE / "alembic.ini").exists() else CHECKOUT
    config = Config(folder / "alembic.ini")
    config.attributes["url"] = sqlalchemy_url(url)
    return config


def upgrade(url: str, revision: str = "head") -> None:
    """Upgrade the database to a revision.

    Concurrent upgrades are safe; without anything to do it returns at once.

    Raises: `DatabaseUnavailable`, `BadDatabaseUrl`.
    """
    if revision == "head" and current_revision(url) == HEAD_REVISION:
        return
    # As above.
    from alembic import command

    with _named_server_errors(url):
        command.upgrade(build_alembic_config(url), revision)


def downgrade(url: str, revision: str) -> None:
    """Downgrade the database to a revision."""
    # As above.
    from alembic import command

    command.downgrade(build_alembic_config(url), revision)


def current_revision(url: str) -> str | None:
    """The revision of the database; None when it was never migrated."""
    engine = create_engine(sqlalchemy_url(url), hide_parameters=True)
    try:
        with _named_server_errors(url), engine.connect() as connection:
            if connection.scalar(text("SELECT to_regclass('alembic_version')")) is None:
                return None
            version = connection.scalar(text("SELECT version_num FROM alembic_version"))
            return None if version is None else str(version)
    finally:
        engine.dispose()


@contextmanager
def _named_server_errors(url: str) -> Iterator[None]:
    """Name the server in the error, because the operator chose it."""
    try:
        with database_errors():
            yield
    except DatabaseUnavailable as error:
        displayed_url = make_url(url).render_as_string(hide_password=True)
        raise DatabaseUnavailable(
            f"no Postgres answers at {displayed_url}; start it, or correct DATABASE_URL"
        ) from error


def require_current_schema(url: str) -> None:
    """Raise `SchemaMismatch` unless the database is at the newest revision of this program."""
    revision = current_revision(url)
    if revision != HEAD_REVISION:
        raise SchemaMismatch(
            f"the database is at schema {revision or 'none'}, this version of MOSAICO requires "
            f"{HEAD_REVISION}; run `mosaico db upgrade`, or start the version that fits the "
            "database"
        )


def require_columns(db: Database, metadata: MetaData, remedy: str) -> None:
    """Raise `SchemaMismatch` with a remedy unless every column of this program exists.

    Until the first release the first migration changes, and keeps its name: the revision does not
    tell the tables of an earlier version in development from those of this one.
    """
    with db.read() as session:
        present = {(row.relname, row.attname) for row in session.execute(_COLUMNS)}
    missing = sorted(
        str(column)
        for table in metadata.tables.values()
        for column in table.columns
        if (table.name, column.name) not in present
    )
    if missing:
        raise SchemaMismatch(
            "an earlier development version created the tables of this database: the column "
            f"{missing[0]} is missing",
            hint=remedy,
        )
