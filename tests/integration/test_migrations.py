"""Migrations: what is released stays, concurrent upgrades, and unknown schemas."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.script import ScriptDirectory
from procrastinate.schema import SchemaManager

from mosaico.core.engine import libpq_url
from mosaico.core.migrations import (
    FIRST_RELEASE,
    HEAD_REVISION,
    LAST_BEFORE_RELEASE,
    LAST_COMMIT_BEFORE_RELEASE,
    SchemaMismatch,
    build_alembic_config,
    current_revision,
    pending_revisions,
    require_current_schema,
    upgrade,
)
from mosaico.serve import upgrade_database
from tests.support.postgres import SharedServer, drop_database, make_database
from tests.support.processes import ROOT, start_command

# The files of released migrations, and what they contain (SHA-256).
RELEASED = {
    "1_0_schema.py": "f0959800b7e0b7cc",
    "1_0_schema.sql": "56a7875bd0bc3c84",
}
RELEASED_JOB_ENGINE = "c70ec4b400a60ad9"

_numbers = count()


@contextmanager
def empty_database(server: SharedServer, worker_id: str) -> Iterator[str]:
    name = f"migrations_{worker_id}_{next(_numbers)}"
    drop_database(server.url, name)
    try:
        yield make_database(server.url, name)
    finally:
        drop_database(server.url, name)


def record_revision(url: str, revision: str) -> None:
    with psycopg.connect(libpq_url(url), autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = %s", [revision])


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


def columns(url: str) -> set[tuple[str, str, str]]:
    """Every column of our tables and views with its type."""
    with psycopg.connect(libpq_url(url)) as connection:
        rows = connection.execute(
            "SELECT table_name, column_name, udt_name FROM information_schema.columns WHERE table_schema = 'public'"
        )
        return {(table, column, kind) for table, column, kind in rows}


def test_migrations__only_add_to_the_first_release(
    postgres_server: SharedServer, worker_id: str, fresh_database_url: str
) -> None:
    with empty_database(postgres_server, worker_id) as url:
        upgrade(url, FIRST_RELEASE)
        assert columns(url) <= columns(fresh_database_url)


def test_migrations__have_the_job_engine_whose_schema_was_released() -> None:
    """Before a newer version of procrastinate is allowed: store this schema here, and write a migration to the new one."""
    digest = hashlib.sha256(SchemaManager.get_schema().encode()).hexdigest()[:16]
    assert digest == RELEASED_JOB_ENGINE


def test_migrations__released_files_are_never_edited() -> None:
    versions = Path(ScriptDirectory.from_config(build_alembic_config("postgresql://x/y")).versions)
    digests = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        for path in versions.glob("*.*")
    }
    assert {name: digests.get(name) for name in RELEASED} == RELEASED, (
        "a database that has run a released migration never runs it again: write a new one (docs/releases.md)"
    )


def test_last_schema_before_the_release__is_taken_over(fresh_database_url: str) -> None:
    record_revision(fresh_database_url, LAST_BEFORE_RELEASE)
    with pytest.raises(SchemaMismatch, match="run `mosaico db upgrade`"):
        require_current_schema(fresh_database_url)
    [pending] = pending_revisions(fresh_database_url)
    assert pending.startswith(f"{FIRST_RELEASE} ")
    lines: list[str] = []
    upgrade_database(fresh_database_url, lines.append)
    assert len(lines) == 1
    assert pending in lines[0]
    require_current_schema(fresh_database_url)
    assert pending_revisions(fresh_database_url) == []
    upgrade_database(fresh_database_url, lines.append)
    assert len(lines) == 1


@pytest.mark.parametrize("revision", ["0001", "0025"])
def test_schemas_from_before_the_release__are_refused_by_name(
    fresh_database_url: str, revision: str
) -> None:
    record_revision(fresh_database_url, revision)
    remedy = f"of the commit {LAST_COMMIT_BEFORE_RELEASE}"
    assert LAST_COMMIT_BEFORE_RELEASE in (ROOT / "docs" / "releases.md").read_text()
    for action in (upgrade, pending_revisions, require_current_schema):
        with pytest.raises(
            SchemaMismatch, match=rf"schema {revision}, from before version 1\.0.*{remedy}"
        ):
            action(fresh_database_url)
    assert current_revision(fresh_database_url) == revision


def test_upgrade_check__names_what_would_run_and_changes_nothing(
    postgres_server: SharedServer, worker_id: str, tmp_path: Path
) -> None:
    with empty_database(postgres_server, worker_id) as url:
        check = start_command(["db", "upgrade", "--check"], tmp_path, DATABASE_URL=url)
        assert check.wait_for_exit() == 1, check.log
        assert f"{FIRST_RELEASE} The schema" in check.log
        assert tables(url) == set()
        upgrade(url)
        check = start_command(["db", "upgrade", "--check"], tmp_path, DATABASE_URL=url)
        assert check.wait_for_exit() == 0, check.log


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
    record_revision(fresh_database_url, "from-the-future")
    with pytest.raises(SchemaMismatch, match=r"from-the-future.*start the version that fits"):
        require_current_schema(fresh_database_url)
    with (
        empty_database(postgres_server, worker_id) as url,
        pytest.raises(SchemaMismatch, match=r"no schema of MOSAICO.*mosaico db upgrade"),
    ):
        require_current_schema(url)
