"""Production mode refuses insecure settings, with one line that contains no secret."""

import base64
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psycopg
import pytest

from mosaico.core.db import Database
from mosaico.core.engine import libpq_url
from mosaico.core.errors import Misconfigured
from mosaico.core.network_policy import HTTPS_PORT
from mosaico.core.resources import Resources
from mosaico.core.settings import Settings
from mosaico.jobs.process_pool import ProcessPool
from mosaico.main import create_app
from mosaico.serve import local_network_settings
from mosaico.startup import (
    master_key,
    outbound_policy,
    require_restricted_role,
)
from mosaico.worker import _purge
from tests.integration.safety.conftest import PASSWORD, RoleWith
from tests.support.described_api import api_document
from tests.support.http import serving
from tests.support.postgres import drop_database, make_database, url_of
from tests.support.processes import LIVENESS_S, SERVICE_PREFIXES, programs
from tests.support.service import Service, pair, running_service
from tests.support.stored import age_purge_marks

GOOD_KEY = base64.b64encode(secrets.token_bytes(32)).decode()
# 32 bytes each, but none of them random: a text, and a counter.
PHRASE = base64.b64encode(b"correct horse battery staple, ok").decode()
SEQUENCE = base64.b64encode(bytes(range(7, 39))).decode()


def settings(**fields: object) -> Settings:
    return Settings(_env_file=None, **fields)  # type: ignore[arg-type]


class Refusal(NamedTuple):
    """A process that did not start: its exit code and its output."""

    code: int
    output: str


