"""Times of requests, transactions and statements, and the row that a measurement prints."""

import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import psycopg
from sqlalchemy.orm import Session

from benchmarks.result_rows import BenchRow
from mosaico.core.db import Database
from mosaico.core.row_windows import WINDOW_ROWS

ROWS: Final = int(os.environ.get("MOSAICO_BENCH_BULK_ROWS", "1000000"))
GOAL_MS: Final = 50.0
BATCHES: Final = 20
REPEATS: Final = 5


class Timing(NamedTuple):
    """What was measured, and the milliseconds of its slowest statement or transaction.

    `total` are those of all its statements together, where these are one transaction.
    """

    name: str
    milliseconds: float
    total: float | None = None

    def __str__(self) -> str:
        total = "" if self.total is None else f" (of {self.total:.0f})"
        return f"{self.name} {self.milliseconds:.1f}{total}"


def result_row(name: str, unit: str, timings: Iterable[Timing]) -> BenchRow:
    slowest_first = sorted(timings, key=lambda timing: -timing.milliseconds)
    slowest = slowest_first[0].milliseconds
    return BenchRow(
        name,
        f"{unit} \u2264 {GOAL_MS:g} ms",
        slowest / GOAL_MS,
        slowest <= GOAL_MS,
        f"{ROWS:,} rows in each table; milliseconds: {', '.join(map(str, slowest_first))}",
    )


def time_batches(name: str, db: Database, process: Callable[[Session], int]) -> Timing:
    """The median of up to `BATCHES` transactions: single ones contain what else the machine did."""
    times: list[float] = []
    row_count = 1
    while row_count and len(times) < BATCHES:
        started = time.perf_counter()
        with db.begin() as session:
            row_count = process(session)
        times.append(milliseconds_since(started))
    return Timing(name, statistics.median(times))


def milliseconds_since(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def milliseconds_per_window(started: float, rows: int) -> float:
    return milliseconds_since(started) / max(1, rows / WINDOW_ROWS)


class _TimedCursor(psycopg.Cursor[Any]):
    """Measures each statement, also those that do not pass through SQLAlchemy."""

    times: Final[list[float]] = []

    def execute(self, *arguments: Any, **options: Any) -> Any:
        with _timed(self.times):
            return super().execute(*arguments, **options)

    def executemany(self, query: Any, params_seq: Iterable[Any], **options: Any) -> None:
        """One statement for each row, without waiting for the answers: the mean counts."""
        rows = list(params_seq)
        with _timed(self.times):
            super().executemany(query, rows, **options)
        self.times.append(self.times.pop() / max(1, len(rows)))

    @contextmanager
    def copy(self, *arguments: Any, **options: Any) -> Iterator[psycopg.Copy]:
        with _timed(self.times), super().copy(*arguments, **options) as copy:
            yield copy


@contextmanager
def _timed(times: list[float]) -> Iterator[None]:
    started = time.perf_counter()
    yield
    times.append(milliseconds_since(started))


def time_statements(name: str, db: Database, process: Callable[[Session], object]) -> Timing:
    """The slowest statement of a transaction: of `REPEATS` that are rolled back, the fastest one."""
    timings = [_time_statements(name, db, process) for _ in range(REPEATS)]
    return min(timings, key=lambda timing: timing.milliseconds)


def _time_statements(name: str, db: Database, process: Callable[[Session], object]) -> Timing:
    with Session(db.engine, autoflush=False, expire_on_commit=False) as session:
        driver = session.connection().connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        ordinary, driver.cursor_factory = driver.cursor_factory, _TimedCursor
        _TimedCursor.times.clear()
        started = time.perf_counter()
        try:
            process(session)
            total = milliseconds_since(started)
        finally:
            driver.cursor_factory = ordinary
            session.rollback()
    return Timing(name, max(_TimedCursor.times), total)
