"""Everything that can go wrong on the way to Langfuse, and what a run makes of it."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from app.core.encryption import Secret
from app.traces.registry import CollectionFailed
from app.traces.sources.langfuse.background import HEARTBEAT_S
from tests.integration.langfuse.collecting import HURRIED, collected, read
from tests.support.langfuse import StandIn
from tests.support.langfuse.faults import Fault
from tests.support.langfuse.mishaps import (
    ALWAYS,
    CutConnection,
    FailsAtFirst,
    Hang,
    HtmlPage,
    Oversized,
    PayloadTooLarge,
    RateLimited,
    Redirect,
    RepeatingCursor,
    Reset,
    Says,
    TimedOut,
    Trickle,
    TruncatedJson,
)

ROWS = "/experiment-items"
IMPATIENT = replace(HURRIED, request_s=0.3)


def name_of(fault: Fault) -> str:
    """A name that is the same in every process."""
    return type(fault).__name__


@pytest.fixture(autouse=True)
def some_run(langfuse: StandIn) -> Iterator[None]:
    langfuse.experiment(items=120)
    yield
    langfuse.mend()


def code_of(langfuse: StandIn, **more: Any) -> str:
    with pytest.raises(CollectionFailed) as caught:
        collected(langfuse, **more)
    assert len(caught.value.detail) > 40
    return caught.value.error_code


@pytest.mark.parametrize(
    "fault",
    [
        HtmlPage(status=500),
        HtmlPage(status=502),
        HtmlPage(status=503),
        Reset(),
        CutConnection(),
        RateLimited(retry_after_s=None),
        Says(status=408, content={}),
    ],
    ids=name_of,
)
def test_what_may_pass_is_asked_for_again(langfuse: StandIn, fault: Fault) -> None:
    langfuse.inject(fault, path=ROWS, on={1, 2, 3, 4, 5})
    assert len(collected(langfuse).traces) == 120


@pytest.mark.parametrize("fault", [HtmlPage(status=503), Reset(), CutConnection()], ids=name_of)
def test_what_does_not_pass_is_given_up_after_five_retries(langfuse: StandIn, fault: Fault) -> None:
    langfuse.inject(fault, path=ROWS, on=ALWAYS)
    assert code_of(langfuse) == "LANGFUSE_UNAVAILABLE"
    assert len(langfuse.asked_for(ROWS)) == 6


def test_a_short_outage_in_a_long_collection_is_outlasted_by_every_page_that_meets_it(
    langfuse: StandIn,
) -> None:
    langfuse.experiment(run="long", items=1_100, calls_per_item=1)
    langfuse.inject(FailsAtFirst(times=5), path=ROWS, on=ALWAYS)
    assert len(collected(langfuse, run_name="long").traces) == 1_100


def test_a_page_that_is_never_answered_ends_the_reading_by_name_although_others_are(
    langfuse: StandIn,
) -> None:
    langfuse.inject(Hang(), path=ROWS, on=range(2, 1000))
    with pytest.raises(CollectionFailed, match=f"{ROWS} in 2 attempts") as caught:
        collected(langfuse, patience=replace(IMPATIENT, retries=1))
    assert caught.value.error_code == "LANGFUSE_UNAVAILABLE"
    assert len(langfuse.asked_for(ROWS)) == 3


def test_nobody_at_the_address_is_told(langfuse: StandIn) -> None:
    assert code_of(langfuse, url="http://127.0.0.1:1") == "LANGFUSE_UNAVAILABLE"


@pytest.mark.parametrize("fault", [Hang(), Trickle()], ids=name_of)
def test_no_request_is_longer_than_its_deadline(langfuse: StandIn, fault: Fault) -> None:
    langfuse.inject(fault, path=ROWS, on=ALWAYS)
    assert code_of(langfuse, patience=replace(IMPATIENT, retries=1)) == "LANGFUSE_UNAVAILABLE"


def test_wrong_keys_are_told_at_once(langfuse: StandIn) -> None:
    assert code_of(langfuse, secret_key=Secret("sk-wrong")) == "LANGFUSE_AUTH"
    assert len(langfuse.asked) == 1
    organisation = {
        "public_key": langfuse.organisation_public_key,
        "secret_key": Secret(langfuse.organisation_secret_key),
    }
    assert code_of(langfuse, **organisation) == "LANGFUSE_AUTH"
    assert code_of(langfuse, public_key=None) == "LANGFUSE_AUTH"
    assert code_of(langfuse, secret_key=None) == "LANGFUSE_AUTH"
    assert len(langfuse.asked) == 2


def test_a_secret_is_in_no_message(langfuse: StandIn) -> None:
    with pytest.raises(CollectionFailed) as caught:
        collected(langfuse, secret_key=Secret("sk-very-secret"))
    assert "sk-very-secret" not in str(caught.value)


def test_the_named_time_is_waited_and_nobody_asks_before(langfuse: StandIn) -> None:
    langfuse.inject(RateLimited(retry_after_s=1), path=ROWS)
    assert len(collected(langfuse).traces) == 120
    refused, after, *_ = langfuse.asked_for(ROWS)
    assert refused.status == 429
    assert after.at - refused.at >= 0.99


def test_a_limit_that_never_ends_is_given_up_at_the_deadline(langfuse: StandIn) -> None:
    langfuse.inject(RateLimited(retry_after_s=60), path=ROWS, on=ALWAYS)
    assert code_of(langfuse) == "LANGFUSE_RATE_LIMITED"
    assert len(langfuse.asked_for(ROWS)) == 1


@pytest.mark.parametrize(
    "fault", [TimedOut(above=30), PayloadTooLarge(above=30), HtmlPage(status=524)], ids=name_of
)
def test_a_request_that_is_too_much_is_made_smaller_not_later(
    langfuse: StandIn, fault: Fault
) -> None:
    langfuse.inject(fault, path=ROWS, on=ALWAYS if not isinstance(fault, HtmlPage) else {1, 2})
    assert len({trace.trace_id for trace in collected(langfuse).traces}) == 120
    assert [int(one.parameters["limit"]) for one in langfuse.asked_for(ROWS)[:3]] == [100, 50, 25]


def test_a_server_that_never_has_time_is_given_up(langfuse: StandIn) -> None:
    langfuse.inject(TimedOut(), path=ROWS, on=ALWAYS)
    assert code_of(langfuse) == "LANGFUSE_UNAVAILABLE"


def test_an_answer_above_the_cap_is_asked_for_in_smaller_pieces(langfuse: StandIn) -> None:
    langfuse.inject(Oversized(packed=True), path=ROWS)
    assert len({trace.trace_id for trace in collected(langfuse).traces}) == 120


def test_an_answer_that_is_always_above_the_cap_is_told(langfuse: StandIn) -> None:
    langfuse.inject(Oversized(packed=True), path="/projects", on=ALWAYS)
    assert code_of(langfuse) == "RESPONSE_TOO_LARGE"


@pytest.mark.parametrize("fault", [HtmlPage(status=200), TruncatedJson()], ids=name_of)
def test_an_answer_that_is_no_json_is_asked_for_once_more(langfuse: StandIn, fault: Fault) -> None:
    langfuse.inject(fault, path=ROWS)
    assert len(collected(langfuse).traces) == 120
    langfuse.mend()
    langfuse.inject(fault, path=ROWS, on=ALWAYS)
    langfuse.forget()
    assert code_of(langfuse) == "BAD_RESPONSE"
    assert len(langfuse.asked_for(ROWS)) == 2


@pytest.mark.parametrize(
    "content",
    [{}, {"data": None}, {"data": [1]}, {"data": [{"id": "x"}], "meta": {}}, [], "text", None],
    ids=repr,
)
def test_json_that_is_something_else_is_told(langfuse: StandIn, content: Any) -> None:
    langfuse.inject(Says(status=200, content=content), path=ROWS, on=ALWAYS)
    assert code_of(langfuse) == "BAD_RESPONSE"


def test_a_refusal_of_the_request_is_told_with_the_servers_words(langfuse: StandIn) -> None:
    refusal = {"message": "Invalid request data", "error": [{"path": ["limit"]}]}
    langfuse.inject(Says(status=400, content=refusal), path=ROWS, on=ALWAYS)
    with pytest.raises(CollectionFailed, match="Invalid request data") as caught:
        collected(langfuse)
    assert caught.value.error_code == "BAD_RESPONSE"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_redirect_is_followed(langfuse: StandIn, status: int) -> None:
    langfuse.inject(Redirect(status=status, to=f"{langfuse.url}/elsewhere"), path="/projects")
    assert code_of(langfuse) == "REDIRECT_REFUSED"
    assert len(langfuse.asked) == 1


def test_a_cursor_that_comes_again_ends_the_reading_and_is_told(langfuse: StandIn) -> None:
    langfuse.inject(RepeatingCursor(), path=ROWS, on=ALWAYS)
    found = list(read(langfuse))  # the second page is the last one, whatever its cursor says
    assert len({trace.trace_id for page in found for trace in page.traces}) == 120
    assert len(langfuse.asked_for(ROWS)) <= 3


def test_a_circle_before_the_end_is_an_error(langfuse: StandIn) -> None:
    langfuse.experiment(run="long", items=350)
    langfuse.inject(RepeatingCursor(), path=ROWS, on=ALWAYS)
    with pytest.raises(CollectionFailed, match="same page twice, and only 200 of 350") as caught:
        collected(langfuse, run_name="long")
    assert caught.value.error_code == "BAD_RESPONSE"


def test_a_circle_among_the_calls_is_an_error_and_no_smaller_sum(langfuse: StandIn) -> None:
    langfuse.experiment(run="long", items=900, calls_per_item=3)
    langfuse.inject(RepeatingCursor(), path="/v2/observations", on=ALWAYS)
    assert code_of(langfuse, run_name="long") == "BAD_RESPONSE"


def test_a_server_without_the_api_is_told(langfuse: StandIn) -> None:
    langfuse.inject(HtmlPage(status=404), on=ALWAYS)
    assert code_of(langfuse) == "BAD_RESPONSE"


def test_a_server_without_experiments_and_runs_is_told(langfuse: StandIn) -> None:
    langfuse.inject(HtmlPage(status=404), path="/experiments", on=ALWAYS)
    with pytest.raises(CollectionFailed, match=r"v3: .*events_only") as caught:
        collected(langfuse)
    assert caught.value.error_code == "BAD_RESPONSE"


def test_a_run_that_disappears_while_it_is_read_is_told(langfuse: StandIn) -> None:
    langfuse.inject(HtmlPage(status=404), path=ROWS, on=ALWAYS)
    assert code_of(langfuse) == "RUN_NOT_FOUND"


@pytest.mark.parametrize("fault", [RateLimited(retry_after_s=300), Hang()], ids=name_of)
def test_whoever_waits_for_a_page_is_heard_all_the_time(langfuse: StandIn, fault: Fault) -> None:
    langfuse.inject(fault, path=ROWS, on=ALWAYS)
    pages = read(langfuse, patience=replace(HURRIED, rate_limit_s=3_600.0))
    started = time.monotonic()
    beat = next(pages)
    assert (beat.traces, beat.cursor is None) == ((), False)
    pages.close()  # type: ignore[attr-defined]
    # Liveness: it neither waits for the server nor for the time that the server named.
    assert time.monotonic() - started < HEARTBEAT_S + 60
