"""Connections that never send a complete request, and requests that are not HTTP."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from structlog.testing import capture_logs

from mosaico.core.web import http_protocol, request_body
from mosaico.core.web.http_protocol import HttpProtocol, RefusalLog
from mosaico.main import create_app
from tests.integration.edge.toy_things import NOWHERE, THINGS, ThingStore, toy_app
from tests.support.http import serving
from tests.support.service import Service


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    monkeypatch.setattr(http_protocol, "HEADER_DEADLINE_S", 0.3)
    monkeypatch.setattr(HttpProtocol, "refusals", RefusalLog())
    app = toy_app(NOWHERE, ThingStore())
    with serving(app) as client:
        yield client
    app.state.resources.db.dispose()


def connect(client: httpx.Client) -> socket.socket:
    return socket.create_connection((client.base_url.host, client.base_url.port or 0), timeout=60)


def exchange(client: httpx.Client, request: bytes) -> tuple[bytes, bytes]:
    """Head and body of the answer; the connection must be closed by the server."""
    with closing(connect(client)) as connection:
        connection.sendall(request)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


@pytest.mark.parametrize(
    "header", [b"X-Name: a\x00b", b"X Name: a", b"Content-Length: a", b": empty"], ids=repr
)
def test_malformed_request__is_answered_with_a_problem_document(
    client: httpx.Client, header: bytes
) -> None:
    head, body = exchange(client, b"GET / HTTP/1.1\r\nHost: a\r\n" + header + b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in head
    assert json.loads(body)["type"] == "/problems/malformed-request"


def test_malformed_body__has_one_answer_and_no_traceback(
    client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    """The request has begun when its second chunk turns out to be malformed, and would get 404."""
    head = b"POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    request = head + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nnot a length\r\n"

    answer = b"".join(exchange(client, request))
    client.get("/things")  # the malformed request has ended before this one

    assert answer.count(b"HTTP/1.1 ") == 1
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def test_two_lengths__end_the_connection_after_the_answer(client: httpx.Client) -> None:
    """What follows is another request for a server that reads the other length."""
    head = b"POST /things HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n"
    hidden = b"GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"
    request = head + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden

    assert b"".join(exchange(client, request)).count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("part", [b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b"], ids=repr)
def test_slow_headers__end_the_connection_with_408(client: httpx.Client, part: bytes) -> None:
    head, body = exchange(client, part)
    assert head.startswith(b"HTTP/1.1 408 ")
    assert json.loads(body)["type"] == "/problems/slow-request"


def test_slow_headers__trickled_bytes_do_not_prolong_the_deadline(client: httpx.Client) -> None:
    with closing(connect(client)) as connection:
        connection.settimeout(0.05)
        answer, deadline = b"", time.monotonic() + 60
        while not answer:
            assert time.monotonic() < deadline
            # It never makes a line, and is never malformed.
            connection.sendall(b"G")
            try:
                answer = connection.recv(65536)
            except TimeoutError:
                continue
    assert b" 408 " in answer


def test_slow_headers__second_request_of_a_connection_has_the_deadline_too(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Set once: the server takes the deadline of the second request when it has answered the first.
    monkeypatch.setattr(http_protocol, "HEADER_DEADLINE_S", 3.0)
    complete = f"GET {THINGS}/any/json HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    with closing(connect(client)) as connection:
        connection.sendall(complete)
        first = b""
        while b'{"ok":true}' not in first:  # head and body may come one after the other
            first += connection.recv(65536)
        assert first.startswith(b"HTTP/1.1 200 ")
        connection.sendall(b"GET / HT")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 408 ")


UNREAD_BODY = b"POST /unread HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"


async def answer_without_reading(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("no", status_code=401)(scope, receive, send)


@pytest.fixture
def unread(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A connection whose request is answered, but whose body has not arrived."""
    monkeypatch.setattr(http_protocol, "UNREAD_BODY_DEADLINE_S", 1.0)
    with serving(answer_without_reading) as server, closing(connect(server)) as connection:
        connection.sendall(UNREAD_BODY)
        read_answer(connection)
        yield connection


def read_answer(connection: socket.socket) -> None:
    answer = b""
    while not answer.endswith(b"\r\n\r\nno"):
        part = connection.recv(65536)
        assert part, answer
        answer += part


