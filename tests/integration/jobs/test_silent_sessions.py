"""Silent database sessions are terminated, also where Postgres has no timeout of its own."""

from collections.abc import Callable, Iterator
from contextlib import closing

import psycopg
import pytest
from sqlalchemy import text

from app.core.db import libpq_url
from app.core.resources import Resources
from app.jobs.rescue import terminate_silent_sessions
from tests.support.processes import until

Session = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def silent_session(service_resources: Resources) -> Iterator[Session]:
    """A session with an open transaction."""
    url = libpq_url(service_resources.db.url)
    with closing(psycopg.connect(url, application_name="mosaico-test")) as connection:
        connection.execute("CREATE TEMP TABLE numbers (number int)")
        yield connection


def terminate_silent(resources: Resources, *, silent_s: float = 0.0) -> int:
    with resources.db.begin() as session:
        return terminate_silent_sessions(session, silent_s=silent_s)


def run_pipeline(session: Session) -> None:
    session.cursor().executemany("INSERT INTO numbers VALUES (%s)", [(1,), (2,), (3,)])


def start_copy(session: Session) -> None:
    # The driver's `copy` would finish the COPY; here the client stops after the first command.
    session.pgconn.exec_(b"COPY numbers FROM STDIN")


@pytest.mark.parametrize("leave", [run_pipeline, start_copy])
def test_terminate_silent_sessions__silent_transaction_is_terminated(
    service_resources: Resources, silent_session: Session, leave: Callable[[Session], None]
) -> None:
    leave(silent_session)

    assert terminate_silent(service_resources) == 1

    is_terminated = text("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = :pid")
    with service_resources.db.begin() as session:
        until(lambda: bool(session.scalar(is_terminated, {"pid": silent_session.info.backend_pid})))


def test_terminate_silent_sessions__recent_session_is_left_alone(
    service_resources: Resources, silent_session: Session
) -> None:
    run_pipeline(silent_session)

    assert terminate_silent(service_resources, silent_s=3600) == 0

    assert silent_session.execute("SELECT sum(number) FROM numbers").fetchone() == (6,)


def test_terminate_silent_sessions__session_without_transaction_is_left_alone(
    service_resources: Resources, silent_session: Session
) -> None:
    silent_session.commit()

    assert terminate_silent(service_resources) == 0


def test_terminate_silent_sessions__other_programs_are_left_alone(
    service_resources: Resources, silent_session: Session
) -> None:
    silent_session.execute("SET application_name = 'psql'")

    assert terminate_silent(service_resources) == 0
