"""The schema: Alembic brings a database to the version of this code, and says when it is not."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url

from app.core.db import DatabaseUnavailable, database_errors, sqlalchemy_url
from app.core.errors import Unavailable

ROOT = Path(__file__).resolve().parents[2]


class UnknownSchema(Unavailable):
    """The database is not at the schema version of this program."""

    code = "unknown-schema"


def alembic_config(url: str) -> Config:
    config = Config(ROOT / "alembic.ini")
    config.set_main_option("script_location", str(ROOT / "migrations"))
    config.attributes["url"] = sqlalchemy_url(url)
    return config


def upgrade(url: str, revision: str = "head") -> None:
    """Bring the database to a revision; safe when several processes do it at once.

    Raises: `DatabaseUnavailable`, `BadDatabaseUrl`.
    """
    with _answering(url):
        command.upgrade(alembic_config(url), revision)


def downgrade(url: str, revision: str) -> None:
    command.downgrade(alembic_config(url), revision)


def current_revision(url: str) -> str | None:
    """The revision that the database is at; None when it was never migrated."""
    engine = create_engine(sqlalchemy_url(url), hide_parameters=True)
    try:
        with _answering(url), engine.connect() as connection:
            return MigrationContext.configure(connection).get_current_revision()
    finally:
        engine.dispose()


@contextmanager
def _answering(url: str) -> Iterator[None]:
    """Say which server does not answer, to the operator who chose it."""
    try:
        with database_errors():
            yield
    except DatabaseUnavailable as error:
        shown = make_url(url).render_as_string(hide_password=True)
        raise DatabaseUnavailable(
            f"no Postgres answers at {shown}; start it, or correct DATABASE_URL"
        ) from error


def require_current(url: str) -> None:
    """Raise `UnknownSchema` unless the database is at the newest revision that this code knows."""
    newest = ScriptDirectory.from_config(alembic_config(url)).get_current_head()
    found = current_revision(url)
    if found != newest:
        raise UnknownSchema(
            f"the database is at schema {found or 'none'}, this program needs {newest};"
            " run `mosaico db upgrade`, or start the version that fits the database"
        )
