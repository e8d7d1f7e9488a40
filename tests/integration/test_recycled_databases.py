"""A recycled test database is like a new one."""

from collections.abc import Iterator

import psycopg
import pytest

from app.postgres.server import RunningPostgres
from tests.support.recycling import Databases

A_FEW, MANY = 3, 5000
WRITE = """
    INSERT INTO audit_log (actor_type, actor_id, action, resource_type, outcome, fields)
    SELECT 'key', 'k-' || n, 'create', 'agent', 'done', '{}' FROM generate_series(1, %s) AS n
    RETURNING seq
"""


@pytest.fixture
def recycled_databases(
    postgres_server: RunningPostgres, superuser_url: str, migrated_template: str, worker_id: str
) -> Iterator[Databases]:
    """Databases beside those of the other tests; all are gone afterwards."""
    prefix = f"recycled_{worker_id}_"
    recycled_databases = Databases(
        postgres_server.url, superuser_url, migrated_template, prefix=prefix
    )
    yield recycled_databases
    recycled_databases.drop()


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


def test_databases__altered_database_is_not_reused(recycled_databases: Databases) -> None:
    name = recycled_databases.take()
    with psycopg.connect(recycled_databases.url(name), autocommit=True) as connection:
        connection.execute("CREATE TABLE strangers ()")
    recycled_databases.give_back(name)
    assert recycled_databases.take() != name


def test_databases__database_with_ended_sessions_is_replaced(recycled_databases: Databases) -> None:
    name = recycled_databases.take()
    recycled_databases.give_back(name)
    recycled_databases.sessions[recycled_databases.take()].close()
    recycled_databases.give_back(name)
    fresh = recycled_databases.take()
    assert fresh != name
    assert write_rows(recycled_databases, fresh, A_FEW) == [1, 2, 3]
