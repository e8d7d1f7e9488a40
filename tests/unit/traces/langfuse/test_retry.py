"""What is done about a request that failed: decisions without a clock or a network."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.traces.sources.langfuse.errors import FailureKind, RequestFailure
from app.traces.sources.langfuse.retry import (
    LangfusePolicy,
    RaiseFinalError,
    RaiseNotFound,
    ReducePageSize,
    RetryAfterWait,
    RetryDecision,
    decide_retry,
)

PATIENCE = LangfusePolicy()


def decide(
    kind: FailureKind,
    *,
    attempt: int = 0,
    waited_s: float = 0.0,
    chance: float = 0.5,
    retry_after_s: float | None = None,
) -> RetryDecision:
    failure = RequestFailure(kind=kind, detail="words", status=499, retry_after_s=retry_after_s)
    return decide_retry(
        failure,
        request_name="GET /projects",
        failed_attempts=attempt,
        waited_s=waited_s,
        random_factor=chance,
        policy=PATIENCE,
    )


def error_of(step: RetryDecision) -> str:
    assert isinstance(step, RaiseFinalError)
    assert "GET /projects" in str(step.error)
    return step.error.error_code


@pytest.mark.parametrize("kind", [FailureKind.SERVER_ERROR, FailureKind.UNREACHABLE])
def test_a_server_that_fails_is_asked_five_times_more_and_then_given_up(kind: FailureKind) -> None:
    # Three quarters of 2, 4, 8, 16 and 32 seconds: the jitter of the second half is 0.5 here.
    waits = [decide(kind, attempt=attempt) for attempt in range(5)]
    assert waits == [
        RetryAfterWait(1.5),
        RetryAfterWait(3.0),
        RetryAfterWait(6.0),
        RetryAfterWait(12.0),
        RetryAfterWait(24.0),
    ]
    assert error_of(decide(kind, attempt=5)) == "LANGFUSE_UNAVAILABLE"


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=5, max_size=5))
def test_whatever_chance_says_half_a_minute_without_a_server_is_outlasted(
    chances: list[float],
) -> None:
    steps = [
        decide(FailureKind.UNREACHABLE, attempt=attempt, chance=chance)
        for attempt, chance in enumerate(chances)
    ]
    # Half of 2 + 4 + 8 + 16 + 32 seconds, and never as long as all of them.
    assert 31 <= sum(step.seconds for step in steps if isinstance(step, RetryAfterWait)) < 62


def test_the_time_that_the_server_names_is_waited_by_everybody() -> None:
    assert decide(FailureKind.RATE_LIMITED, retry_after_s=7.0) == RetryAfterWait(
        7.0, for_all_clients=True
    )


def test_without_a_time_from_the_server_the_waits_grow() -> None:
    assert decide(FailureKind.RATE_LIMITED, attempt=3) == RetryAfterWait(8.0, for_all_clients=True)
    assert decide(FailureKind.RATE_LIMITED, attempt=30, chance=0.99) == RetryAfterWait(
        59.4, for_all_clients=True
    )


def test_a_wait_beyond_the_patience_of_a_run_is_not_begun() -> None:
    fits = decide(FailureKind.RATE_LIMITED, waited_s=590.0, retry_after_s=10.0)
    assert fits == RetryAfterWait(10.0, for_all_clients=True)
    step = decide(FailureKind.RATE_LIMITED, waited_s=590.0, retry_after_s=11.0)
    assert error_of(step) == "LANGFUSE_RATE_LIMITED"


def test_an_answer_that_is_no_json_is_asked_for_once_more() -> None:
    assert decide(FailureKind.MALFORMED) == RetryAfterWait(1.0)
    assert error_of(decide(FailureKind.MALFORMED, attempt=1)) == "BAD_RESPONSE"


@pytest.mark.parametrize("kind", [FailureKind.OVERLOADED, FailureKind.TOO_LARGE])
def test_what_waiting_cannot_mend_is_asked_for_in_less(kind: FailureKind) -> None:
    assert isinstance(decide(kind), ReducePageSize)


def test_what_is_not_there_is_for_the_asker_to_judge() -> None:
    assert decide(FailureKind.NOT_FOUND) == RaiseNotFound()


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (FailureKind.AUTH, "LANGFUSE_AUTH"),
        (FailureKind.REDIRECT, "REDIRECT_REFUSED"),
        (FailureKind.REJECTED, "BAD_RESPONSE"),
        (FailureKind.BAD_CERTIFICATE, "LANGFUSE_UNAVAILABLE"),
    ],
)
def test_what_no_repetition_mends_is_told_at_once(kind: FailureKind, code: str) -> None:
    step = decide(kind) if kind is not FailureKind.BAD_CERTIFICATE else decide(kind, attempt=0)
    assert isinstance(step, RaiseFinalError)
    assert step.error.error_code == code
    assert "words" in str(step.error)


@given(
    st.sampled_from(list(FailureKind)),
    st.integers(0, 10_000),
    st.floats(0, 1, exclude_max=True),
    st.none() | st.floats(0.001, 1e6),
)
def test_no_wait_is_longer_than_told_or_than_a_minute(
    kind: FailureKind, attempt: int, chance: float, retry_after_s: float | None
) -> None:
    step = decide(kind, attempt=attempt, chance=chance, retry_after_s=retry_after_s)
    if isinstance(step, RetryAfterWait):
        longest = retry_after_s if step.for_all_clients and retry_after_s is not None else 60.0
        assert 0 <= step.seconds <= longest
