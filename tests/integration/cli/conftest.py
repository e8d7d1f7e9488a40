"""Runs `mosaico` commands against a test service."""

import base64
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mosaico.agents.models import Agent
from mosaico.cli import cli
from mosaico.core.db import Database
from mosaico.core.encryption import SecretBox
from tests.support.service import Service, working

PROCESSES: "list[subprocess.Popen[bytes]]" = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """Runs commands; `variables` are the environment variables that name the service."""

    variables: dict[str, str]

    def __call__(self, *words: str | Path, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(cli, [*map(str, words)], input=stdin, env=self.variables)

    def ok(self, *words: str | Path, stdin: str | bytes | None = None) -> Result:
        result = self(*words, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result

    def process(
        self, *words: str, stdin: int | None = None, stdout: int, stderr: int
    ) -> subprocess.Popen[bytes]:
        """Run a command in its own process, which ends with the test."""
        process = subprocess.Popen(
            [sys.executable, "-m", "mosaico.cli", *words],
            env={**os.environ, **self.variables},
            start_new_session=True,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )
        PROCESSES.append(process)
        return process


def new_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


OLD, NEW = new_key(), new_key()


def shell(database_url: str, **variables: str) -> Shell:
    return Shell(variables={"DATABASE_URL": database_url, **variables})


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Isolates commands from the environment and the data directory of the developer."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("MOSAICO_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MOSAICO_DATA_DIR", str(tmp_path / "data"))
    # Commands run in a folder from which `mosaico` is not found.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3] / "app"))


@pytest.fixture(autouse=True)
def ended_processes() -> Iterator[None]:
    """A process that a failed test leaves behind would make a later test fail, too."""
    yield
    for process in PROCESSES:
        process.kill()
        process.wait()
    PROCESSES.clear()


@pytest.fixture
def mosaico(service: Service) -> Shell:
    key = service.client.headers["Authorization"].removeprefix("Bearer ")
    url = str(service.client.base_url).rstrip("/")
    return Shell(variables={"MOSAICO_URL": url, "MOSAICO_API_KEY": key})


@pytest.fixture
def worker(service: Service) -> Iterator[None]:
    """A worker that runs until the test ends."""
    with working(service):
        yield


@pytest.fixture
def old_secret(migrated_database: Database) -> str:
    """A secret key that the old master key encrypts; returns the ID of that key."""
    box = SecretBox.from_keys([OLD])
    text = box.encrypt("sk-1", table="agents", row="agent-1", column="langfuse_secret_key")
    with migrated_database.begin() as session:
        session.add(Agent(id="agent-1", name="Pelican", langfuse_secret_key=text))
    return box.encryption_key_id
