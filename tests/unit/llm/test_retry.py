"""Retry decisions for model requests, without a clock or a network."""

import asyncio
from dataclasses import replace

import pytest

from mosaico.llm.errors import LlmError, LlmErrorKind
from mosaico.llm.retry import (
    COMPLETION_RETRIES,
    TURN_RETRIES,
    LlmRetryPolicy,
    RetryStatus,
    call_with_retries,
    track_retries,
)


def waits_after(kind: LlmErrorKind, policies: LlmRetryPolicy = COMPLETION_RETRIES) -> list[float]:
    """The waits before a request that always fails in the same way is given up."""
    waits: list[float] = []

    async def fail() -> None:
        raise LlmError("busy", kind=kind)

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    with pytest.raises(LlmError):
        asyncio.run(call_with_retries(fail, policies, sleep=sleep, chance=lambda: 0.5))
    return waits


@pytest.mark.parametrize(
    "kind", [LlmErrorKind.SERVER, LlmErrorKind.UNREACHABLE, LlmErrorKind.TIMEOUT]
)
def test_completion_retries__transient_failure_is_retried_with_growing_waits(
    kind: LlmErrorKind,
) -> None:
    # Half of 1, 2, 4 and 8 seconds: the jitter is 0.5 here.
    assert waits_after(kind) == [0.5, 1.0, 2.0, 4.0]


def test_completion_retries__timeout_is_final_for_a_batch_of_several_texts() -> None:
    """One of them may be at fault, and each attempt with all of them takes minutes."""
    batch = replace(COMPLETION_RETRIES, retry_timeouts=False)
    assert waits_after(LlmErrorKind.TIMEOUT, batch) == []
    assert waits_after(LlmErrorKind.SERVER, batch)[0] == 0.5


@pytest.mark.parametrize(("policies", "retries"), [(COMPLETION_RETRIES, 1), (TURN_RETRIES, 0)])
def test_retries__unreadable_response_of_a_completion_is_requested_once_more(
    policies: LlmRetryPolicy, retries: int
) -> None:
    assert len(waits_after(LlmErrorKind.UNREADABLE, policies)) == retries


def status_of_failed_call(error: LlmError, *, slept_s: float | None = None) -> RetryStatus:
    """The status of a call that always fails; with `slept_s` its first wait is cancelled then."""
    now_s = 0.0

    async def fail() -> None:
        raise error

    async def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds if slept_s is None else slept_s
        if slept_s is not None:
            raise asyncio.CancelledError

    async def call() -> RetryStatus:
        with track_retries() as status:
            with pytest.raises((LlmError, asyncio.CancelledError)):
                await call_with_retries(fail, sleep=sleep, clock=lambda: now_s)
            return status

    return asyncio.run(call())


def test_retry_status__a_cancelled_wait_counts_the_time_that_passed() -> None:
    limited = LlmError("later", kind=LlmErrorKind.RATE_LIMITED, status=429, retry_after_s=99.0)
    status = status_of_failed_call(limited, slept_s=1.5)
    assert (status.waited_s, status.wait) == (1.5, None)
    assert status.describe() == "1 × 429"


@pytest.mark.parametrize(
    ("error", "failures", "waited_s"),
    [
        # Waits of 2, 4, 8 and 16 s between five attempts.
        (LlmError("down", kind=LlmErrorKind.SERVER, status=503), "5 × 503", 30.0),
        (LlmError("no such key", kind=LlmErrorKind.AUTH, status=401), "1 × 401", 0.0),
        (LlmError("forbidden address"), "1 × rejected request", 0.0),
    ],
)
def test_retry_status__the_last_failure_is_counted(
    error: LlmError, failures: str, waited_s: float
) -> None:
    status = status_of_failed_call(error)
    assert (status.describe(), status.waited_s) == (failures, waited_s)
    assert status.last_reason == error.reason
