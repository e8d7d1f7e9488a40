"""Functions that are called at intervals."""

import logging
import threading
from collections.abc import Iterator

import pytest

from mosaico.core.errors import Unavailable
from mosaico.core.periodic_functions import PeriodicFunctions
from tests.support.waiting import LIVENESS_S

AN_HOUR_S = 3600.0


@pytest.fixture
def functions() -> Iterator[PeriodicFunctions]:
    functions = PeriodicFunctions()
    yield functions
    functions.stop()


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


def test_periodic_functions__first_call_is_at_once_or_after_the_interval(
    functions: PeriodicFunctions,
) -> None:
    at_once, later, often = Calls(), Calls(), Calls()
    functions.start("later", AN_HOUR_S, later)
    functions.start("at once", AN_HOUR_S, at_once, is_first_at_once=True)
    functions.start("often", 0.01, often)

    assert at_once.wait_for(1)
    assert often.wait_for(3)
    assert at_once.are_over
    assert later.are_over


def test_periodic_functions__call_that_takes_long_delays_no_other_function(
    functions: PeriodicFunctions,
) -> None:
    may_end, calls = threading.Event(), Calls()
    functions.start("slow", 0.01, lambda: may_end.wait(LIVENESS_S), is_first_at_once=True)
    functions.start("often", 0.01, calls)

    assert calls.wait_for(3)
    may_end.set()


@pytest.mark.parametrize(
    ("error", "level"),
    [(Unavailable("no database"), logging.WARNING), (ValueError("a defect"), logging.ERROR)],
)
def test_periodic_functions__call_that_fails_is_logged_and_repeated(
    functions: PeriodicFunctions, caplog: pytest.LogCaptureFixture, error: Exception, level: int
) -> None:
    calls = Calls(error)
    functions.start("often", 0.01, calls)

    assert calls.wait_for(2)

    [record] = caplog.records
    assert record.levelno == level
