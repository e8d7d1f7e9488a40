"""The faults of the fake server look to a client like real ones."""

import gzip
import json
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.integration.langfuse.api_reader import EVER, ApiReader
from tests.support.langfuse import FakeLangfuse, run_fake_langfuse
from tests.support.langfuse.exchange import MIB
from tests.support.langfuse.faults import (
    ALWAYS,
    ConnectionReset,
    CutConnection,
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
from tests.support.waiting import LIVENESS_S

ROWS = "/experiment-items"


def test_inject__fault_affects_the_numbered_requests_of_its_path(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    langfuse.inject(HtmlResponse(status=503), path="/projects", on={2, 3})

    statuses = [reader.client.get("/projects").status_code for _ in range(4)]

    assert statuses == [200, 503, 503, 200]
    assert reader.get("/v2/datasets")["data"] == []
    assert [request.status for request in langfuse.requests_for("/projects")] == [
        200,
        503,
        503,
        200,
    ]


def test_clear_faults__removes_all_faults(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    langfuse.inject(HtmlResponse(status=500), on=ALWAYS)
    assert reader.client.get("/projects").status_code == 500

    langfuse.clear_faults()

    assert reader.get("/projects")["data"]


def test_rate_limited__with_and_without_retry_after(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    langfuse.inject(RateLimited(retry_after_s=7), on={1})
    langfuse.inject(RateLimited(retry_after_s=None), on={2})

    with_header, silent = (reader.client.get("/projects") for _ in range(2))

    assert (with_header.status_code, silent.status_code) == (429, 429)
    assert with_header.headers["Retry-After"] == "7"
    assert not with_header.headers["X-RateLimit-Reset"].isdecimal()
    assert with_header.json()["code"] == "rate_limited"
    assert "Retry-After" not in silent.headers


def test_query_timeout__small_query_succeeds(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    langfuse.experiment(items=30)
    langfuse.inject(QueryTimeout(above=20), path=ROWS, on=ALWAYS)

    refused = reader.expect_problem(422, ROWS, fromStartTime=EVER, limit=50)
    response = reader.get(ROWS, fromStartTime=EVER, limit=20)

    assert refused["error"] == "Request timed out"
    assert len(response["data"]) == 20


def test_payload_too_large__page_without_texts_succeeds(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    langfuse.experiment(items=30)
    langfuse.inject(PayloadTooLarge(above=10), path=ROWS, on=ALWAYS)

    refused = reader.expect_problem(422, ROWS, fromStartTime=EVER, limit=20, fields="core,io")
    fewer = reader.get(ROWS, fromStartTime=EVER, limit=10, fields="core,io")
    without = reader.get(ROWS, fromStartTime=EVER, limit=20, fields="core")

    assert refused["error"] == "PayloadTooLargeError"
    assert [len(page["data"]) for page in (fewer, without)] == [10, 20]


# 524 is the answer of Cloudflare when a server takes too long.
@pytest.mark.parametrize("status", [200, 500, 502, 524])
def test_html_response__returns_html(
    langfuse: FakeLangfuse, reader: ApiReader, status: int
) -> None:
    langfuse.inject(HtmlResponse(status=status))

    answer = reader.client.get("/projects")

    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")
    assert "<html>" in answer.text


def test_redirect__returns_the_other_address(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    langfuse.inject(Redirect(to="http://elsewhere.example/"))

    answer = reader.client.get("/projects")

    assert (answer.status_code, answer.headers["location"]) == (302, "http://elsewhere.example/")


def test_connection_reset__connection_ends(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    langfuse.inject(ConnectionReset(), on={1})
    langfuse.inject(CutConnection(), on={2})

    with pytest.raises(httpx.ReadError):
        reader.client.get("/projects")
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        reader.client.get("/projects")
    assert reader.get("/projects")["data"]


def test_no_response_ever__client_times_out(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    langfuse.inject(NoResponseEver())

    with pytest.raises(httpx.ReadTimeout):
        reader.client.get("/projects", timeout=0.2)

    assert reader.get("/projects")["data"]


def test_no_response_ever__server_stops_at_the_end_of_its_block() -> None:
    with ThreadPoolExecutor(1) as threads:
        with run_fake_langfuse() as langfuse:
            langfuse.inject(NoResponseEver())
            waiting = threads.submit(httpx.get, langfuse.url, trust_env=False, timeout=LIVENESS_S)
            while not langfuse.requests and not waiting.done():
                time.sleep(0.01)

        with pytest.raises(httpx.ReadError):
            waiting.result()


def test_slow_body__bytes_arrive_one_by_one(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    langfuse.inject(SlowBody(pause_s=0.01))
    came = 0

    with reader.client.stream("GET", "/projects", timeout=LIVENESS_S) as answer:
        for piece in answer.iter_raw():
            came += len(piece)
            if came == 5:
                break

    assert came == 5
    assert int(answer.headers["content-length"]) > 100


def test_truncated_json__ends_in_the_middle(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    langfuse.inject(TruncatedJson())

    answer = reader.client.get("/projects")

    assert answer.status_code == 200
    with pytest.raises(json.JSONDecodeError):
        answer.json()


@pytest.mark.parametrize("packed", [False, True])
def test_oversized__response_exceeds_the_limit(
    langfuse: FakeLangfuse, reader: ApiReader, packed: bool
) -> None:
    langfuse.inject(Oversized(size=2 * MIB, packed=packed))

    with reader.client.stream("GET", "/projects") as answer:
        raw = b"".join(answer.iter_raw())

    assert (len(raw) < MIB) is packed
    body = gzip.decompress(raw) if packed else raw
    assert len(body) == 2 * MIB
    assert json.loads(body)["data"]


def test_repeated_cursor__never_ends(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    langfuse.experiment(items=6)
    langfuse.inject(RepeatedCursor(), path=ROWS, on=ALWAYS)
    first = reader.get(ROWS, fromStartTime=EVER, limit=2)["meta"]["cursor"]

    pages = [reader.get(ROWS, fromStartTime=EVER, limit=2, cursor=first) for _ in range(3)]

    assert [page["meta"]["cursor"] for page in pages] == [first] * 3


def test_modified_response__applies_the_change(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    langfuse.experiment(items=2)
    langfuse.inject(ModifiedResponse(change=lambda body: body["data"][0].pop("traceId")), path=ROWS)
    langfuse.inject(
        RespondsWith(status=418, content={"message": "I am a teapot"}), path="/projects"
    )

    rows = reader.get(ROWS, fromStartTime=EVER)["data"]

    assert ["traceId" in row for row in rows] == [False, True]
    assert reader.expect_problem(418, "/projects") == {"message": "I am a teapot"}


def test_max_in_flight__counts_concurrent_requests(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    # A request of an earlier test may still be open.
    before = langfuse.server.in_flight
    langfuse.set_latency(0.2)

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda _: reader.client.get("/projects"), range(3)))

    assert 3 <= langfuse.max_in_flight <= 3 + before
    langfuse.clear_requests()
    assert langfuse.max_in_flight <= before
