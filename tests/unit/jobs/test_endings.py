"""What becomes of a job that raised."""

import pytest

from app.core.db import DatabaseUnavailable
from app.core.errors import AppError, Invalid
from app.jobs.closing import Ending, FailedForGood, HandedBack, TriedAgain, ending_of
from app.jobs.handlers import MESSAGE_CHARS, HandBack, Handler, describe


def handler(give_up: str | None = "runs.give_up") -> Handler:
    return Handler(name="runs.score", function=lambda _: None, give_up=give_up)


@pytest.mark.parametrize(
    ("attempts", "waits_s"),
    [(0, 1.0), (1, 4.0), (2, 16.0), (3, 60.0)],  # four times as long each, a minute at most
)
def test_what_may_pass_by_itself_is_tried_again_ever_later(attempts: int, waits_s: float) -> None:
    assert ending_of(DatabaseUnavailable(), attempts, handler()) == TriedAgain(after_s=waits_s)


def test_the_fifth_attempt_is_the_last() -> None:
    ending = ending_of(DatabaseUnavailable(), 4, handler())

    assert isinstance(ending, FailedForGood)
    assert ending.code == "DATABASE_UNAVAILABLE"


def test_a_job_that_has_nobody_to_tell_is_tried_until_it_succeeds() -> None:
    ending = ending_of(DatabaseUnavailable(), 10_000, handler(give_up=None))

    assert ending == TriedAgain(after_s=60.0)


@pytest.mark.parametrize("attempts", [0, 4, 400])
def test_a_job_of_a_stopping_worker_is_handed_back_however_often(attempts: int) -> None:
    assert ending_of(HandBack(), attempts, handler()) == HandedBack()


def test_a_mistake_of_the_user_is_not_tried_again() -> None:
    ending: Ending = ending_of(Invalid("write it otherwise"), 0, handler())

    assert ending == FailedForGood(code="INVALID", message="write it otherwise")


def test_an_error_that_nobody_foresaw_tells_its_kind_and_not_its_text() -> None:
    described = describe(ZeroDivisionError("password=hunter2"))

    assert described == {
        "code": "INTERNAL_ERROR",
        "message": "ZeroDivisionError in the worker",
    }


def test_an_error_that_quotes_what_postgres_cannot_hold_is_told_all_the_same() -> None:
    described = describe(AppError("a\0b\ud800" + "x" * 2 * MESSAGE_CHARS))

    assert described["message"].startswith("a\N{REPLACEMENT CHARACTER}b?x")
    assert len(described["message"]) == MESSAGE_CHARS
