"""`mosaico backup` and `mosaico restore`: the same rows in another database, or nothing."""

import json
import os
import zipfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from alembic.config import Config

from mosaico.backups import snapshot
from mosaico.backups.archive import BackupWriter, Manifest, open_backup
from mosaico.core import migrations
from mosaico.core.engine import libpq_url
from mosaico.core.migrations import HEAD_REVISION, current_revision
from mosaico.core.settings import load_settings
from mosaico.table_list import METADATA
from tests.integration.cli.conftest import NEW, OLD, Shell, shell
from tests.support import killed_command
from tests.support.postgres import SharedServer, drop_database, make_database
from tests.support.processes import start_command
from tests.support.service import Service, pair

_numbers = count()
Copies = dict[str, tuple[int, str]]


@pytest.fixture
def empty_url(postgres_server: SharedServer, worker_id: str) -> Iterator[str]:
    """The URL of a database without tables."""
    name = f"restored_{worker_id}_{next(_numbers)}"
    drop_database(postgres_server.url, name)
    yield make_database(postgres_server.url, name)
    drop_database(postgres_server.url, name)


@pytest.fixture(scope="module")
def used_url(module_service: Service) -> str:
    """The URL of a database with a run of two traces, its KPI, a secret, and a schedule."""
    service = module_service
    service.create_agent()
    service.create_agent("agent-002", langfuseSecretKey="sk-1")
    service.create_benchmark(metrics=["ROUGE"], measures=[{"name": "quality", "formula": "ROUGE"}])
    odd_texts = "tab\tnew line\nback\\slash \\N \\. ü 🙂 'quote' \"double\""
    service.upload([pair(1), pair(2, output=odd_texts)])
    service.complete_run()
    service.post(
        "/schedule-configs",
        {
            "name": "nightly",
            "benchmarkId": "bench-001",
            "agentId": "agent-001",
            "cronExpression": "0 0 2 * * *",
        },
    )
    return service.resources.db.url


@pytest.fixture(scope="module")
def backup(used_url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of that database."""
    folder = tmp_path_factory.mktemp("backups")
    # No fixture of a test isolates it from the data directory of the developer.
    shell(used_url, MOSAICO_DATA_DIR=str(folder / "data")).ok("backup", folder / "a.backup")
    return folder / "a.backup"


def copies(path: Path) -> Copies:
    """The number and the checksum of the rows of each table in a backup."""
    with open_backup(path) as archive:
        return {table.name: (table.rows, table.sha256) for table in archive.manifest.tables}


def tables(url: str) -> set[str]:
    with psycopg.connect(libpq_url(url)) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
            " AND relkind IN ('r', 'p', 'v', 'S')"
        )
        return {row[0] for row in rows}


def rewrite(path: Path, changes: dict[str, bytes]) -> None:
    """Replace members of an archive, whose checksums the new archive then has."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**members, **changes}.items():
            archive.writestr(name, content)


def test_restore__makes_the_same_rows_and_a_database_that_works_on(
    used_url: str, empty_url: str, tmp_path: Path, module_service: Service
) -> None:
    first, second = tmp_path / "first.backup", tmp_path / "second.backup"
    details = json.loads(shell(used_url).ok("backup", first, "--json").stdout)
    assert first.stat().st_mode & 0o777 == 0o600
    with psycopg.connect(libpq_url(used_url)) as connection:
        [(trace_count,)] = connection.execute("SELECT count(*) FROM trace_results").fetchall()
        every_table = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version'"
        ).fetchall()
    assert {name for (name,) in every_table} == set(copies(first))
    assert copies(first)["trace_results"][0] == trace_count == 2
    assert details["rows"] == sum(rows for rows, _ in copies(first).values())
    assert details["schema"] == HEAD_REVISION

    key = module_service.resources.secrets
    restored = Shell(variables={"DATABASE_URL": empty_url})
    assert restored("restore", first, "--without-key").exit_code == 0
    shell(empty_url).ok("backup", second)
    assert copies(second) == copies(first)
    assert tables(empty_url) == tables(used_url)
    assert key.encryption_key_id in details["masterKeys"]

    with open_backup(first) as archive:
        manifest: Manifest = archive.manifest
    assert manifest.sequences
    with psycopg.connect(libpq_url(empty_url)) as connection:
        for name, value in manifest.sequences.items():
            [(next_value,)] = connection.execute("SELECT nextval(%s)", [name]).fetchall()
            assert next_value == value + 1


def test_backup__names_the_tables_of_others_that_it_leaves_out(
    fresh_database_url: str, tmp_path: Path
) -> None:
    with psycopg.connect(libpq_url(fresh_database_url), autocommit=True) as connection:
        connection.execute("CREATE TABLE invoices (number int)")
    done = shell(fresh_database_url).ok("backup", tmp_path / "a.backup")
    assert "invoices" in done.stderr
    assert "invoices" not in copies(tmp_path / "a.backup")


