"""Silent database sessions are terminated, also where Postgres has no timeout of its own."""

from collections.abc import Iterator
from contextlib import closing
from itertools import islice

import psycopg
import pytest
from sqlalchemy import text

from mosaico.core import engine
from mosaico.core.db import STREAMED_ROWS, Database, stream_rows
from mosaico.core.engine import libpq_url
from mosaico.core.resources import Resources
from mosaico.jobs import silent_sessions
from mosaico.jobs.silent_sessions import SilentSessions
from tests.support.processes import until

Session = psycopg.Connection[tuple[object, ...]]

# Postgres reads COPY in blocks of 64 KiB, and the driver sends blocks of its own size.
COPIED_BLOCK = b"1\n" * 100_000
# Many times what the buffers of the sockets hold.
LONG_QUERY = text("SELECT repeat('x', 1000) FROM generate_series(1, 50000)")


@pytest.fixture
def silent_session(service_resources: Resources) -> Iterator[Session]:
    """A session with an open transaction."""
    url = libpq_url(service_resources.db.url)
    with closing(psycopg.connect(url, application_name="mosaico-test")) as connection:
        connection.execute("CREATE TEMP TABLE numbers (number int)")
        yield connection


def terminate_silent(resources: Resources, silent_sessions: SilentSessions) -> int:
    with resources.db.begin() as session:
        return silent_sessions.terminate(session)


def has_ended(resources: Resources, pid: int) -> bool:
    query = text("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = :pid")
    with resources.db.begin() as session:
        return bool(session.scalar(query, {"pid": pid}))


def run_pipeline(resources: Resources, session: Session) -> None:
    session.cursor().executemany("INSERT INTO numbers VALUES (%s)", [(1,), (2,), (3,)])
    # The server answers before it waits.
    until(lambda: is_waiting(resources, session.info.backend_pid))


def start_copy(resources: Resources, session: Session) -> None:
    # The driver's `copy` would finish the COPY; here the client stops after the first command.
    session.pgconn.exec_(b"COPY numbers FROM STDIN")
    until(lambda: is_waiting(resources, session.info.backend_pid))


def start_reading(resources: Resources, session: Session) -> None:
    """Start a query whose rows nobody takes."""
    session.pgconn.send_query(str(LONG_QUERY).encode())
    session.pgconn.flush()
    until(lambda: is_waiting(resources, session.info.backend_pid))


def is_waiting(resources: Resources, pid: int) -> bool:
    query = text("SELECT wait_event_type = 'Client' FROM pg_stat_activity WHERE pid = :pid")
    with resources.db.begin() as session:
        return bool(session.scalar(query, {"pid": pid}))


def test_silent_sessions__silent_transaction_is_terminated(
    service_resources: Resources, silent_session: Session
) -> None:
    run_pipeline(service_resources, silent_session)

    assert terminate_silent(service_resources, SilentSessions(silent_s=0)) == 1

    until(lambda: has_ended(service_resources, silent_session.info.backend_pid))


def test_silent_sessions__copy_without_progress_is_terminated(
    service_resources: Resources, silent_session: Session
) -> None:
    start_copy(service_resources, silent_session)
    silent_sessions = SilentSessions(silent_s=0)

    assert terminate_silent(service_resources, silent_sessions) == 0  # seen for the first time
    assert terminate_silent(service_resources, silent_sessions) == 1

    until(lambda: has_ended(service_resources, silent_session.info.backend_pid))


