"""What a failed request means, and whether and when it is sent again."""

import ssl

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.core.http.transport import OversizedResponse
from mosaico.traces.sources.langfuse.failures import (
    FailureKind,
    LangfusePolicy,
    RaiseFinalError,
    RequestFailure,
    RetryAfterWait,
    RetryDecision,
    classify_transport_error,
    decide_retry,
)

POLICY = LangfusePolicy()


def caused_by(cause: Exception) -> httpx.ConnectError:
    error = httpx.ConnectError("no connection")
    error.__cause__ = cause
    return error


def test_classify_transport_error__untrusted_certificate_is_permanent() -> None:
    refused = ssl.SSLCertVerificationError("self-signed certificate")
    assert classify_transport_error(caused_by(refused)).kind is FailureKind.BAD_CERTIFICATE
    assert (
        classify_transport_error(caused_by(caused_by(refused))).kind is FailureKind.BAD_CERTIFICATE
    )


def test_classify_transport_error__broken_connection_is_unreachable() -> None:
    for error in (
        caused_by(ConnectionRefusedError()),
        caused_by(ssl.SSLError("bad record")),
        httpx.ReadTimeout("too slow"),
        httpx.RemoteProtocolError("it ended early"),
    ):
        assert classify_transport_error(error).kind is FailureKind.UNREACHABLE


def test_classify_transport_error__oversized_and_undecodable_responses() -> None:
    assert classify_transport_error(OversizedResponse()).kind is FailureKind.TOO_LARGE
    assert (
        classify_transport_error(httpx.DecodingError("broken gzip")).kind is FailureKind.MALFORMED
    )


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
        policy=POLICY,
    )


def error_of(step: RetryDecision) -> str:
    assert isinstance(step, RaiseFinalError)
    assert "GET /projects" in str(step.error)
    return step.error.error_code


@pytest.mark.parametrize("kind", [FailureKind.SERVER_ERROR, FailureKind.UNREACHABLE])
def test_decide_retry__server_failure_is_retried_five_times(kind: FailureKind) -> None:
    # Three quarters of 2, 4, 8, 16 and 32 seconds: equal jitter with the random number 0.5.
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
def test_decide_retry__retries_outlast_an_outage_of_30_seconds(
    chances: list[float],
) -> None:
    steps = [
        decide(FailureKind.UNREACHABLE, attempt=attempt, chance=chance)
        for attempt, chance in enumerate(chances)
    ]
    # At least half of 2 + 4 + 8 + 16 + 32 seconds, and less than their sum.
    assert 31 <= sum(step.seconds for step in steps if isinstance(step, RetryAfterWait)) < 62


def test_decide_retry__retry_after_holds_all_clients() -> None:
    assert decide(FailureKind.RATE_LIMITED, retry_after_s=7.0) == RetryAfterWait(
        7.0, for_all_clients=True
    )


def test_decide_retry__without_retry_after_waits_grow() -> None:
    assert decide(FailureKind.RATE_LIMITED, attempt=3) == RetryAfterWait(8.0, for_all_clients=True)
    assert decide(FailureKind.RATE_LIMITED, attempt=30, chance=0.99) == RetryAfterWait(
        # At most a minute, times the random number.
        59.4,
        for_all_clients=True,
    )


def test_decide_retry__total_wait_over_the_limit_raises() -> None:
    # Ten minutes in all are the limit.
    fits = decide(FailureKind.RATE_LIMITED, waited_s=590.0, retry_after_s=10.0)
    assert fits == RetryAfterWait(10.0, for_all_clients=True)
    step = decide(FailureKind.RATE_LIMITED, waited_s=590.0, retry_after_s=11.0)
    assert error_of(step) == "LANGFUSE_RATE_LIMITED"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (FailureKind.AUTH, "LANGFUSE_AUTH"),
        (FailureKind.REDIRECT, "REDIRECT_REFUSED"),
        (FailureKind.REJECTED, "BAD_RESPONSE"),
        (FailureKind.BAD_CERTIFICATE, "LANGFUSE_UNAVAILABLE"),
    ],
)
def test_decide_retry__permanent_failure_raises_at_once(kind: FailureKind, code: str) -> None:
    step = decide(kind)
    assert isinstance(step, RaiseFinalError)
    assert step.error.error_code == code
    assert "words" in str(step.error)


@given(
    st.sampled_from(list(FailureKind)),
    st.integers(0, 10_000),
    st.floats(0, 1, exclude_max=True),
    st.none() | st.floats(0.001, 1e6),
)
def test_decide_retry__waits_are_bounded(
    kind: FailureKind, attempt: int, chance: float, retry_after_s: float | None
) -> None:
    step = decide(kind, attempt=attempt, chance=chance, retry_after_s=retry_after_s)
    if isinstance(step, RetryAfterWait):
        longest = retry_after_s if step.for_all_clients and retry_after_s is not None else 60.0
        assert 0 <= step.seconds <= longest