def is_closed(connection: socket.socket) -> bool:
    """Return whether the server closes the connection before the timeout of the socket."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:  # a reset, because bytes of the body were not read
        return True
    except TimeoutError:
        return False


def test_unread_body__one_byte_does_not_keep_the_connection(unread: socket.socket) -> None:
    unread.sendall(b"a")
    assert is_closed(unread)


def test_unread_body__trickled_bytes_do_not_prolong_the_deadline(unread: socket.socket) -> None:
    unread.settimeout(0.1)
    deadline = time.monotonic() + 60
    with suppress(ConnectionError):
        while not is_closed(unread):
            assert time.monotonic() < deadline
            unread.sendall(b"a")


def test_unread_body__its_end_allows_the_next_request(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "UNREAD_BODY_DEADLINE_S", 60.0)
    with serving(answer_without_reading) as server, closing(connect(server)) as connection:
        for _ in range(2):
            connection.sendall(UNREAD_BODY)
            read_answer(connection)
            connection.sendall(b"a" * 1000)


def test_unread_body__its_end_restarts_the_timeout_of_idle_connections(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "UNREAD_BODY_DEADLINE_S", 60.0)
    monkeypatch.setattr("tests.support.http.IDLE_S", 1)
    with serving(answer_without_reading) as server, closing(connect(server)) as connection:
        connection.sendall(UNREAD_BODY)
        read_answer(connection)
        connection.sendall(b"a" * 1000)
        assert is_closed(connection)


LARGE_ANSWER = b"a" * (16 * 1024 * 1024)  # more than the kernel keeps for both ends of a connection


async def answer_at_length(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(LARGE_ANSWER)(scope, receive, send)


def test_unread_answer__ends_the_connection(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is lost: an orderly end would wait until the client has read it."""
    monkeypatch.setattr(http_protocol, "UNREAD_ANSWER_DEADLINE_S", 0.3)
    ended = threading.Event()

    def record(reason: str, _address: str) -> None:
        if reason == "the answer was not read in time":
            ended.set()

    monkeypatch.setattr(HttpProtocol.refusals, "record", record)
    with serving(answer_at_length) as server, closing(connect(server)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert ended.wait(60)
        received = 0
        with suppress(ConnectionResetError):
            while part := connection.recv(65536):
                received += len(part)
    assert received < len(LARGE_ANSWER)


def test_unread_answer__slow_client_gets_all_of_it(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "UNREAD_ANSWER_DEADLINE_S", 0.2)
    with serving(answer_at_length) as server, closing(connect(server)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received, began = 0, time.monotonic()
        while received < len(LARGE_ANSWER):
            # Slower than the deadline in total, but never without reading for as long.
            time.sleep(0.01)
            part = connection.recv(256 * 1024)
            assert part, received
            received += len(part)
    assert time.monotonic() - began > 0.2


HELD_BODY = b"POST /things HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n" + b" " * 999


def post_until(client: httpx.Client, status: int) -> httpx.Response:
    """The first answer with this status to a small body."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        answer = client.post(THINGS, json={"name": "a", "text": "a" * 600})
        if answer.status_code == status:
            return answer
    raise AssertionError(f"no answer had the status {status}")


def test_held_bodies__those_beyond_the_memory_are_refused_until_others_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bodies without their last byte: nobody knows yet whether they may be sent."""
    monkeypatch.setattr(request_body, "HELD_BYTES_WITHOUT_KEY", 2500)
    app = toy_app(NOWHERE, ThingStore())
    with serving(app) as client:
        with ExitStack() as connections:
            for _ in range(2):
                connections.enter_context(closing(connect(client))).sendall(HELD_BODY)
            refused = post_until(client, 503)
            assert refused.headers["Retry-After"] == "10"
            assert refused.headers["content-type"] == "application/problem+json"
        post_until(client, 201)
    app.state.resources.db.dispose()


def test_connections__one_address_has_a_limit(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "HEADER_DEADLINE_S", 60.0)
    assert client.get(f"{THINGS}/any/json").status_code == 200  # its connection stays open
    monkeypatch.setattr(http_protocol, "CONNECTIONS_PER_ADDRESS", 3)
    with ExitStack() as connections:
        for _ in range(2):
            connections.enter_context(closing(connect(client)))
        with closing(connect(client)) as one_too_many, suppress(ConnectionResetError):
            assert one_too_many.recv(1) == b""
        assert client.get(f"{THINGS}/any/json").status_code == 200


def test_refusal_log__one_record_per_reason_and_interval() -> None:
    refusals = RefusalLog()
    with capture_logs() as records:
        for _ in range(1000):
            refusals.record("malformed request", "127.0.0.1")
        refusals.record("too many connections", "127.0.0.1")
    assert [(record["reason"], record["count"]) for record in records] == [
        ("malformed request", 1),
        ("too many connections", 1),
    ]


def test_held_bodies__requests_with_a_key_have_memory_of_their_own(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_body, "HELD_BYTES_WITHOUT_KEY", 10)
    key = {"Authorization": service.client.headers["Authorization"]}
    with serving(create_app(service.resources)) as client:
        refused = client.post(
            "/login", data={"key": "x" * 20}, headers={"Origin": str(client.base_url)}
        )
        accepted = client.post("/api/v1/agents", json={"id": "a", "name": "Pelican"}, headers=key)
    assert (refused.status_code, accepted.status_code) == (503, 201)
