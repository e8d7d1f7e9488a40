"""Migrations: up and down with data, concurrent upgrades, and unknown schemas."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.script import ScriptDirectory

from mosaico.core.engine import libpq_url
from mosaico.core.migrations import (
    HEAD_REVISION,
    SchemaMismatch,
    build_alembic_config,
    current_revision,
    downgrade,
    require_current_schema,
    upgrade,
)
from tests.support.postgres import SharedServer, drop_database, make_database
from tests.support.processes import start_command
from tests.support.service import Service, pair

_numbers = count()


@contextmanager
def empty_database(server: SharedServer, worker_id: str) -> Iterator[str]:
    name = f"migrations_{worker_id}_{next(_numbers)}"
    drop_database(server.url, name)
    try:
        yield make_database(server.url, name)
    finally:
        drop_database(server.url, name)


def tables(url: str) -> set[str]:
    with psycopg.connect(libpq_url(url)) as connection:
        leftovers = connection.execute(
            "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = 'public' AND relkind IN ('r', 'v')"
        )
        return {row[0] for row in leftovers}


def test_migrations__create_exactly_the_tables_of_the_models(fresh_database_url: str) -> None:
    command.check(build_alembic_config(fresh_database_url))


def test_migrations__have_one_head_revision() -> None:
    assert ScriptDirectory.from_config(build_alembic_config("postgresql://x/y")).get_heads() == [
        HEAD_REVISION
    ]


@pytest.mark.parametrize("revision", ["-1", "base"])
def test_downgrade__of_a_database_in_use_can_be_upgraded_again(
    service: Service, revision: str
) -> None:
    service.create_agent(langfuseSecretKey="sk-1")
    service.create_benchmark(metrics=["ROUGE"], measures=[{"name": "quality", "formula": "ROUGE"}])
    service.upload([pair(1)])
    service.complete_run()
    url = service.resources.db.url
    before, newest = tables(url), current_revision(url)
    service.resources.db.engine.dispose()
    downgrade(url, revision)
    assert current_revision(url) != newest
    upgrade(url)
    assert (tables(url), current_revision(url)) == (before, newest)
    command.check(build_alembic_config(url))
    require_current_schema(url)


def test_migrations__downgrade_to_base_removes_everything(fresh_database_url: str) -> None:
    downgrade(fresh_database_url, "base")
    assert tables(fresh_database_url) <= {"alembic_version"}
    upgrade(fresh_database_url)
    require_current_schema(fresh_database_url)


def test_migrations__concurrent_upgrades_run_one_after_the_other(
    postgres_server: SharedServer, worker_id: str, tmp_path: Path
) -> None:
    with empty_database(postgres_server, worker_id) as url:
        migrators = [start_command(["db", "upgrade"], tmp_path, DATABASE_URL=url) for _ in range(2)]
        for migrator in migrators:
            assert migrator.wait_for_exit() == 0, migrator.log
        require_current_schema(url)
        assert "agents" in tables(url)


def test_migrations__unknown_schema_is_refused_with_a_remedy(
    fresh_database_url: str, postgres_server: SharedServer, worker_id: str
) -> None:
    require_current_schema(fresh_database_url)
    with psycopg.connect(libpq_url(fresh_database_url), autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'from-the-future'")
    with pytest.raises(SchemaMismatch, match=r"from-the-future.*start the version that fits"):
        require_current_schema(fresh_database_url)
    with (
        empty_database(postgres_server, worker_id) as url,
        pytest.raises(SchemaMismatch, match=r"schema none.*mosaico db upgrade"),
    ):
        require_current_schema(url)