def test_backup__is_of_one_moment_while_the_service_writes(
    service: Service, fresh_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is committed after the first table was read is in no table of the backup."""
    service.create_agent()
    original = snapshot._copy_table

    def copy_and_write(connection: Any, writer: BackupWriter, name: str) -> Any:
        copied = original(connection, writer, name)
        if name == "agent_revisions":
            service.create_agent("agent-002")
        return copied

    monkeypatch.setattr(snapshot, "_copy_table", copy_and_write)
    manifest, _ = snapshot.write_backup(
        fresh_database_url, tmp_path / "a.backup", METADATA.tables, ()
    )
    assert {table.name: table.rows for table in manifest.tables}["agents"] == 1
    assert len(service.list_items("/agents")) == 2


@pytest.mark.parametrize("when", ["before", "after"])
def test_backup__that_is_killed_leaves_the_file_of_before(
    used_url: str, tmp_path: Path, when: str
) -> None:
    path = tmp_path / "nightly.backup"
    path.write_text("the backup of yesterday")
    step = ["mosaico.backups.snapshot", "_copy_table", when]
    killed = start_command(
        [*step, "backup", str(path)],
        tmp_path,
        module=killed_command.__name__,
        DATABASE_URL=used_url,
    )
    assert killed.wait_for_exit() == killed_command.EXIT_CODE, killed.log
    assert path.read_text() == "the backup of yesterday"
    shell(used_url).ok("backup", path)
    assert copies(path)["trace_results"][0] == 2


# In the middle of the rows, and after the last step before the commit.
@pytest.mark.parametrize("function", ["_copy_rows", "migrate"])
def test_restore__that_is_killed_changes_nothing(
    backup: Path, empty_url: str, tmp_path: Path, function: str
) -> None:
    step = ["mosaico.backups.restore", function, "after"]
    killed = start_command(
        [*step, "restore", str(backup), "--without-key"],
        tmp_path,
        module=killed_command.__name__,
        DATABASE_URL=empty_url,
    )
    assert killed.wait_for_exit() == killed_command.EXIT_CODE, killed.log
    assert tables(empty_url) == set()


def test_restore__requires_the_master_key_of_the_secrets(
    old_secret: str, fresh_database_url: str, empty_url: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.backup"
    done = shell(fresh_database_url, MOSAICO_MASTER_KEY=OLD).ok("backup", path)
    assert old_secret in done.stderr
    assert OLD not in path.read_bytes().decode("latin-1")

    for variables in ({"MOSAICO_MASTER_KEY": NEW}, {}):
        refused = shell(empty_url, **variables)("restore", path)
        assert refused.exit_code == 78
        assert old_secret in refused.stderr
        assert "MOSAICO_MASTER_KEY" in refused.stderr
        assert tables(empty_url) == set()

    both = shell(empty_url, MOSAICO_MASTER_KEY=NEW, MOSAICO_MASTER_KEYS_OLD=OLD)
    both.ok("restore", path)
    [use] = json.loads(both.ok("secrets", "status", "--json").stdout)["items"]
    assert (use["key"], use["state"]) == (old_secret, "previous")


def test_restore__without_the_key_says_how_the_secrets_are_dropped(
    old_secret: str, fresh_database_url: str, empty_url: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.backup"
    shell(fresh_database_url).ok("backup", path)
    new_only = shell(empty_url, MOSAICO_MASTER_KEY=NEW)
    done = new_only.ok("restore", path, "--without-key")
    assert f"mosaico secrets drop-lost {old_secret}" in done.stderr
    new_only.ok("secrets", "drop-lost", old_secret, "--yes")
    assert json.loads(new_only.ok("secrets", "status", "--json").stdout)["items"] == []


def test_restore__makes_no_master_key(
    old_secret: str, fresh_database_url: str, tmp_path: Path
) -> None:
    """A key that the command created would look like the right one afterwards."""
    path = tmp_path / "a.backup"
    shell(fresh_database_url).ok("backup", path)
    refused = Shell(variables={})("restore", path)
    assert refused.exit_code == 78
    assert str(load_settings().data_dir / "master.key") in refused.stderr
    assert not load_settings().data_dir.exists()


def test_restore__refuses_a_database_with_tables_of_ours(
    backup: Path, used_url: str, tmp_path: Path
) -> None:
    assert shell(used_url)("restore", backup, "--without-key").exit_code == 73
    shell(used_url).ok("backup", tmp_path / "b.backup")
    assert copies(tmp_path / "b.backup") == copies(backup)


def test_restore__refuses_a_damaged_file(backup: Path, empty_url: str, tmp_path: Path) -> None:
    content = backup.read_bytes()
    with zipfile.ZipFile(backup) as archive:
        traces = archive.read("tables/collected_traces.copy")
        manifest = json.loads(archive.read("manifest.json"))
    damaged = tmp_path / "damaged.backup"

    def refuse() -> None:
        for options in (["--check"], []):
            refused = shell(empty_url)("restore", damaged, "--without-key", *options)
            assert refused.exit_code == 65, refused.output
            assert tables(empty_url) == set()

    damaged.write_bytes(content[:-40])
    refuse()
    damaged.write_bytes(b"")
    refuse()
    position = content.index(b"tables/collected_traces.copy") + 60
    damaged.write_bytes(
        content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]
    )
    refuse()
    damaged.write_bytes(content)
    rewrite(damaged, {"tables/collected_traces.copy": traces[:-5] + b"x" + traces[-4:]})
    refuse()
    damaged.write_bytes(content)
    rewrite(damaged, {"manifest.json": json.dumps({**manifest, "format": 99}).encode()})
    refuse()


LATER = """
from alembic import op
revision, down_revision, branch_labels, depends_on = "9.9", "{head}", None, None
def upgrade() -> None:
    op.execute("CREATE TABLE later AS SELECT count(*) AS agents FROM agents")
"""


def test_restore__upgrades_a_backup_of_an_older_schema(
    backup: Path, empty_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A migration of a later version runs on the restored rows, as it would run on those of the database."""
    (tmp_path / "versions").mkdir()
    (tmp_path / "versions" / "later.py").write_text(LATER.format(head=HEAD_REVISION))
    original = migrations.build_alembic_config

    def with_later(url: str) -> Config:
        config = original(url)
        own = f"{config.get_main_option('script_location')}/versions"
        config.set_main_option("version_locations", f"{own}{os.pathsep}{tmp_path / 'versions'}")
        config.set_main_option("path_separator", "os")
        return config

    monkeypatch.setattr(migrations, "build_alembic_config", with_later)
    shell(empty_url).ok("restore", backup, "--without-key")
    assert current_revision(empty_url) == "9.9"
    with psycopg.connect(libpq_url(empty_url)) as connection:
        assert connection.execute("SELECT agents FROM later").fetchone() == (2,)


def test_restore__refuses_a_backup_of_an_unknown_schema(
    backup: Path, empty_url: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.backup"
    path.write_bytes(backup.read_bytes())
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    rewrite(path, {"manifest.json": json.dumps({**manifest, "revision": "99.0"}).encode()})
    refused = shell(empty_url)("restore", path, "--without-key")
    assert refused.exit_code == 75
    assert "99.0" in refused.stderr
    assert tables(empty_url) == set()


def test_backup__of_the_last_schema_before_the_release_is_one_of_the_release(
    used_url: str, empty_url: str, tmp_path: Path
) -> None:
    """`mosaico db upgrade --check` asks for a backup before it takes such a database over."""
    path = tmp_path / "before.backup"
    set_revision = "UPDATE alembic_version SET version_num = %s"
    with psycopg.connect(libpq_url(used_url), autocommit=True) as connection:
        connection.execute(set_revision, [migrations.LAST_BEFORE_RELEASE])
        try:
            shell(used_url).ok("backup", path)
        finally:
            connection.execute(set_revision, [HEAD_REVISION])
    shell(empty_url).ok("restore", path, "--without-key")
    assert current_revision(empty_url) == HEAD_REVISION


def test_backup__of_a_newer_schema_is_refused(fresh_database_url: str, tmp_path: Path) -> None:
    with psycopg.connect(libpq_url(fresh_database_url), autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'from-the-future'")
    refused = shell(fresh_database_url)("backup", tmp_path / "a.backup")
    assert refused.exit_code == 75
    assert "from-the-future" in refused.stderr
    assert list(tmp_path.glob("*.backup")) == []


def test_backup__by_a_role_that_does_not_see_all_rows_is_refused(
    used_url: str, superuser_url: str, tmp_path: Path
) -> None:
    """Row security would leave rows out, without a word."""
    name = urlsplit(used_url).path
    with psycopg.connect(
        urlunsplit(urlsplit(superuser_url)._replace(path=name)), autocommit=True
    ) as connection:
        connection.execute("CREATE ROLE reader LOGIN PASSWORD 'reader'")
        try:
            connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
            address = urlsplit(used_url).netloc.rpartition("@")[2]
            refused = shell(f"postgresql://reader:reader@{address}{name}")(
                "backup", tmp_path / "a.backup"
            )
        finally:
            connection.execute("DROP OWNED BY reader; DROP ROLE reader")
    assert refused.exit_code == 78
    assert "does not see all rows" in refused.stderr
    assert list(tmp_path.glob("*.backup")) == []


def test_backup__of_an_empty_database_is_refused(empty_url: str, tmp_path: Path) -> None:
    assert shell(empty_url)("backup", tmp_path / "a.backup").exit_code == 73
    assert list(tmp_path.glob("*.backup")) == []


def test_backup__of_a_data_folder_without_a_database_makes_none(tmp_path: Path) -> None:
    assert Shell(variables={})("backup", tmp_path / "a.backup").exit_code == 78
    assert not load_settings().data_dir.exists()
