"""What is done about a request that failed: decisions without a clock or a network."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.traces.sources.langfuse.errors import Failure, Kind
from app.traces.sources.langfuse.retry import (
    GiveUp,
    NotFound,
    Patience,
    Smaller,
    Step,
    Wait,
    next_step,
)

PATIENCE = Patience()


def decide(
    kind: Kind,
    *,
    attempt: int = 0,
    waited_s: float = 0.0,
    chance: float = 0.5,
    retry_after_s: float | None = None,
) -> Step:
    failure = Failure(kind=kind, detail="words", status=499, retry_after_s=retry_after_s)
    return next_step(
        failure,
        asked="GET /projects",
        attempt=attempt,
        waited_s=waited_s,
        chance=chance,
        patience=PATIENCE,
    )


def error_of(step: Step) -> str:
    assert isinstance(step, GiveUp)
    assert "GET /projects" in str(step.error)
    return step.error.error_code


@pytest.mark.parametrize("kind", [Kind.SERVER, Kind.UNREACHABLE])
def test_a_server_that_fails_is_asked_five_times_more_and_then_given_up(kind: Kind) -> None:
    # Three quarters of 2, 4, 8, 16 and 32 seconds: the jitter of the second half is 0.5 here.
    waits = [decide(kind, attempt=attempt) for attempt in range(5)]
    assert waits == [Wait(1.5), Wait(3.0), Wait(6.0), Wait(12.0), Wait(24.0)]
    assert error_of(decide(kind, attempt=5)) == "LANGFUSE_UNAVAILABLE"


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=5, max_size=5))
def test_whatever_chance_says_half_a_minute_without_a_server_is_outlasted(
    chances: list[float],
) -> None:
    steps = [
        decide(Kind.UNREACHABLE, attempt=attempt, chance=chance)
        for attempt, chance in enumerate(chances)
    ]
    # Half of 2 + 4 + 8 + 16 + 32 seconds, and never as long as all of them.
    assert 31 <= sum(step.seconds for step in steps if isinstance(step, Wait)) < 62


def test_the_time_that_the_server_names_is_waited_by_everybody() -> None:
    assert decide(Kind.RATE_LIMITED, retry_after_s=7.0) == Wait(7.0, shared=True)


def test_without_a_time_from_the_server_the_waits_grow() -> None:
    assert decide(Kind.RATE_LIMITED, attempt=3) == Wait(8.0, shared=True)
    assert decide(Kind.RATE_LIMITED, attempt=30, chance=0.99) == Wait(59.4, shared=True)


def test_a_wait_beyond_the_patience_of_a_run_is_not_begun() -> None:
    fits = decide(Kind.RATE_LIMITED, waited_s=590.0, retry_after_s=10.0)
    assert fits == Wait(10.0, shared=True)
    step = decide(Kind.RATE_LIMITED, waited_s=590.0, retry_after_s=11.0)
    assert error_of(step) == "LANGFUSE_RATE_LIMITED"


def test_an_answer_that_is_no_json_is_asked_for_once_more() -> None:
    assert decide(Kind.GARBLED) == Wait(1.0)
    assert error_of(decide(Kind.GARBLED, attempt=1)) == "BAD_RESPONSE"


@pytest.mark.parametrize("kind", [Kind.OVERLOADED, Kind.TOO_LARGE])
def test_what_waiting_cannot_mend_is_asked_for_in_less(kind: Kind) -> None:
    assert isinstance(decide(kind), Smaller)


def test_what_is_not_there_is_for_the_asker_to_judge() -> None:
    assert decide(Kind.NOT_THERE) == NotFound()


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (Kind.AUTH, "LANGFUSE_AUTH"),
        (Kind.REDIRECTED, "REDIRECT_REFUSED"),
        (Kind.REFUSED, "BAD_RESPONSE"),
        (Kind.UNTRUSTED, "LANGFUSE_UNAVAILABLE"),
    ],
)
def test_what_no_repetition_mends_is_told_at_once(kind: Kind, code: str) -> None:
    step = decide(kind) if kind is not Kind.UNTRUSTED else decide(kind, attempt=0)
    assert isinstance(step, GiveUp)
    assert step.error.error_code == code
    assert "words" in str(step.error)


@given(
    st.sampled_from(list(Kind)),
    st.integers(0, 10_000),
    st.floats(0, 1, exclude_max=True),
    st.none() | st.floats(0.001, 1e6),
)
def test_no_wait_is_longer_than_told_or_than_a_minute(
    kind: Kind, attempt: int, chance: float, retry_after_s: float | None
) -> None:
    step = decide(kind, attempt=attempt, chance=chance, retry_after_s=retry_after_s)
    if isinstance(step, Wait):
        longest = retry_after_s if step.shared and retry_after_s is not None else 60.0
        assert 0 <= step.seconds <= longest
