"""The commands `mosaico db`."""

import json
import os
import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from typer.testing import CliRunner, Result

from mosaico.core.migrations import FIRST_RELEASE
from mosaico.postgres.cli import cli
from mosaico.postgres.server import EmbeddedPostgres
from tests.e2e.postgres.conftest import StartOwner
from tests.support.postgres import SharedServer

SECRETLESS = "postgresql://mosaico@127.0.0.1:"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, data_dir: Path, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # no .env of a developer
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("MOSAICO_DATA_DIR", str(data_dir))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def test_db_commands__start_url_status_and_stop_work_together(new_server: EmbeddedPostgres) -> None:
    started = run("start")
    assert started.exit_code == 0
    assert started.stdout == ""  # there is no answer, only news
    assert "mosaico db stop" in started.stderr
    url = run("url").stdout.strip()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    status = json.loads(run("status", "--format", "json").stdout)
    assert status["running"] is True
    assert status["detached"] is True
    assert status["url"].startswith(SECRETLESS)
    assert {"pid", "port", "version", "dataDir", "logDir", "owner"} <= set(status)
    assert "running\tyes" in run("status").stdout
    assert "is stopped" in run("stop").stderr
    assert "no database was running" in run("stop").stderr
    assert json.loads(run("status", "--format", "json").stdout)["running"] is False


def test_db_stop__database_in_use_needs_a_confirmation(postgres: EmbeddedPostgres) -> None:
    with psycopg.connect(postgres.start()):
        refused = run("stop")
        assert (refused.exit_code, "add --yes" in refused.stderr) == (2, True)
        assert postgres.status().running
        assert "is stopped" in run("stop", "--yes").stderr
        assert not postgres.status().running


@pytest.mark.parametrize("command", ["start", "stop"])
def test_db_start__database_with_an_owner_is_left_alone(
    postgres: EmbeddedPostgres,
    start_owner: StartOwner,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    monkeypatch.setattr("mosaico.postgres.data_folder.OWNER_TIMEOUT_S", 0.0)
    with psycopg.connect(start_owner().read_line()):
        refused = run(command)
        # sysexits: EX_CANTCREAT.
        assert refused.exit_code == 73
        assert "mosaico serve" in refused.stderr
        assert postgres.status().running
        assert not postgres.status().detached


@pytest.mark.parametrize("command", ["url", "psql", "upgrade"])
def test_db_commands__stopped_database_is_an_error(data_dir: Path, command: str) -> None:
    refused = run(command)
    # sysexits: EX_CONFIG.
    assert (refused.exit_code, refused.stdout) == (78, "")
    assert "mosaico serve" in refused.stderr
    assert not data_dir.exists()


def test_db_psql__password_is_not_an_argument(
    shared: SharedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_in_child(program: str, words: list[str], environment: dict[str, str]) -> None:
        """What takes the place of this process, in another one."""
        done = subprocess.run(
            [program, *words[1:]], env=environment, capture_output=True, text=True, check=True
        )
        outputs.append(done.stdout)
        assert conninfo_to_dict(shared.url)["password"] not in words

    outputs: list[str] = []
    monkeypatch.setattr(os, "execvpe", run_in_child)
    monkeypatch.setenv("DATABASE_URL", shared.url)
    run("psql", "-X", "-A", "-t", "-c", "SELECT current_user")
    assert outputs == ["mosaico\n"]


@pytest.mark.parametrize("command", ["start", "stop"])
def test_db_start__external_server_is_neither_started_nor_stopped(
    monkeypatch: pytest.MonkeyPatch, data_dir: Path, command: str
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:secret@db.example/mosaico")
    refused = run(command)
    # sysexits: EX_USAGE.
    assert refused.exit_code == 64
    assert "DATABASE_URL" in refused.stderr
    assert "secret" not in refused.output
    assert not data_dir.exists()


def test_db_status__external_server_is_printed_without_its_password(
    monkeypatch: pytest.MonkeyPatch, shared: SharedServer
) -> None:
    monkeypatch.setenv("DATABASE_URL", shared.url)
    status = json.loads(run("status", "--format", "json").stdout)
    assert status["running"] is True
    assert status["version"].startswith("18.")
    assert status["url"].startswith(SECRETLESS)
    assert run("url").stdout.strip() == shared.url


def test_db_upgrade__migrates_the_running_database(
    monkeypatch: pytest.MonkeyPatch, postgres: EmbeddedPostgres
) -> None:
    urls: list[str] = []
    monkeypatch.setattr("mosaico.core.migrations.upgrade", urls.append)
    url = postgres.start()
    assert run("upgrade").exit_code == 0
    assert urls == [url]


def test_db_upgrade__starts_a_stopped_database_for_the_command(
    copied_server: EmbeddedPostgres,
) -> None:
    check = run("upgrade", "--check")
    assert (check.exit_code, check.stdout.split()[0]) == (1, FIRST_RELEASE), check.output
    assert run("upgrade").exit_code == 0
    assert run("upgrade", "--check").exit_code == 0
    assert not copied_server.status().running
