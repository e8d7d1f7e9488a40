"""What goes wrong on purpose looks to a client as it does in the world."""

import gzip
import json
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.integration.langfuse.reading import EVER, Reader
from tests.support.langfuse import StandIn, stand_in
from tests.support.langfuse.faults import MIB
from tests.support.langfuse.mishaps import (
    ALWAYS,
    Changed,
    CutConnection,
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


def test_a_fault_strikes_the_requests_of_its_numbers_on_its_path(
    langfuse: StandIn, reader: Reader
) -> None:
    langfuse.inject(HtmlPage(status=503), path="/projects", on={2, 3})

    statuses = [reader.client.get("/projects").status_code for _ in range(4)]

    assert statuses == [200, 503, 503, 200]
    assert reader.get("/v2/datasets")["data"] == []
    assert [one.status for one in langfuse.asked_for("/projects")] == [200, 503, 503, 200]


def test_nothing_goes_wrong_after_mending(langfuse: StandIn, reader: Reader) -> None:
    langfuse.inject(HtmlPage(status=500), on=ALWAYS)
    assert reader.client.get("/projects").status_code == 500

    langfuse.mend()

    assert reader.get("/projects")["data"]


def test_a_rate_limit_says_when_to_come_back_or_does_not(langfuse: StandIn, reader: Reader) -> None:
    langfuse.inject(RateLimited(retry_after_s=7), on={1})
    langfuse.inject(RateLimited(retry_after_s=None), on={2})

    told, silent = (reader.client.get("/projects") for _ in range(2))

    assert (told.status_code, silent.status_code) == (429, 429)
    assert told.headers["Retry-After"] == "7"
    assert not told.headers["X-RateLimit-Reset"].isdecimal()
    assert told.json()["code"] == "rate_limited"
    assert "Retry-After" not in silent.headers


def test_a_query_that_is_too_heavy_passes_when_it_is_small_enough(
    langfuse: StandIn, reader: Reader
) -> None:
    langfuse.experiment(items=30)
    langfuse.inject(TimedOut(above=20), path=ROWS, on=ALWAYS)

    refused = reader.refused(422, ROWS, fromStartTime=EVER, limit=50)
    taken = reader.get(ROWS, fromStartTime=EVER, limit=20)

    assert refused["error"] == "Request timed out"
    assert len(taken["data"]) == 20


def test_a_page_with_texts_that_is_too_large_passes_without_them(
    langfuse: StandIn, reader: Reader
) -> None:
    langfuse.experiment(items=30)
    langfuse.inject(PayloadTooLarge(above=10), path=ROWS, on=ALWAYS)

    refused = reader.refused(422, ROWS, fromStartTime=EVER, limit=20, fields="core,io")
    fewer = reader.get(ROWS, fromStartTime=EVER, limit=10, fields="core,io")
    without = reader.get(ROWS, fromStartTime=EVER, limit=20, fields="core")

    assert refused["error"] == "PayloadTooLargeError"
    assert [len(page["data"]) for page in (fewer, without)] == [10, 20]


@pytest.mark.parametrize("status", [200, 500, 502, 524])
def test_a_proxy_answers_in_html(langfuse: StandIn, reader: Reader, status: int) -> None:
    langfuse.inject(HtmlPage(status=status))

    answer = reader.client.get("/projects")

    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")
    assert "<html>" in answer.text


def test_a_redirect_leads_away(langfuse: StandIn, reader: Reader) -> None:
    langfuse.inject(Redirect(to="http://elsewhere.example/"))

    answer = reader.client.get("/projects")

    assert (answer.status_code, answer.headers["location"]) == (302, "http://elsewhere.example/")


def test_a_connection_is_reset_or_cut(langfuse: StandIn, reader: Reader) -> None:
    langfuse.inject(Reset(), on={1})
    langfuse.inject(CutConnection(), on={2})

    with pytest.raises(httpx.ReadError):
        reader.client.get("/projects")
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        reader.client.get("/projects")
    assert reader.get("/projects")["data"]


def test_a_server_that_hangs_is_left_by_its_client(langfuse: StandIn, reader: Reader) -> None:
    langfuse.inject(Hang())

    with pytest.raises(httpx.ReadTimeout):
        reader.client.get("/projects", timeout=0.2)

    assert reader.get("/projects")["data"]


def test_a_server_that_hangs_ends_with_its_block() -> None:
    with ThreadPoolExecutor(1) as threads:
        with stand_in() as langfuse:
            langfuse.inject(Hang())
            waiting = threads.submit(httpx.get, langfuse.url, trust_env=False, timeout=30)
            while not langfuse.asked and not waiting.done():
                time.sleep(0.01)

        with pytest.raises(httpx.ReadError):
            waiting.result()


def test_a_trickle_never_waits_long_and_never_ends(langfuse: StandIn, reader: Reader) -> None:
    langfuse.inject(Trickle(pause_s=0.01))
    came = 0

    with reader.client.stream("GET", "/projects", timeout=10) as answer:
        for piece in answer.iter_raw():
            came += len(piece)
            if came == 5:
                break

    assert came == 5
    assert int(answer.headers["content-length"]) > 100


def test_json_ends_in_the_middle(langfuse: StandIn, reader: Reader) -> None:
    langfuse.inject(TruncatedJson())

    answer = reader.client.get("/projects")

    assert answer.status_code == 200
    with pytest.raises(json.JSONDecodeError):
        answer.json()


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_is_larger_than_anybody_wants(
    langfuse: StandIn, reader: Reader, packed: bool
) -> None:
    langfuse.inject(Oversized(size=2 * MIB, packed=packed))

    with reader.client.stream("GET", "/projects") as answer:
        raw = b"".join(answer.iter_raw())

    assert (len(raw) < MIB) is packed
    body = gzip.decompress(raw) if packed else raw
    assert len(body) == 2 * MIB
    assert json.loads(body)["data"]


def test_a_cursor_repeats_for_ever(langfuse: StandIn, reader: Reader) -> None:
    langfuse.experiment(items=6)
    langfuse.inject(RepeatingCursor(), path=ROWS, on=ALWAYS)
    first = reader.get(ROWS, fromStartTime=EVER, limit=2)["meta"]["cursor"]

    pages = [reader.get(ROWS, fromStartTime=EVER, limit=2, cursor=first) for _ in range(3)]

    assert [page["meta"]["cursor"] for page in pages] == [first] * 3


def test_an_answer_is_changed_in_any_way(langfuse: StandIn, reader: Reader) -> None:
    langfuse.experiment(items=2)
    langfuse.inject(Changed(change=lambda body: body["data"][0].pop("traceId")), path=ROWS)
    langfuse.inject(Says(status=418, content={"message": "I am a teapot"}), path="/projects")

    rows = reader.get(ROWS, fromStartTime=EVER)["data"]

    assert ["traceId" in row for row in rows] == [False, True]
    assert reader.refused(418, "/projects") == {"message": "I am a teapot"}


def test_requests_in_flight_are_counted(langfuse: StandIn, reader: Reader) -> None:
    # A request that another test let hang may not have ended yet.
    before = langfuse.server.in_flight
    langfuse.answer_slowly(0.2)

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda _: reader.client.get("/projects"), range(3)))

    assert 3 <= langfuse.most_in_flight <= 3 + before
    langfuse.forget()
    assert langfuse.most_in_flight <= before
