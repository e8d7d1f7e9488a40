"""The outcome of a job that raised an error."""

import pytest

from mosaico.core.db import DatabaseUnavailable
from mosaico.core.errors import AppError, Invalid
from mosaico.jobs.declarations import FailRun, FailureReport, ScoreShard
from mosaico.jobs.handlers import MESSAGE_CHARS, JobHandler, WorkerStopping, describe_error
from mosaico.jobs.outcomes import JobFailed, JobOutcome, JobReleased, JobRetry, decide_outcome


def handler(on_failure: type[FailureReport] | None = FailRun) -> JobHandler:
    return JobHandler(
        request_type=ScoreShard, function=lambda _job, _step: None, on_failure=on_failure
    )


@pytest.mark.parametrize(
    ("attempts", "delay_s"),
    [(0, 1.0), (1, 4.0), (2, 16.0), (3, 60.0)],  # times four, at most a minute
)
def test_decide_outcome__temporary_error_is_retried_with_growing_delays(
    attempts: int, delay_s: float
) -> None:
    assert decide_outcome(DatabaseUnavailable(), attempts, handler()) == JobRetry(delay_s=delay_s)


def test_decide_outcome__fifth_attempt_is_the_last() -> None:
    outcome = decide_outcome(DatabaseUnavailable(), 4, handler())

    assert isinstance(outcome, JobFailed)
    assert outcome.code == "DATABASE_UNAVAILABLE"


def test_decide_outcome__job_without_on_failure_is_retried_without_limit() -> None:
    outcome = decide_outcome(DatabaseUnavailable(), 10_000, handler(on_failure=None))

    assert outcome == JobRetry(delay_s=60.0)


@pytest.mark.parametrize("attempts", [0, 4, 400])
def test_decide_outcome__stopping_worker_releases_the_job(attempts: int) -> None:
    assert decide_outcome(WorkerStopping(), attempts, handler()) == JobReleased()


def test_decide_outcome__invalid_input_is_not_retried() -> None:
    outcome: JobOutcome = decide_outcome(Invalid("write it otherwise"), 0, handler())

    assert outcome == JobFailed(code="INVALID", message="write it otherwise")


def test_describe_error__unexpected_error_hides_its_message() -> None:
    described = describe_error(ZeroDivisionError("password=hunter2"))

    assert described == {
        "code": "INTERNAL_ERROR",
        "message": "ZeroDivisionError in the worker",
    }


def test_describe_error__unstorable_characters_are_replaced() -> None:
    described = describe_error(AppError("a\0b\ud800" + "x" * 2 * MESSAGE_CHARS))

    assert described["message"].startswith("a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}x")
    assert len(described["message"]) == MESSAGE_CHARS
