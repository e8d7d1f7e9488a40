"""Functions that are called at intervals, whatever the clock of the machine shows."""

import logging
import threading
import time
from collections.abc import Iterator

import pytest

from mosaico.core.errors import Unavailable
from mosaico.core.periodic_threads import PeriodicThreads

LIVENESS_S = 60.0
AN_HOUR_S = 3600.0


@pytest.fixture
def threads() -> Iterator[PeriodicThreads]:
    threads = PeriodicThreads()
    yield threads
    threads.stop()


class Calls:
    """A function that is called again and again, and fails at its first call if there is an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self._left = threading.Semaphore(0)
        self._error = error

    def __call__(self) -> None:
        self._left.release()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def wait_for(self, count: int) -> bool:
        return all(self._left.acquire(timeout=LIVENESS_S) for _ in range(count))

    @property
    def are_over(self) -> bool:
        return not self._left.acquire(blocking=False)


def test_periodic_threads__first_call_is_at_once_or_after_the_interval(
    threads: PeriodicThreads,
) -> None:
    at_once, later, often = Calls(), Calls(), Calls()
    threads.start("later", AN_HOUR_S, later)
    threads.start("at once", AN_HOUR_S, at_once, is_first_at_once=True)
    threads.start("often", 0.001, often)

    assert at_once.wait_for(1)
    assert often.wait_for(3)
    assert at_once.are_over
    assert later.are_over


def test_periodic_threads__clock_that_is_set_delays_no_call(
    threads: PeriodicThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, real_time = Calls(), time.time
    threads.start("often", 0.001, calls)
    assert calls.wait_for(1)

    for offset_s in (-60 * 86_400, 60 * 86_400):
        monkeypatch.setattr(time, "time", lambda by=offset_s: real_time() + by)
        assert calls.wait_for(3)


def test_periodic_threads__call_that_takes_long_delays_no_other_function(
    threads: PeriodicThreads,
) -> None:
    may_end, calls = threading.Event(), Calls()
    threads.start("slow", 0.001, lambda: may_end.wait(LIVENESS_S), is_first_at_once=True)
    threads.start("often", 0.001, calls)

    assert calls.wait_for(3)
    may_end.set()


@pytest.mark.parametrize(
    ("error", "level"),
    [(Unavailable("no database"), logging.WARNING), (ValueError("a defect"), logging.ERROR)],
)
def test_periodic_threads__call_that_fails_is_logged_and_repeated(
    threads: PeriodicThreads, caplog: pytest.LogCaptureFixture, error: Exception, level: int
) -> None:
    calls = Calls(error)
    threads.start("often", 0.001, calls)

    assert calls.wait_for(2)

    [record] = caplog.records
    assert record.levelno == level
