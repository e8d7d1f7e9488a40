"""The database of the application: role, rights, settings and templates."""

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from mosaico.core.row_limits import LIMITED_ROLE
from mosaico.postgres.server import EmbeddedPostgres
from tests.support.postgres import SharedServer, superuser_url_of


def query_value(url: str, query: bytes) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
        assert row is not None
        return row[0]


def test_role__owns_its_database_and_is_not_a_superuser(shared: SharedServer) -> None:
    assert query_value(shared.url, b"SELECT current_user") == "mosaico"
    assert query_value(shared.url, b"SELECT current_database()") == "mosaico"
    assert (
        query_value(shared.url, b"SELECT usesuper FROM pg_user WHERE usename = current_user")
        is False
    )
    owner = b"SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()"
    assert query_value(shared.url, owner) == "mosaico"
    with psycopg.connect(shared.url) as connection:
        connection.execute("CREATE TABLE of_ours (number int)")
        connection.rollback()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("server_encoding", "UTF8"),
        ("jit", "off"),
        ("listen_addresses", "127.0.0.1"),
        ("TimeZone", "UTC"),
        ("logging_collector", "on"),
    ],
)
def test_server__is_configured_for_a_small_service(
    shared: SharedServer, setting: str, value: str
) -> None:
    with psycopg.connect(shared.url) as connection:
        assert connection.execute("SELECT current_setting(%s)", [setting]).fetchone() == (value,)


def test_server__connection_needs_the_password(shared: SharedServer) -> None:
    parts = conninfo_to_dict(shared.url)
    for password in ("wrong", ""):
        with pytest.raises(psycopg.OperationalError, match=r"password|supplied"):
            psycopg.connect(**{**parts, "password": password})  # type: ignore[arg-type]


def test_server__collation_does_not_depend_on_the_machine(shared: SharedServer) -> None:
    assert query_value(
        shared.url, b"SELECT datlocale FROM pg_database WHERE datname = 'mosaico'"
    ) == ("C.UTF-8")
    # The locale C would leave letters beyond ASCII as they are.
    assert query_value(shared.url, "SELECT lower('ÀÉ')".encode()) == "àé"


def test_folder_from_before_the_limits__gets_their_role(postgres: EmbeddedPostgres) -> None:
    def has_role() -> bool:
        with psycopg.connect(postgres.url()) as connection:
            query = "SELECT FROM pg_roles WHERE rolname = %s AND pg_has_role(oid, 'SET')"
            return connection.execute(query, [LIMITED_ROLE]).rowcount == 1

    def drop_role() -> None:
        # As a folder is that an earlier version made.
        with psycopg.connect(superuser_url_of(postgres)) as connection:
            connection.execute(f"DROP ROLE {LIMITED_ROLE}".encode())

    postgres.start()
    assert has_role()
    drop_role()
    postgres.stop()
    with postgres.own():
        assert has_role()
        # A server that an earlier version has started.
        drop_role()
        assert not has_role()
        postgres.add_missing_role()
        assert has_role()
        postgres.add_missing_role()