def test_silent_sessions__copy_with_progress_is_left_alone(
    service_resources: Resources, silent_session: Session
) -> None:
    silent_sessions = SilentSessions(silent_s=0)
    progress = text("SELECT bytes_processed FROM pg_stat_progress_copy WHERE pid = :pid")
    with silent_session.cursor().copy("COPY numbers FROM STDIN") as copy:
        pid = copy.connection.info.backend_pid
        for blocks in range(1, 6):
            copy.write(COPIED_BLOCK)

            def is_read(size: int = blocks * len(COPIED_BLOCK)) -> bool:
                """The server reads a block in parts: only a whole one is progress to the next look."""
                with service_resources.db.begin() as session:
                    return bool(session.scalar(progress, {"pid": pid}) == size)

            until(is_read)
            assert terminate_silent(service_resources, silent_sessions) == 0

    assert silent_session.execute("SELECT count(*) FROM numbers").fetchone() == (500_000,)


def test_silent_sessions__stream_that_is_read_slowly_is_left_alone(
    service_resources: Resources,
) -> None:
    """It began long ago at each look, and never seems to change."""
    silent_sessions = SilentSessions(silent_s=0)
    count = 0
    # As a process of the service has it: the sessions of the tests have another name.
    db = Database(service_resources.db.url, pool_size=1)
    with db.read() as session:
        pid = session.connection().connection.driver_connection.info.backend_pid  # type: ignore[union-attr]
        with closing(stream_rows(session, LONG_QUERY, {})) as rows:
            for _ in range(5):
                count += len(list(islice(rows, STREAMED_ROWS)))
                until(lambda: is_waiting(service_resources, pid))
                assert terminate_silent(service_resources, silent_sessions) == 0
            count += len(list(rows))
    db.dispose()

    assert count == 50_000


def test_silent_sessions__reader_that_stopped_with_row_locks_is_terminated(
    service_resources: Resources, silent_session: Session
) -> None:
    silent_session.execute("INSERT INTO numbers VALUES (1)")
    start_reading(service_resources, silent_session)

    assert terminate_silent(service_resources, SilentSessions(silent_s=0)) == 1

    until(lambda: has_ended(service_resources, silent_session.info.backend_pid))


def test_database__reader_that_takes_no_rows_is_ended(
    service_resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the kernel of the server, without a rescue."""
    statement_limit = {"statement_timeout": engine.STATEMENT_TIMEOUT_MS}
    short_limits = dict.fromkeys(engine.LIMITS_MS, 500) | statement_limit
    monkeypatch.setattr(engine, "LIMITS_MS", short_limits)
    db = Database(service_resources.db.url, pool_size=1)
    connection = db.engine.raw_connection()
    try:
        frozen: Session = connection.driver_connection  # type: ignore[assignment]
        start_reading(service_resources, frozen)

        until(lambda: has_ended(service_resources, frozen.info.backend_pid))
    finally:
        connection.invalidate()
        db.dispose()


def test_silent_sessions__session_of_a_clock_that_was_set_back_is_terminated(
    service_resources: Resources, silent_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last change lies an hour ahead: it would keep its locks for an hour."""
    run_pipeline(service_resources, silent_session)
    # Postgres stamps the change itself; seen an hour earlier, its stamp lies an hour ahead.
    an_hour_ago = str(silent_sessions._SELECT_WAITING).replace(
        "now()", "(now() - interval '1 hour')"
    )
    monkeypatch.setattr(silent_sessions, "_SELECT_WAITING", text(an_hour_ago))

    assert terminate_silent(service_resources, SilentSessions(silent_s=60)) == 1


def test_silent_sessions__other_programs_are_left_alone(
    service_resources: Resources, silent_session: Session
) -> None:
    # The rescue ends sessions of MOSAICO only: an operator may hold a lock in psql on purpose.
    silent_session.execute("SET application_name = 'psql'")

    assert terminate_silent(service_resources, SilentSessions(silent_s=0)) == 0


def test_silent_sessions__recent_session_is_left_alone(
    service_resources: Resources, silent_session: Session
) -> None:
    run_pipeline(service_resources, silent_session)

    assert terminate_silent(service_resources, SilentSessions(silent_s=3600)) == 0

    assert silent_session.execute("SELECT sum(number) FROM numbers").fetchone() == (6,)
