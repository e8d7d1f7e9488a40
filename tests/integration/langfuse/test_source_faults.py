"""Faults between the client and Langfuse, and the errors of a collection."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from mosaico.core.encryption import Secret
from mosaico.traces.registry import CollectionFailed
from mosaico.traces.types import TraceOutcome
from tests.integration.langfuse.collection import FAST_POLICY, collect_all, read_pages
from tests.support.langfuse import FakeLangfuse
from tests.support.langfuse.exchange import Fault
from tests.support.langfuse.faults import (
    ALWAYS,
    ConnectionReset,
    CutConnection,
    FailsFirst,
    HtmlResponse,
    ModifiedResponse,
    NoResponseEver,
    Oversized,
    PayloadTooLarge,
    QueryTimeout,
    RateLimited,
    Redirect,
    RepeatedCursor,
    RespondsWith,
    SlowBody,
    TruncatedJson,
)

ROWS = "/experiment-items"
IMPATIENT = replace(FAST_POLICY, request_s=0.3)


def name_of(fault: Fault) -> str:
    """A test ID that is equal in every process."""
    return type(fault).__name__


@pytest.fixture(autouse=True)
def some_run(langfuse: FakeLangfuse) -> Iterator[None]:
    langfuse.experiment(items=120)
    yield
    langfuse.clear_faults()


def code_of(langfuse: FakeLangfuse, **more: Any) -> str:
    with pytest.raises(CollectionFailed) as caught:
        collect_all(langfuse, **more)
    assert len(caught.value.detail) > 40
    return caught.value.error_code


@pytest.mark.parametrize(
    "fault",
    [
        HtmlResponse(status=502),
        ConnectionReset(),
        CutConnection(),
        RateLimited(retry_after_s=None),
    ],
    ids=name_of,
)
def test_client__temporary_failure_is_retried(langfuse: FakeLangfuse, fault: Fault) -> None:
    # As many failures as a request has retries.
    langfuse.inject(fault, path=ROWS, on={1, 2, 3, 4, 5})
    assert len(collect_all(langfuse).traces) == 120


def test_client__lasting_failure_raises_after_five_retries(langfuse: FakeLangfuse) -> None:
    langfuse.inject(HtmlResponse(status=503), path=ROWS, on=ALWAYS)
    assert code_of(langfuse) == "LANGFUSE_UNAVAILABLE"
    # One attempt and five retries.
    assert len(langfuse.requests_for(ROWS)) == 6


def test_client__every_page_outlasts_a_short_outage(
    langfuse: FakeLangfuse,
) -> None:
    langfuse.experiment(run="long", items=1_100, calls_per_item=1)
    langfuse.inject(FailsFirst(times=5), path=ROWS, on=ALWAYS)
    assert len(collect_all(langfuse, run_name="long").traces) == 1_100


def test_client__page_without_response_raises_with_its_name(
    langfuse: FakeLangfuse,
) -> None:
    langfuse.inject(NoResponseEver(), path=ROWS, on=range(2, 1000))
    with pytest.raises(CollectionFailed, match=f"{ROWS} in 2 attempts") as caught:
        collect_all(langfuse, policy=replace(IMPATIENT, retries=1))
    assert caught.value.error_code == "LANGFUSE_UNAVAILABLE"
    # One page, and two attempts for the next one.
    assert len(langfuse.requests_for(ROWS)) == 3


def test_client__unreachable_server_raises(langfuse: FakeLangfuse) -> None:
    assert code_of(langfuse, url="http://127.0.0.1:1") == "LANGFUSE_UNAVAILABLE"


@pytest.mark.parametrize("fault", [NoResponseEver(), SlowBody()], ids=name_of)
def test_client__request_ends_at_its_deadline(langfuse: FakeLangfuse, fault: Fault) -> None:
    langfuse.inject(fault, path=ROWS, on=ALWAYS)
    assert code_of(langfuse, policy=replace(IMPATIENT, retries=1)) == "LANGFUSE_UNAVAILABLE"


def test_client__wrong_keys_raise_at_once(langfuse: FakeLangfuse) -> None:
    assert code_of(langfuse, secret_key=Secret("sk-wrong")) == "LANGFUSE_AUTH"
    assert len(langfuse.requests) == 1
    organisation = {
        "public_key": langfuse.organisation_public_key,
        "secret_key": Secret(langfuse.organisation_secret_key),
    }
    assert code_of(langfuse, **organisation) == "LANGFUSE_AUTH"
    # A missing key is noticed without a request.
    assert code_of(langfuse, public_key=None) == "LANGFUSE_AUTH"
    assert code_of(langfuse, secret_key=None) == "LANGFUSE_AUTH"
    assert len(langfuse.requests) == 2


def test_client__error_messages_contain_no_secret(langfuse: FakeLangfuse) -> None:
    with pytest.raises(CollectionFailed) as caught:
        collect_all(langfuse, secret_key=Secret("sk-very-secret"))
    assert "sk-very-secret" not in str(caught.value)


def test_client__retry_after_holds_all_requests(langfuse: FakeLangfuse) -> None:
    langfuse.inject(RateLimited(retry_after_s=1), path=ROWS)
    assert len(collect_all(langfuse).traces) == 120
    refused, after, *_ = langfuse.requests_for(ROWS)
    assert refused.status == 429
    assert after.received_at - refused.received_at >= 0.99


@pytest.mark.parametrize(
    "fault",
    [QueryTimeout(above=30), PayloadTooLarge(above=30), HtmlResponse(status=524)],
    ids=name_of,
)
def test_client__too_large_request_is_made_smaller(langfuse: FakeLangfuse, fault: Fault) -> None:
    # A proxy does not look at the limit: its 524 ends after two requests instead.
    langfuse.inject(fault, path=ROWS, on=ALWAYS if not isinstance(fault, HtmlResponse) else {1, 2})
    assert len({trace.trace_id for trace in collect_all(langfuse).traces}) == 120
    limits = [
        int(request.parameters["limit"])
        for request in langfuse.requests_for(ROWS)
        if isinstance(fault, HtmlResponse) or "io" in request.parameters["fields"]
    ]
    assert limits[:3] == [100, 50, 25]


def test_client__oversized_response_is_requested_in_smaller_pages(langfuse: FakeLangfuse) -> None:
    langfuse.inject(Oversized(packed=True), path=ROWS)
    assert len({trace.trace_id for trace in collect_all(langfuse).traces}) == 120


@pytest.mark.parametrize("fault", [HtmlResponse(status=200), TruncatedJson()], ids=name_of)
def test_client__invalid_json_is_retried_once(langfuse: FakeLangfuse, fault: Fault) -> None:
    langfuse.inject(fault, path=ROWS)
    assert len(collect_all(langfuse).traces) == 120
    langfuse.clear_faults()
    langfuse.inject(fault, path=ROWS, on=ALWAYS)
    langfuse.clear_requests()
    assert code_of(langfuse) == "BAD_RESPONSE"
    assert len(langfuse.requests_for(ROWS)) == 2


@pytest.mark.parametrize(
    "content",
    [{}, {"data": [1]}, {"data": [{"id": "x"}], "meta": {}}, None],
    ids=repr,
)
def test_client__unexpected_json_raises(langfuse: FakeLangfuse, content: Any) -> None:
    langfuse.inject(RespondsWith(status=200, content=content), path=ROWS, on=ALWAYS)
    assert code_of(langfuse) == "BAD_RESPONSE"


@pytest.mark.parametrize(
    "malformed",
    [{"traceId": 7}, None],
    ids=repr,
)
def test_source__malformed_row_is_an_infrastructure_error(
    langfuse: FakeLangfuse, malformed: dict[str, Any] | None
) -> None:
    expected = collect_all(langfuse).traces

    def spoil(document: Any) -> None:
        [first, *rows] = document["data"]
        document["data"] = [malformed and {**first, **malformed}, *rows]

    langfuse.inject(ModifiedResponse(change=spoil), path=ROWS, on={2})
    traces = collect_all(langfuse).traces

    [failed] = [trace for trace in traces if trace.outcome is TraceOutcome.INFRA_ERROR]
    assert failed.trace_id.startswith("malformed-")
    assert "without the ID" in (failed.error or "")
    unfailed = {trace.trace_id: trace for trace in traces if trace is not failed}
    assert len(unfailed) == len(expected) - 1
    assert unfailed == {trace.trace_id: trace for trace in expected if trace.trace_id in unfailed}


def test_client__rejected_request_raises_with_the_message_of_the_server(
    langfuse: FakeLangfuse,
) -> None:
    refusal = {"message": "Invalid request data", "error": [{"path": ["limit"]}]}
    langfuse.inject(RespondsWith(status=400, content=refusal), path=ROWS, on=ALWAYS)
    with pytest.raises(CollectionFailed, match="Invalid request data") as caught:
        collect_all(langfuse)
    assert caught.value.error_code == "BAD_RESPONSE"


def test_source__repeated_cursor_on_the_last_page_ends_the_reading(langfuse: FakeLangfuse) -> None:
    langfuse.inject(RepeatedCursor(), path=ROWS, on=ALWAYS)
    pages = list(read_pages(langfuse))  # the second page is the last one, whatever its cursor says
    assert len({trace.trace_id for page in pages for trace in page.traces}) == 120
    assert len(langfuse.requests_for(ROWS)) <= 3


def test_source__loop_before_the_end_raises(langfuse: FakeLangfuse) -> None:
    langfuse.experiment(run="long", items=350)
    langfuse.inject(RepeatedCursor(), path=ROWS, on=ALWAYS)
    with pytest.raises(CollectionFailed, match="same page twice, and only 200 of 350") as caught:
        collect_all(langfuse, run_name="long")
    assert caught.value.error_code == "BAD_RESPONSE"


def test_source__server_without_experiments_and_runs_raises(langfuse: FakeLangfuse) -> None:
    langfuse.inject(HtmlResponse(status=404), path="/experiments", on=ALWAYS)
    with pytest.raises(CollectionFailed, match=r"v3: .*events_only") as caught:
        collect_all(langfuse)
    assert caught.value.error_code == "BAD_RESPONSE"


def test_source__run_deleted_during_reading_raises(langfuse: FakeLangfuse) -> None:
    langfuse.inject(HtmlResponse(status=404), path=ROWS, on=ALWAYS)
    assert code_of(langfuse) == "RUN_NOT_FOUND"


@pytest.mark.parametrize("fault", [RateLimited(retry_after_s=300), NoResponseEver()], ids=name_of)
def test_source__heartbeats_continue_while_a_page_is_awaited(
    langfuse: FakeLangfuse, fault: Fault
) -> None:
    langfuse.inject(fault, path=ROWS, on=ALWAYS)
    # Longer than the requested 300 seconds: the client waits and does not give up.
    pages = read_pages(langfuse, policy=replace(FAST_POLICY, rate_limit_s=3_600.0))
    # It waits neither for the server nor for its Retry-After, else there would be no page.
    beat = next(pages)
    assert (beat.traces, beat.cursor is None) == ((), False)
    pages.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("status", [302, 307])
def test_client__redirects_are_not_followed(langfuse: FakeLangfuse, status: int) -> None:
    langfuse.inject(Redirect(status=status, to=f"{langfuse.url}/elsewhere"), path="/projects")
    assert code_of(langfuse) == "REDIRECT_REFUSED"
    assert len(langfuse.requests) == 1
