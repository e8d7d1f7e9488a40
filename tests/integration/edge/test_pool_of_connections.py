"""The connection pool: reads without a transaction, and dead connections."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.pq import TransactionStatus
from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.core import engine
from mosaico.core.db import Database, DatabaseUnavailable
from mosaico.core.engine import libpq_url
from tests.support.waiting import LIVENESS_S


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    db = Database(database_url, pool_size=1)
    yield db
    db.dispose()


def backend(session: Session) -> int:
    return int(session.execute(text("SELECT pg_backend_pid()")).scalar_one())


def used_and_ended(db: Database) -> int:
    """A connection goes back to the pool, and its end at the server dies there."""
    with db.read_statement() as session:
        pid = backend(session)
    with psycopg.connect(libpq_url(db.url), autocommit=True) as other:
        # With a limit, in milliseconds, the function waits until the session has ended.
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    return pid


def status(session: Session) -> TransactionStatus:
    connection = session.connection().connection.driver_connection
    assert isinstance(connection, psycopg.Connection)
    return connection.info.transaction_status


def test_read_statement__opens_no_transaction(db: Database) -> None:
    with db.read_statement() as session:
        backend(session)
        assert status(session) == TransactionStatus.IDLE


def test_read_statement__connection_can_begin_transactions_afterwards(db: Database) -> None:
    with db.read_statement() as session:
        pid = backend(session)
    with db.read() as session:
        assert backend(session) == pid
        assert status(session) == TransactionStatus.INTRANS
    with db.begin() as session:
        assert backend(session) == pid
        assert status(session) == TransactionStatus.INTRANS


def test_pool__dead_connection_is_replaced_without_an_error(db: Database) -> None:
    ended = used_and_ended(db)
    with db.read_statement() as session:
        assert backend(session) != ended


def fail_pings(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_connection: object) -> bool:
        raise psycopg.OperationalError("no answer")

    monkeypatch.setattr(db.engine.dialect, "do_ping", fail)


def test_pool__idle_connection_without_an_answer_is_replaced(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A firewall has dropped it, which neither end notices."""
    with db.read_statement() as session:
        forgotten = backend(session)
    fail_pings(db, monkeypatch)
    monkeypatch.setattr(engine, "TRUSTED_IDLE_S", 0)
    with db.read_statement() as session:
        assert backend(session) != forgotten


def test_pool__busy_connection_is_used_without_a_ping(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_pings(db, monkeypatch)
    monkeypatch.setattr(engine, "TRUSTED_IDLE_S", LIVENESS_S)
    with db.read_statement() as session:
        pid = backend(session)
    with db.read_statement() as session:
        assert backend(session) == pid


def test_pool__connection_that_was_used_last_is_used_first(database_url: str) -> None:
    """Its session of the server has the tables and the statements in memory."""
    with Database(database_url, pool_size=2) as db:
        with db.read_statement() as outer, db.read_statement() as inner:
            first, _ = backend(outer), backend(inner)
        for _ in range(2):
            with db.read_statement() as session:
                assert backend(session) == first


ITSELF = "SELECT pg_backend_pid() AS pid, %(said)s::text AS x"


def test_fetch_row__returns_columns_outside_of_transactions(db: Database) -> None:
    row = db.fetch_row(ITSELF, {"said": "50% of 'it'"})
    with db.read_statement() as session:
        assert row == {"pid": backend(session), "x": "50% of 'it'"}
    assert db.fetch_row("SELECT 1 WHERE false", {}) is None


def test_begin__read_only_server_is_unavailable(db: Database) -> None:
    """A standby, or a server that its operator has switched to read-only."""
    read_only_write = text("SET TRANSACTION READ ONLY; CREATE TABLE toys ()")
    with pytest.raises(DatabaseUnavailable), db.begin() as session:
        session.execute(read_only_write)


def is_closed(connection: psycopg.Connection) -> bool:
    return connection.closed


def test_dispose__closes_a_connection_in_use_when_it_comes_back(db: Database) -> None:
    with db.read_statement() as session:
        connection = session.connection().connection.driver_connection
        assert isinstance(connection, psycopg.Connection)
        db.dispose()
        assert not is_closed(connection)
    assert is_closed(connection)
    with db.read_statement() as session:
        first = backend(session)
    with db.read_statement() as session:
        assert backend(session) == first
