"""Databases that are not ours: a server that is too old, and tables of another program."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from mosaico.core.engine import libpq_url
from mosaico.core.migrations import ForeignTables, require_current_schema, upgrade
from mosaico.serve import upgrade_database
from tests.support.postgres import SharedServer, drop_database, make_database
from tests.support.processes import start_command
from tests.support.serve import free_port

_numbers = count()


@pytest.fixture
def empty_database_url(postgres_server: SharedServer, worker_id: str) -> Iterator[str]:
    name = f"others_{worker_id}_{next(_numbers)}"
    drop_database(postgres_server.url, name)
    yield make_database(postgres_server.url, name)
    drop_database(postgres_server.url, name)


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(libpq_url(url), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def relations(url: str) -> list[str]:
    with psycopg.connect(libpq_url(url)) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        )
        return sorted(row[0] for row in rows)


def _forward(source: socket.socket, target: socket.socket, major: bytes | None) -> None:
    """Copy what a socket receives; with `major`, as that version of Postgres. Answers keep their lengths."""
    field = b"server_version\0"
    # Each direction closes both sockets at its end.
    with suppress(OSError), source, target:
        while data := source.recv(65_536):
            sent = data
            if major is not None and (start := data.find(field)) >= 0:
                start += len(field)
                sent = data[:start] + major + data[start + len(major) :]
            target.sendall(sent)


@contextmanager
def _server_of_version(url: str, major: bytes) -> Iterator[str]:
    """The URL of a relay in front of a server, which says that it is another version of Postgres."""
    address = urlsplit(url)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:  # the listener is closed
                    return
                server = socket.create_connection((address.hostname, address.port))
                for arguments in ((client, server, None), (server, client, major)):
                    threading.Thread(target=_forward, args=arguments, daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        netloc = f"{address.username}:{address.password}@127.0.0.1:{listener.getsockname()[1]}"
        yield urlunsplit(address._replace(netloc=netloc, query="sslmode=disable"))
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("command", [["db", "upgrade"], ["serve"]])
def test_old_server__is_refused_with_its_version(
    empty_database_url: str, tmp_path: Path, command: list[str]
) -> None:
    with _server_of_version(empty_database_url, b"15") as url:
        program = start_command(command, tmp_path, DATABASE_URL=url, MOSAICO_PORT=str(free_port()))
        assert program.wait_for_exit() == 78, program.log
    assert "the server is Postgres 15" in program.log
    assert "requires 16 or newer" in program.log
    assert relations(empty_database_url) == []


def test_old_server__fails_the_check_of_the_doctor(empty_database_url: str, tmp_path: Path) -> None:
    with _server_of_version(empty_database_url, b"15") as url:
        doctor = start_command(["doctor"], tmp_path, DATABASE_URL=url)
        assert doctor.wait_for_exit() == 1, doctor.log
    [line] = [line for line in doctor.log.splitlines() if line.startswith("FAILED\tdatabase")]
    assert "Postgres 15" in line


def test_oldest_supported_server__is_upgraded(empty_database_url: str) -> None:
    with _server_of_version(empty_database_url, b"16") as url:
        upgrade(url)
    require_current_schema(empty_database_url)


@pytest.mark.parametrize(
    ("names", "statements"),
    [
        (["agents"], ["CREATE TABLE agents (id int)"]),
        (["kpi_history"], ["CREATE VIEW kpi_history AS SELECT 1 AS n"]),
        (["procrastinate_jobs"], ["CREATE TABLE procrastinate_jobs (id int)"]),
        # The migrations of another program have the same tool, and a revision of the same form.
        (
            ["agents", "alembic_version"],
            [
                "CREATE TABLE agents (id int)",
                "CREATE TABLE alembic_version (version_num text)",
                "INSERT INTO alembic_version VALUES ('0005')",
            ],
        ),
        (
            ["alembic_version"],
            [
                "CREATE TABLE customers (id int)",
                "CREATE TABLE alembic_version (version_num text)",
                "INSERT INTO alembic_version VALUES ('ae1027a6acf')",
            ],
        ),
        (
            ["alembic_version"],
            ["CREATE TABLE alembic_version (id int)", "INSERT INTO alembic_version VALUES (1)"],
        ),
    ],
)
def test_tables_of_another_program__are_refused_by_name(
    empty_database_url: str, names: list[str], statements: list[str]
) -> None:
    execute(empty_database_url, *statements)
    before = relations(empty_database_url)
    # The first step of `mosaico serve`.
    with pytest.raises(ForeignTables) as refused:
        upgrade_database(empty_database_url, print)
    require_refusal(str(refused.value), names)
    assert relations(empty_database_url) == before


def require_refusal(text: str, names: list[str]) -> None:
    """The text names the tables, and speaks neither SQL nor Python."""
    assert f"made {', '.join(names)} in the database" in text
    for word in ("this is a bug", "CREATE TABLE", "SELECT", "Traceback"):
        assert word not in text


def test_serve__ends_with_the_names_of_the_tables_of_another_program(
    empty_database_url: str, tmp_path: Path
) -> None:
    execute(empty_database_url, "CREATE TABLE agents (id int)")
    before = relations(empty_database_url)
    program = start_command(
        ["serve"], tmp_path, DATABASE_URL=empty_database_url, MOSAICO_PORT=str(free_port())
    )
    assert program.wait_for_exit() == 73, program.log
    require_refusal(program.log, ["agents"])
    assert relations(empty_database_url) == before


@pytest.mark.parametrize(
    "statement",
    [
        # What `DROP TABLE` leaves behind, too.
        "CREATE TYPE procrastinate_job_status AS ENUM ('a')",
        "CREATE TYPE agents AS ENUM ('a')",
        "CREATE FUNCTION mosaico_benchmarks() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE TABLE customers (id int); CREATE INDEX pk_alert_rules ON customers (id)",
    ],
)
def test_types_functions_and_indexes_with_our_names__are_refused(
    empty_database_url: str, statement: str
) -> None:
    execute(empty_database_url, statement)
    before = relations(empty_database_url)
    with pytest.raises(ForeignTables, match=r"another program made .*; nothing was changed"):
        upgrade(empty_database_url)
    assert relations(empty_database_url) == before


def test_tables_of_another_program__are_named_by_the_doctor(
    empty_database_url: str, tmp_path: Path
) -> None:
    execute(empty_database_url, "CREATE TABLE agents (id int)")
    doctor = start_command(["doctor"], tmp_path, DATABASE_URL=empty_database_url)
    assert doctor.wait_for_exit() == 1, doctor.log
    [line] = [line for line in doctor.log.splitlines() if line.startswith("FAILED\tmigrations")]
    assert "made agents in the database" in line


def test_other_tables_and_other_schemas__are_no_obstacle(empty_database_url: str) -> None:
    execute(
        empty_database_url,
        "CREATE TABLE customers (id int)",
        "CREATE SCHEMA shop",
        "CREATE TABLE shop.agents (id int)",
    )
    upgrade(empty_database_url)
    require_current_schema(empty_database_url)


def test_upgrade__to_a_schema_of_a_newer_version_is_refused(
    fresh_database_url: str, tmp_path: Path
) -> None:
    newer = "99.7"
    execute(fresh_database_url, f"UPDATE alembic_version SET version_num = '{newer}'")
    program = start_command(["db", "upgrade"], tmp_path, DATABASE_URL=fresh_database_url)
    assert program.wait_for_exit() == 75, program.log
    assert f"schema {newer}" in program.log
    assert "this is a bug" not in program.log
