"""Whether a request to a model is sent again: decisions without a clock or a network."""

import httpx
import pytest

from app.llm.failures import PASSING, Failure, Kind, failure_of_error
from app.llm.retry import Patience, wait_before_retry

PATIENCE = Patience(retries=4, first_wait_s=1.0)


def wait_after(kind: Kind, *, attempt: int = 0, divisible: bool = False) -> float | None:
    return wait_before_retry(
        Failure(kind=kind, detail="words"),
        attempt=attempt,
        waited_s=0.0,
        chance=0.5,
        patience=PATIENCE,
        divisible=divisible,
    )


def test_a_server_that_said_nothing_in_all_the_time_is_told_from_one_that_is_not_there() -> None:
    assert failure_of_error(httpx.ReadTimeout("too long")).kind is Kind.SILENT
    assert failure_of_error(httpx.ConnectTimeout("too long")).kind is Kind.UNREACHABLE
    assert failure_of_error(httpx.ConnectError("refused")).kind is Kind.UNREACHABLE
    assert {Kind.SILENT, Kind.UNREACHABLE} <= PASSING


@pytest.mark.parametrize("kind", [Kind.SERVER, Kind.UNREACHABLE, Kind.SILENT])
def test_what_may_pass_is_asked_again_with_growing_waits(kind: Kind) -> None:
    # Half of 1, 2, 4 and 8 seconds: the jitter is 0.5 here.
    waits = [wait_after(kind, attempt=attempt) for attempt in range(5)]
    assert waits == [0.5, 1.0, 2.0, 4.0, None]


def test_many_texts_that_bring_nothing_in_all_their_time_are_not_asked_together_again() -> None:
    """One of them may be at fault, and each attempt at all of them takes minutes."""
    assert wait_after(Kind.SILENT, divisible=True) is None
    assert wait_after(Kind.SERVER, divisible=True) == 0.5
