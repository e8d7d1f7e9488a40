"""One temporary Postgres server per test run, and its databases."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from psycopg import sql

from mosaico.core.migrations import upgrade
from mosaico.postgres.data_folder import FileLock
from mosaico.postgres.errors import BlockedStart
from mosaico.postgres.launch import APP_ROLE, HOST, SUPERUSER
from mosaico.postgres.server import EmbeddedPostgres
from tests.support.waiting import LIVENESS_S

ONE_AT_A_TIME = 7_202_611
MIGRATED = "migrated"


class SharedServer(NamedTuple):
    """A running server of a test run."""

    url: str


@contextmanager
def cluster(tmp_root: Path) -> Iterator[SharedServer]:
    """The server below `tmp_root`, shared by every test process that names the same folder.

    The last one that leaves stops it. Nothing in it survives a crash of the machine, which makes it fast.
    Its role `mosaico` may create databases.
    """
    server = server_below(tmp_root)
    with (tmp_root / "users-of-postgres").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        try:
            starting = tmp_root / "start-of-postgres"
            with FileLock(starting, timeout=LIVENESS_S, error=BlockedStart()):
                url = server.start()
                _prepare_role(superuser_url_of(server), url)
            yield SharedServer(url)
        finally:
            # Nobody else has the shared lock: this is the last one.
            with suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                server.stop()


def server_below(tmp_root: Path) -> EmbeddedPostgres:
    """The server of `cluster`, whether it runs or not."""
    return EmbeddedPostgres(tmp_root / "postgres-of-tests", durable=False)


def make_database(server_url: str, name: str, template: str | None = None) -> str:
    """A new database, empty or a copy of `template` (which nobody may be using); its URL."""
    _run(
        server_url,
        sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
            sql.Identifier(name), sql.Identifier(template or "template1")
        ),
    )
    return url_of(server_url, name)


def make_migrated_database(server_url: str, name: str) -> None:
    """A new database of our schema: the first process that asks migrates one, and each copies it."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        # Nobody may use a database while it is copied.
        connection.execute("SELECT pg_advisory_lock(%s)", [ONE_AT_A_TIME])
        cursor = connection.execute("SELECT FROM pg_database WHERE datname = %s", [MIGRATED])
        if cursor.fetchone() is None:
            drop_database(server_url, "migrating")
            upgrade(make_database(server_url, "migrating"))
            # Under its name only when it is complete: a killed process
            # leaves "migrating", which is dropped.
            rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
            connection.execute(rename.format(sql.Identifier("migrating"), sql.Identifier(MIGRATED)))
        drop_database(server_url, name)
        make_database(server_url, name, template=MIGRATED)


def drop_database(server_url: str, name: str) -> None:
    """Drop a database with all sessions in it; nothing happens when there is none."""
    _run(
        server_url, sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
    )


def url_of(server_url: str, name: str) -> str:
    """The URL of another database on the same server."""
    return urlunsplit(urlsplit(server_url)._replace(path=f"/{quote(name)}"))


def superuser_url_of(server: EmbeddedPostgres) -> str:
    """The URL of the superuser, who can create roles and extensions."""
    password = server._folder.password(SUPERUSER)
    return f"postgresql://{SUPERUSER}:{password}@{HOST}:{server.status().port}/{SUPERUSER}"


def _prepare_role(superuser_url: str, server_url: str) -> None:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        # What makes a password slow to guess makes each of some thousand sessions slow to begin.
        connection.execute("SET scram_iterations = 1")
        connection.execute(
            sql.SQL("ALTER ROLE {} CREATEDB PASSWORD {}").format(
                sql.Identifier(APP_ROLE), sql.Literal(urlsplit(server_url).password)
            ),
        )


def _run(server_url: str, statement: sql.Composed) -> None:
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(statement)