def start(folder: Path, command: str, environment: Mapping[str, str]) -> Refusal:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(SERVICE_PREFIXES)
    }
    done = subprocess.run(
        [sys.executable, "-m", "mosaico.cli", command],
        cwd=folder,
        env={
            **inherited,
            "PYTHONPATH": str(Path(__file__).parents[3] / "app"),
            "MOSAICO_DATA_DIR": str(folder / "data"),
            "MOSAICO_ENV": "production",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=LIVENESS_S,
        check=False,
    )
    return Refusal(done.returncode, done.stdout + done.stderr)


# One of them as a new interpreter, as an operator starts it.
def refuse(folder: Path, command: str, environment: Mapping[str, str]) -> Refusal:
    if command == "serve":
        return start(folder, command, environment)
    with programs(folder, MOSAICO_ENV="production", **environment) as started:
        program = started.start(command)
        return Refusal(program.wait_for_exit(), program.log)


@pytest.fixture
def bare_database(fresh_database_url: str) -> Iterator[str]:
    """A database that was never migrated."""
    name = f"bare_{urlsplit(fresh_database_url).path.lstrip('/')}"
    yield make_database(fresh_database_url, name)
    drop_database(fresh_database_url, name)


@pytest.mark.parametrize(
    ("command", "environment", "code", "message"),
    [
        # sysexits: 78 is EX_CONFIG, and 75 EX_TEMPFAIL, after which a supervisor starts it again.
        (
            "serve",
            {"MOSAICO_MASTER_KEY": ""},
            78,
            "MOSAICO_ENV=production needs MOSAICO_MASTER_KEY",
        ),
        ("api", {"MOSAICO_MASTER_KEY": "hunter2", "MOSAICO_PORT": "http"}, 78, "MOSAICO_PORT: "),
        ("api", {"DATABASE_URL": "superuser"}, 78, "can become, postgres"),
        ("worker", {"DATABASE_URL": "bare"}, 75, "run `mosaico db upgrade`"),
    ],
    ids=["no key", "a bad setting", "a superuser", "no schema"],
)
def test_start__invalid_configuration_ends_with_one_line_without_secrets(
    command: str,
    environment: dict[str, str],
    code: int,
    message: str,
    superuser_url: str,
    fresh_database_url: str,
    bare_database: str,
    tmp_path: Path,
) -> None:
    database = urlsplit(fresh_database_url).path.lstrip("/")
    urls = {"superuser": url_of(superuser_url, database), "bare": bare_database}
    variables = {
        "MOSAICO_MASTER_KEY": GOOD_KEY,
        "DATABASE_URL": fresh_database_url,
        **environment,
    }
    variables["DATABASE_URL"] = urls.get(variables["DATABASE_URL"], variables["DATABASE_URL"])

    refused = refuse(tmp_path, command, variables)

    assert refused.code == code, refused.output
    [line] = refused.output.splitlines()
    assert line.startswith("error: ")
    assert message in line
    for secret in (
        variables["MOSAICO_MASTER_KEY"],
        str(urlsplit(variables["DATABASE_URL"]).password),
    ):
        assert not secret or secret not in refused.output


@pytest.mark.parametrize("key", [PHRASE, SEQUENCE])
def test_production__invented_master_key_is_refused(key: str) -> None:
    assert master_key(settings(master_key=key)) == key
    with pytest.raises(Misconfigured, match="openssl rand -base64 32") as refused:
        master_key(settings(master_key=key, env="production"))
    assert key not in str(refused.value)


def test_production__random_master_key_is_accepted() -> None:
    # The check for randomness must never refuse a real key.
    for _ in range(100):
        key = base64.b64encode(secrets.token_bytes(32)).decode()
        assert master_key(settings(master_key=key, env="production")) == key


def test_master_key_file__mounted_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "master"
    file.write_text(f"{GOOD_KEY}\n")
    file.chmod(0o440)
    assert master_key(settings(master_key_file=file, env="production")) == GOOD_KEY


@pytest.mark.parametrize("mode", [0o444, 0o460, 0o644])
def test_master_key_file__readable_by_others_is_refused(mode: int, tmp_path: Path) -> None:
    file = tmp_path / "master"
    file.write_text(GOOD_KEY)
    file.chmod(mode)
    with pytest.raises(Exception, match="accessible to other users"):
        master_key(settings(master_key_file=file))


def test_master_key__variable_and_file_together_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "master"
    with pytest.raises(Misconfigured, match="contains no key"):
        master_key(settings(master_key_file=file))
    with pytest.raises(Misconfigured, match="unset one"):
        master_key(settings(master_key_file=file, master_key=GOOD_KEY))


@pytest.mark.parametrize("attributes", ["SUPERUSER", "BYPASSRLS", "IN ROLE postgres"])
def test_require_restricted_role__privileged_role_is_refused(
    attributes: str, role_with: RoleWith
) -> None:
    db = Database(role_with(attributes), pool_size=1)
    with db.read() as session, pytest.raises(Misconfigured, match=r"docs/security\.md"):
        require_restricted_role(session)
    db.dispose()


@pytest.fixture
def restricted(
    restricted_url: str, service_resources: Resources, metric_pool: ProcessPool
) -> Iterator[Service]:
    db = Database(restricted_url, pool_size=5)
    with running_service(replace(service_resources, db=db), metric_pool) as running:
        yield running
    db.dispose()


def test_restricted_role__is_sufficient_for_the_service(
    restricted: Service, restricted_url: str
) -> None:
    with restricted.resources.db.read() as session:
        require_restricted_role(session)
    restricted.create_agent(langfuseSecretKey="sk-lf-1", langfusePublicKey="pk-lf-1")
    restricted.patch("/agents/agent-001", {"name": "Heron"})
    restricted.upload([pair(1), pair(2)])
    restricted.create_benchmark(
        source="local", metrics=["ROUGE"], measures=[{"name": "quality", "formula": "ROUGE"}]
    )
    assert restricted.complete_run(runName="run-1")["status"] == "COMPLETED"
    # The first marks the runs, and the second deletes what was marked for a day.
    _purge(restricted.resources, keep_spans=timedelta(days=7))
    age_purge_marks(restricted.resources.db)
    _purge(restricted.resources, keep_spans=timedelta(days=7))

    with psycopg.connect(libpq_url(restricted_url)) as connection:
        for forbidden in (
            "DROP TABLE agents",
            "CREATE TABLE mine ()",
            "UPDATE audit_log SET action = ''",
            "DELETE FROM audit_log",
            "UPDATE alembic_version SET version_num = ''",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(forbidden.encode())
    assert PASSWORD in restricted_url


@pytest.mark.parametrize(
    ("settings_fields", "is_public"),
    [
        ({}, True),
        ({"env": "production"}, False),
        ({"env": "production", "show_docs": True}, True),
        ({"show_docs": False}, False),
    ],
)
def test_show_docs__description_is_public_only_when_configured(
    settings_fields: dict[str, object], is_public: bool, service_resources: Resources
) -> None:
    app = create_app(service_resources, show_docs=settings(**settings_fields).shows_docs)
    app.openapi = api_document  # type: ignore[method-assign]
    with serving(app) as client:
        for path in ("/docs", "/swagger-ui.html", "/openapi.json"):
            assert client.get(path).status_code == (200 if is_public else 404)
        assert client.get("/healthz").status_code == 200


def test_production__public_servers_are_called_over_https_only() -> None:
    assert outbound_policy(settings(env="production")).public_ports == {HTTPS_PORT}
    assert outbound_policy(settings()).public_ports == {80, HTTPS_PORT}


@pytest.mark.parametrize(
    ("settings_fields", "at_home"),
    [
        ({}, True),
        ({"host": "localhost"}, True),
        ({"host": "::1"}, True),
        ({"host": "0.0.0.0"}, False),
        ({"host": "10.0.0.1"}, False),
        ({"host": "mosaico.example"}, False),
        ({"outbound_allow": "10.0.0.0/8"}, False),
        ({"env": "production"}, False),
    ],
)
def test_local_network_settings__loopback_service_may_call_private_networks(
    settings_fields: dict[str, object], at_home: bool
) -> None:
    opened = local_network_settings(settings(**settings_fields)).get("MOSAICO_OUTBOUND_ALLOW", "")
    assert ("192.168.0.0/16" in opened) is at_home
