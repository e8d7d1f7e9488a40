"""What a frozen process has locked becomes free, also where Postgres itself would wait for ever."""

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
def silent(service_resources: Resources) -> Iterator[Session]:
    """A session in a transaction of which nothing is heard any more."""
    url = libpq_url(service_resources.db.url)
    with closing(psycopg.connect(url, application_name="mosaico-test")) as connection:
        connection.execute("CREATE TEMP TABLE numbers (number int)")
        yield connection


def end_silent(resources: Resources, *, silent_s: float = 0.0) -> int:
    with resources.db.begin() as session:
        return terminate_silent_sessions(session, silent_s=silent_s)


def many_statements_at_once(session: Session) -> None:
    session.cursor().executemany("INSERT INTO numbers VALUES (%s)", [(1,), (2,), (3,)])


def a_copy_that_is_not_over(session: Session) -> None:
    # The driver's own `copy` would end it; here the client stops after its first command.
    session.pgconn.exec_(b"COPY numbers FROM STDIN")


@pytest.mark.parametrize("leave", [many_statements_at_once, a_copy_that_is_not_over])
def test_a_session_that_is_silent_in_a_transaction_is_ended(
    service_resources: Resources, silent: Session, leave: Callable[[Session], None]
) -> None:
    leave(silent)

    assert end_silent(service_resources) == 1

    gone = text("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = :pid")
    with service_resources.db.begin() as session:
        until(lambda: bool(session.scalar(gone, {"pid": silent.info.backend_pid})))


def test_a_session_has_time_to_go_on(service_resources: Resources, silent: Session) -> None:
    many_statements_at_once(silent)

    assert end_silent(service_resources, silent_s=3600) == 0

    assert silent.execute("SELECT sum(number) FROM numbers").fetchone() == (6,)


def test_a_session_without_a_transaction_may_be_silent(
    service_resources: Resources, silent: Session
) -> None:
    silent.commit()

    assert end_silent(service_resources) == 0


def test_the_sessions_of_other_programs_are_left_alone(
    service_resources: Resources, silent: Session
) -> None:
    silent.execute("SET application_name = 'psql'")

    assert end_silent(service_resources) == 0
