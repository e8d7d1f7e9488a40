"""The clock of the database in a process whose own clock is wrong or jumps."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from mosaico.core import database_clock
from mosaico.core.database_clock import READ_AGAIN_AFTER_S, DatabaseClock
from mosaico.core.db import Database, DatabaseUnavailable

SIXTY_DAYS = timedelta(days=60)
# The database of the tests and this process share a machine; the difference is what reading takes.
SLACK = timedelta(seconds=60)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database of the tests may be slow."""
    monkeypatch.setattr(database_clock, "MAX_WAIT_S", 60.0)


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


def test_database_clock__machine_that_slept_gets_the_time_of_the_database(
    migrated_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The monotonic clock stands still while a machine sleeps."""
    clock = DatabaseClock(migrated_database)
    real_monotonic = time.monotonic

    monkeypatch.setattr(time, "monotonic", lambda: real_monotonic() - 7200)

    assert abs(clock() - datetime.now(UTC)) < SLACK


def test_database_clock__lost_database_leaves_the_last_reading(
    migrated_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = DatabaseClock(migrated_database)
    right_time = datetime.now(UTC)

    def fail() -> None:
        raise DatabaseUnavailable

    monkeypatch.setattr(migrated_database, "read_statement", fail)
    set_clock(monkeypatch, SIXTY_DAYS)

    assert abs(clock() - right_time) < SLACK


def test_database_clock__is_read_rarely(
    migrated_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = 0
    read_statement = migrated_database.read_statement

    def count() -> object:
        nonlocal readings
        readings += 1
        return read_statement()

    monkeypatch.setattr(migrated_database, "read_statement", count)
    clock = DatabaseClock(migrated_database)
    for _ in range(100):
        clock()
    assert readings == 1

    monkeypatch.setattr("mosaico.core.database_clock.READ_AGAIN_AFTER_S", -READ_AGAIN_AFTER_S)
    clock()
    assert readings == 2


def test_database_clock__caller_does_not_wait_for_a_database_that_hangs(
    migrated_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop of the API is such a caller: streams, deadlines and health stand still meanwhile."""
    clock = DatabaseClock(migrated_database)
    answers = threading.Event()

    def hang() -> None:
        answers.wait(60)
        raise DatabaseUnavailable

    monkeypatch.setattr(database_clock, "MAX_WAIT_S", 0.01)
    monkeypatch.setattr(migrated_database, "read_statement", hang)
    set_clock(monkeypatch, SIXTY_DAYS)
    began = time.monotonic()
    try:
        assert abs(clock() - datetime.now(UTC)) < SLACK
        clock()
        assert time.monotonic() - began < 30
    finally:
        answers.set()


def test_database_clock__is_not_asked_again_at_once_after_a_failure(
    migrated_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = 0

    def fail() -> None:
        nonlocal attempts
        attempts += 1
        raise DatabaseUnavailable

    clock = DatabaseClock(migrated_database)
    monkeypatch.setattr(database_clock, "RETRY_AFTER_S", 3600.0)
    monkeypatch.setattr(migrated_database, "read_statement", fail)
    set_clock(monkeypatch, SIXTY_DAYS)
    for _ in range(3):
        clock()
    assert attempts == 1
