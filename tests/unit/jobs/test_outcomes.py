"""What becomes of a job that raised."""

import pytest

from app.core.db import DatabaseUnavailable
from app.core.errors import AppError, Invalid
from app.jobs.handlers import MESSAGE_CHARS, JobHandler, WorkerStopping, describe_error
from app.jobs.outcomes import JobFailed, JobOutcome, JobReleased, JobRetry, decide_outcome


def handler(on_failure: str | None = "runs.give_up") -> JobHandler:
    return JobHandler(name="runs.score", function=lambda _: None, on_failure=on_failure)


@pytest.mark.parametrize(
    ("attempts", "waits_s"),
    [(0, 1.0), (1, 4.0), (2, 16.0), (3, 60.0)],  # four times as long each, a minute at most
)
def test_what_may_pass_by_itself_is_tried_again_ever_later(attempts: int, waits_s: float) -> None:
    assert decide_outcome(DatabaseUnavailable(), attempts, handler()) == JobRetry(delay_s=waits_s)


def test_the_fifth_attempt_is_the_last() -> None:
    ending = decide_outcome(DatabaseUnavailable(), 4, handler())

    assert isinstance(ending, JobFailed)
    assert ending.code == "DATABASE_UNAVAILABLE"


def test_a_job_that_has_nobody_to_tell_is_tried_until_it_succeeds() -> None:
    ending = decide_outcome(DatabaseUnavailable(), 10_000, handler(on_failure=None))

    assert ending == JobRetry(delay_s=60.0)


@pytest.mark.parametrize("attempts", [0, 4, 400])
def test_a_job_of_a_stopping_worker_is_handed_back_however_often(attempts: int) -> None:
    assert decide_outcome(WorkerStopping(), attempts, handler()) == JobReleased()


def test_a_mistake_of_the_user_is_not_tried_again() -> None:
    ending: JobOutcome = decide_outcome(Invalid("write it otherwise"), 0, handler())

    assert ending == JobFailed(code="INVALID", message="write it otherwise")


def test_an_error_that_nobody_foresaw_tells_its_kind_and_not_its_text() -> None:
    described = describe_error(ZeroDivisionError("password=hunter2"))

    assert described == {
        "code": "INTERNAL_ERROR",
        "message": "ZeroDivisionError in the worker",
    }


def test_an_error_that_quotes_what_postgres_cannot_hold_is_told_all_the_same() -> None:
    described = describe_error(AppError("a\0b\ud800" + "x" * 2 * MESSAGE_CHARS))

    assert described["message"].startswith("a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}x")
    assert len(described["message"]) == MESSAGE_CHARS
