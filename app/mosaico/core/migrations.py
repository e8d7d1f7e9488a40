"""Database schema: upgrades with Alembic, and a check of the version at each start.

Alembic is imported only for upgrades: every process checks the revision, and the import costs time
and memory.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import psycopg.errors
from sqlalchemy import Connection, MetaData, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ProgrammingError

from mosaico.core.db import DatabaseUnavailable, database_errors
from mosaico.core.engine import Driver, sqlalchemy_url
from mosaico.core.errors import Conflict, Misconfigured, Unavailable
from mosaico.core.row_limits import LIMITED_ROLE, VISIBLE_ROWS

if TYPE_CHECKING:
    from alembic.config import Config

FIRST_RELEASE: Final = "1.0"
# Version 1.0 has the schema of this revision, the last one before it: such a database is taken over as it is.
LAST_BEFORE_RELEASE: Final = "0026"
# Its migrations lead from every earlier revision to that one.
LAST_COMMIT_BEFORE_RELEASE: Final = "29b7461f"
# A wheel has the migrations inside the package, a checkout has them at its top.
PACKAGE: Final = Path(__file__).resolve().parents[1]
CHECKOUT: Final = PACKAGE.parents[1]
FOLDER: Final = PACKAGE if (PACKAGE / "alembic.ini").exists() else CHECKOUT
# The newest of `migrations/versions`, whose files are named after their revisions: 1.0 is `1_0_schema.py`.
HEAD_REVISION: Final = "{}.{}".format(
    *max(
        (int(name[1]), int(name[2]))
        for file in (FOLDER / "migrations" / "versions").glob("*.py")
        if (name := re.match(r"(\d+)[._](\d+)_", file.name))
    )
)
# The oldest major version of Postgres on which the tests run.
OLDEST_POSTGRES: Final = 16
MAX_LISTED: Final = 5
EMPTY_DATABASE: Final = "Create an empty database for MOSAICO, and name it in DATABASE_URL"
# Every revision has these, from the first one on.
FIRST_TABLES: Final = frozenset({"agents", "benchmarks", "benchmark_runs", "procrastinate_jobs"})
JOB_ENGINE_PREFIX: Final = "procrastinate_"

# What a type, a function or an index with a name of ours leads to.
NAMES_TAKEN: Final = (
    psycopg.errors.DuplicateTable,
    psycopg.errors.DuplicateObject,
    psycopg.errors.DuplicateFunction,
    psycopg.errors.InvalidFunctionDefinition,
)

# Tables and views share their names with everything else that is a relation.
_RELATIONS: Final = text(
    "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(current_schema())"
)

_LACKS_POLICIES: Final = text(
    """
    SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = :role)
        AND NOT EXISTS (SELECT FROM pg_policies WHERE policyname = :policy AND schemaname = current_schema())
        AND EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('benchmarks') AND pg_has_role(relowner, 'USAGE'))
    """
)


class SchemaMismatch(Unavailable):
    """The database has another schema version than this program; run `mosaico db upgrade`."""


class ForeignTables(Conflict):
    """Another program made tables with our names in this database; use an empty database."""


def build_alembic_config(url: str) -> "Config":
    """The Alembic configuration for a database."""
    # Alembic takes long to import; a process whose schema is current does without.
    from alembic.config import Config

    config = Config(FOLDER / "alembic.ini")
    config.attributes["url"] = sqlalchemy_url(url)
    return config


def require_migrations_to(revision: str) -> None:
    """Raise `SchemaMismatch` for a revision that this version of MOSAICO cannot make."""
    # As in `upgrade`.
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    try:
        ScriptDirectory.from_config(build_alembic_config("postgresql://")).get_revision(revision)
    except CommandError as error:
        raise SchemaMismatch(
            f"this version of MOSAICO does not know the schema {revision}; use the version that made it"
        ) from error


def migrate(connection: Connection, revision: str) -> None:
    """Upgrade the schema within the transaction of the caller, who commits it. Raises: `ForeignTables`."""
    # As in `upgrade`.
    from alembic import command

    url = connection.engine.url.render_as_string(hide_password=False)
    config = build_alembic_config(url)
    config.attributes["connection"] = connection
    with _named_obstacles(url):
        command.upgrade(config, revision)


def upgrade(url: str, revision: str = "head") -> None:
    """Upgrade the database to a revision.

    Concurrent upgrades are safe; without anything to do it returns at once. A changed policy needs a new revision;
    policies that are missing because their role was created later are installed at the newest one, too.

    Raises: `DatabaseUnavailable`, `BadDatabaseUrl`, `Misconfigured`, `ForeignTables`; `SchemaMismatch`
    if a newer version of MOSAICO made the schema, or one from before version 1.0.
    """
    if revision == "head" and current_revision(url) == HEAD_REVISION and not _lacks_policies(url):
        return
    _run_migrations(build_alembic_config(url), revision)


def pending_revisions(url: str) -> Sequence[str]:
    """What `upgrade` would do, as "1.1 Title of the migration", oldest first; empty for a current schema.

    Nothing is changed. Raises: as `upgrade`.
    """
    current = current_revision(url)
    if current == HEAD_REVISION:
        return []
    # As in `build_alembic_config`.
    from alembic.script import ScriptDirectory

    config = build_alembic_config(url)
    config.attributes["only_check"] = True
    _run_migrations(config, "head")
    script = ScriptDirectory.from_config(config)
    start = "base" if current in {None, LAST_BEFORE_RELEASE} else str(current)
    newest_first = script.iterate_revisions("head", start)
    return [f"{migration.revision} {migration.doc}" for migration in reversed(list(newest_first))]


def _run_migrations(config: "Config", revision: str) -> None:
    # As in `build_alembic_config`.
    from alembic import command

    url = config.attributes["url"]
    with _named_server_errors(url), _named_obstacles(url):
        command.upgrade(config, revision)


def current_revision(url: str) -> str | None:
    """The revision of the database; None when it was never migrated.

    Raises: `DatabaseUnavailable`, `BadDatabaseUrl`, `Misconfigured`.
    """
    engine = create_engine(sqlalchemy_url(url), hide_parameters=True)
    try:
        with _named_server_errors(url), engine.connect() as connection:
            require_postgres(server_version(connection))
            return _recorded_revision(connection)
    finally:
        engine.dispose()


def server_version(connection: Connection) -> str:
    """The version that the server reports, such as "16.4 (Debian 16.4-1)"; a pooler reports that of its server."""
    driver = cast("Driver", connection.connection.driver_connection)
    return driver.info.parameter_status("server_version") or ""


def require_postgres(version: str) -> None:
    """Raise `Misconfigured`, with its version, for a server that this program does not support.

    A version that is not understood passes: forks have names of their own.
    """
    major = re.match(r"\d+", version)
    if major and int(major[0]) < OLDEST_POSTGRES:
        raise Misconfigured(
            f"the server is Postgres {version}, and MOSAICO requires {OLDEST_POSTGRES} or newer; "
            "upgrade the server, set DATABASE_URL to a newer one, or unset it to use the embedded one"
        )


def require_own_tables(connection: Connection, metadata: MetaData) -> None:
    """Raise `ForeignTables`, with their names, if another program has made relations with names of ours.

    The tables are ours if a revision is recorded and the tables of the first one exist.
    """
    present = set(connection.scalars(_RELATIONS))
    names = {"alembic_version", *metadata.tables}
    clashing = {name for name in present if name in names or name.startswith(JOB_ENGINE_PREFIX)}
    if _recorded_revision(connection) is not None and present >= FIRST_TABLES:
        return
    if clashing:
        listed = ", ".join(sorted(clashing)[:MAX_LISTED])
        more = f" and {len(clashing) - MAX_LISTED} more" if len(clashing) > MAX_LISTED else ""
        raise ForeignTables(
            f"another program made {listed}{more} in the database "
            f"{connection.engine.url.database}, and MOSAICO needs these names; nothing was changed. "
            f"{EMPTY_DATABASE}"
        )


def require_known_revision(connection: Connection) -> None:
    """Raise `SchemaMismatch` for a schema from before version 1.0, and for one of a newer version."""
    current = _recorded_revision(connection)
    if current not in {None, HEAD_REVISION} and not _is_upgradable(str(current)):
        raise SchemaMismatch(_describe_mismatch(current))


def take_over_last_schema(connection: Connection) -> None:
    """Record version 1.0 for a database with the last schema before it, which is the same."""
    if _recorded_revision(connection) == LAST_BEFORE_RELEASE:
        connection.execute(
            text("UPDATE alembic_version SET version_num = :release WHERE version_num = :last"),
            {"release": FIRST_RELEASE, "last": LAST_BEFORE_RELEASE},
        )


def same_as_released(revision: str) -> str:
    """The released revision whose schema a revision has: that of version 1.0 for the last one before it."""
    return FIRST_RELEASE if revision == LAST_BEFORE_RELEASE else revision


def _is_upgradable(revision: str) -> bool:
    if revision == LAST_BEFORE_RELEASE:
        return True
    return _order(FIRST_RELEASE) <= _order(revision) < _order(HEAD_REVISION)


def _order(revision: str) -> tuple[int, ...]:
    """The place of a revision among all; () for one that is not ours."""
    return tuple(map(int, revision.split("."))) if re.fullmatch(r"\d+(\.\d+)?", revision) else ()


def _describe_mismatch(revision: str | None) -> str:
    """What is wrong with a schema that is not the current one, and what to do."""
    if revision is None:
        return f"the database has no schema of MOSAICO, and this version requires {HEAD_REVISION}; run `mosaico db upgrade`"
    if _is_upgradable(revision):
        return f"the database is at schema {revision}, and this version of MOSAICO requires {HEAD_REVISION}; run `mosaico db upgrade`"
    if re.fullmatch(r"0\d{3}", revision):
        return (
            f"the database is at schema {revision}, from before version 1.0, and this version upgrades only {LAST_BEFORE_RELEASE},"
            f" the last one before; run `mosaico db upgrade` of the commit {LAST_COMMIT_BEFORE_RELEASE} first, or use an empty database"
        )
    return (
        f"the database is at schema {revision}, and this version of MOSAICO knows none newer than {HEAD_REVISION};"
        " start the version that fits the database"
    )


def _lacks_policies(url: str) -> bool:
    """Return whether the role of limited callers was created after the last upgrade, and we may install its policies."""
    engine = create_engine(sqlalchemy_url(url), hide_parameters=True)
    try:
        with _named_server_errors(url), engine.connect() as connection:
            return bool(
                connection.scalar(_LACKS_POLICIES, {"role": LIMITED_ROLE, "policy": VISIBLE_ROWS})
            )
    finally:
        engine.dispose()


def _recorded_revision(connection: Connection) -> str | None:
    if connection.scalar(text("SELECT to_regclass('alembic_version')")) is None:
        return None
    # Another program's table may have other columns.
    version = connection.scalar(
        text("SELECT to_jsonb(recorded) ->> 'version_num' FROM alembic_version AS recorded")
    )
    return None if version is None else str(version)


@contextmanager
def _named_obstacles(url: str) -> Iterator[None]:
    """Name what of another program stands in the way of an upgrade. Raises: `ForeignTables`."""
    try:
        yield
    except (ProgrammingError, psycopg.ProgrammingError) as error:
        cause = error.orig if isinstance(error, ProgrammingError) else error
        if not isinstance(cause, NAMES_TAKEN):
            raise
        raise ForeignTables(
            f"another program made what MOSAICO needs in the database {make_url(url).database}:"
            f" {cause.diag.message_primary}; nothing was changed. {EMPTY_DATABASE}"
        ) from error


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
        raise SchemaMismatch(_describe_mismatch(revision))
