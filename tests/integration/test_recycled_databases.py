"""A recycled test database is like a new one."""

from collections.abc import Callable, Iterator
from typing import LiteralString

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.pool import PoolProxiedConnection

from mosaico.core.db import Database
from mosaico.core.engine import libpq_url
from tests.support.postgres import SharedServer
from tests.support.recycling import Databases

A_FEW, MANY = 3, 5000
CONNECTIONS: list[PoolProxiedConnection] = []
WRITE = """
    INSERT INTO audit_log (actor_type, actor_id, action, resource_type, outcome, fields)
    SELECT 'key', 'k-' || n, 'create', 'agent', 'done', '{}' FROM generate_series(1, %s) AS n
    RETURNING seq
"""


# One for the file: each learns from a session of its own what the template is like.
@pytest.fixture(scope="module")
def recycled_databases(
    postgres_server: SharedServer, superuser_url: str, migrated_template: str, worker_id: str
) -> Iterator[Databases]:
    """Databases beside those of the other tests."""
    prefix = f"recycled_{worker_id}_"
    recycled_databases = Databases(
        postgres_server.url, superuser_url, migrated_template, prefix=prefix
    )
    yield recycled_databases
    recycled_databases.close()


def write_rows(recycled_databases: Databases, name: str, rows: int) -> list[int]:
    """The numbers of the rows that are written, of a table from which nobody may delete."""
    with psycopg.connect(recycled_databases.url(name), autocommit=True) as connection:
        return [row[0] for row in connection.execute(WRITE, [rows])]


@pytest.mark.parametrize("rows", [A_FEW, MANY])
def test_databases__returned_database_is_empty_and_counts_from_one(
    recycled_databases: Databases, rows: int
) -> None:
    name = recycled_databases.take()
    for _ in range(2):
        assert write_rows(recycled_databases, name, rows) == list(range(1, rows + 1))
        recycled_databases.give_back(name)
        assert recycled_databases.take() == name


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE strangers ()",
        "ALTER TABLE agents ADD COLUMN stranger int",
        "ALTER TABLE agents ALTER COLUMN name DROP NOT NULL",
        "CREATE FUNCTION strange() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "ALTER TABLE agents ADD CONSTRAINT strange CHECK (name <> '')",
        "REVOKE INSERT ON agents FROM CURRENT_USER",
        "CREATE SCHEMA strange",
    ],
)
def test_databases__altered_database_is_not_reused(
    recycled_databases: Databases, change: LiteralString
) -> None:
    name = recycled_databases.take()
    with psycopg.connect(recycled_databases.url(name), autocommit=True) as connection:
        connection.execute(change)
    recycled_databases.give_back(name)
    assert recycled_databases.take() != name


def test_databases__temporary_table_of_a_session_is_no_change(
    recycled_databases: Databases,
) -> None:
    name = recycled_databases.take()
    with recycled_databases.client(name).begin() as session:
        session.execute(text("CREATE TEMP TABLE numbers (number int NOT NULL DEFAULT 1)"))
    recycled_databases.give_back(name)
    assert recycled_databases.take() == name


def test_databases__database_with_ended_sessions_is_replaced(recycled_databases: Databases) -> None:
    name = recycled_databases.take()
    recycled_databases.give_back(name)
    recycled_databases.sessions[recycled_databases.take()].close()
    recycled_databases.give_back(name)
    fresh = recycled_databases.take()
    assert fresh != name
    assert write_rows(recycled_databases, fresh, A_FEW) == [1, 2, 3]


def session_of(client: Database) -> int:
    """The process ID of a session of the client, after a use of the client."""
    row = client.fetch_row("SELECT pg_backend_pid() AS pid", {})
    assert row is not None
    return int(row["pid"])


def test_client__its_sessions_serve_the_next_test(recycled_databases: Databases) -> None:
    client = recycled_databases.client(recycled_databases.take())
    session = session_of(client)
    recycled_databases.give_back(name := client.engine.url.database or "")

    assert recycled_databases.take() == name
    assert recycled_databases.client(name) is client
    assert session_of(client) == session


def end_session(client: Database) -> None:
    with psycopg.connect(libpq_url(client.url), autocommit=True) as connection:
        # It returns when the session has ended, or after five seconds.
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", [session_of(client)])


def take_lock(client: Database) -> None:
    client.fetch_row("SELECT pg_advisory_lock(1)", {})


def leave_a_session_in_use(client: Database) -> None:
    CONNECTIONS.append(client.engine.raw_connection())


@pytest.mark.parametrize("spoil", [end_session, take_lock, leave_a_session_in_use])
def test_client__gets_new_sessions_when_a_test_spoiled_one(
    recycled_databases: Databases, spoil: Callable[[Database], None]
) -> None:
    name = recycled_databases.take()
    client = recycled_databases.client(name)
    session = session_of(client)
    spoil(client)
    recycled_databases.give_back(name)

    assert recycled_databases.take() == name
    assert session_of(client) != session
    while CONNECTIONS:
        CONNECTIONS.pop().invalidate()
