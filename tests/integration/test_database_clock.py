"""The clock of the database in a process whose own clock is wrong or stands still."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from mosaico.core.database_clock import DatabaseClock
from mosaico.core.db import Database, DatabaseUnavailable

SIXTY_DAYS = timedelta(days=60)
# The database of the tests and this process share a machine; the difference is what reading takes.
SLACK = timedelta(seconds=60)


def set_clock(monkeypatch: pytest.MonkeyPatch, by: timedelta) -> None:
    real_time = time.time
    monkeypatch.setattr(time, "time", lambda: real_time() + by.total_seconds())


@pytest.mark.parametrize("by", [SIXTY_DAYS, -SIXTY_DAYS, timedelta(hours=1)], ids=str)
def test_database_clock__jump_of_the_machine_changes_nothing(
    migrated_database: Database, monkeypatch: pytest.MonkeyPatch, by: timedelta
) -> None:
    clock = DatabaseClock(migrated_database)
    right_time = datetime.now(UTC)

    set_clock(monkeypatch, by)

    assert abs(clock() - right_time) < SLACK


def wait_for_reading(clock: DatabaseClock) -> None:
    """Start the reading that is due, and wait for its end."""
    clock()
    with clock._lock:
        pass


def test_database_clock__is_read_again_after_some_seconds(
    migrated_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The monotonic clock stands still while a machine sleeps: the last reading is of two hours ago."""
    clock = DatabaseClock(migrated_database)
    clock._last = clock._last._replace(database_time=datetime.now(UTC) - timedelta(hours=2))
    assert abs(clock() - datetime.now(UTC)) > timedelta(hours=1)

    clock._next_reading_s = time.monotonic()
    wait_for_reading(clock)

    assert abs(clock() - datetime.now(UTC)) < SLACK


def test_database_clock__is_not_asked_again_at_once_after_a_failure(
    migrated_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = 0

    def fail() -> None:
        nonlocal attempts
        attempts += 1
        raise DatabaseUnavailable

    clock = DatabaseClock(migrated_database)
    monkeypatch.setattr(migrated_database, "read_statement", fail)
    clock._next_reading_s = time.monotonic()
    for _ in range(3):
        wait_for_reading(clock)
    assert attempts == 1
    assert abs(clock() - datetime.now(UTC)) < SLACK


def test_database_clock__caller_does_not_wait_for_a_database_that_hangs(
    migrated_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop of the API is such a caller: streams, deadlines and health stand still meanwhile."""
    clock = DatabaseClock(migrated_database)
    answers = threading.Event()

    def hang() -> None:
        answers.wait(60)
        raise DatabaseUnavailable

    monkeypatch.setattr(migrated_database, "read_statement", hang)
    clock._next_reading_s = time.monotonic()
    try:
        assert abs(clock() - datetime.now(UTC)) < SLACK
        assert not answers.is_set()
        # The reading still waits.
        assert not clock._lock.acquire(blocking=False)
    finally:
        answers.set()
