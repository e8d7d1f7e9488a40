"""Connections that never send a complete request, and requests that are not HTTP."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import httpx
import pytest

from mosaico.core.network_policy import parse_networks
from mosaico.core.web import http_protocol, request_body
from mosaico.core.web.client_network import TrustedProxies
from mosaico.core.web.http_protocol import HttpProtocol
from mosaico.core.web.refusal_log import RefusalLog
from mosaico.main import create_app
from tests.integration.edge.toy_things import NOWHERE, THINGS, ThingStore, toy_app
from tests.support.http import serving
from tests.support.service import Service
from tests.support.waiting import LIVENESS_S


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    monkeypatch.setattr(http_protocol, "HEADER_DEADLINE_S", 0.3)
    monkeypatch.setattr(HttpProtocol, "refusals", RefusalLog("connection refused"))
    app = toy_app(NOWHERE, ThingStore())
    with serving(app) as client:
        yield client
    app.state.resources.db.dispose()


def connect(client: httpx.Client) -> socket.socket:
    return socket.create_connection(
        (client.base_url.host, client.base_url.port or 0), timeout=LIVENESS_S
    )


def exchange(client: httpx.Client, request: bytes) -> tuple[bytes, bytes]:
    """Head and body of the answer; the connection must be closed by the server."""
    with closing(connect(client)) as connection:
        connection.sendall(request)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


@pytest.mark.parametrize(
    "request_head",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\nX-Name: a\x00b",
        b"GET / HTTP/1.1\r\nHost: a\r\nX Name: a",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: a",
        b"GET / HTTP/1.1\r\nHost: a\r\n: empty",
        b"GET /\x00 HTTP/1.1\r\nHost: a",
        b"GET / HTTP/1.1",
        # The beginning of a TLS connection.
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=repr,
)
def test_malformed_request__is_answered_with_a_problem_document(
    client: httpx.Client, request_head: bytes
) -> None:
    head, body = exchange(client, request_head + b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in head
    assert b"x-request-id" in head.lower()
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
    # Sent together with a request before it, the last one stays unanswered as well.
    first = b"GET /things HTTP/1.1\r\nHost: a\r\n\r\n"
    assert b"".join(exchange(client, first + request)).count(b"HTTP/1.1 ") == 2


@pytest.mark.parametrize("part", [b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b"], ids=repr)
def test_slow_headers__end_the_connection_with_408(client: httpx.Client, part: bytes) -> None:
    head, body = exchange(client, part)
    assert head.startswith(b"HTTP/1.1 408 ")
    assert json.loads(body)["type"] == "/problems/slow-request"


def test_slow_headers__trickled_bytes_do_not_prolong_the_deadline(client: httpx.Client) -> None:
    with closing(connect(client)) as connection:
        connection.settimeout(0.05)
        answer, deadline = b"", time.monotonic() + LIVENESS_S
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


HELD_BODY = b"POST /things HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n" + b" " * 999


def post_until(client: httpx.Client, status: int) -> httpx.Response:
    """The first answer with this status to a small body."""
    deadline = time.monotonic() + LIVENESS_S
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


def test_connections__a_trusted_proxy_has_no_limit(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections are those of many clients."""
    proxies = TrustedProxies(parse_networks("127.0.0.0/8"))
    monkeypatch.setattr(HttpProtocol, "trusted_proxies", proxies)
    monkeypatch.setattr(http_protocol, "CONNECTIONS_PER_ADDRESS", 1)
    with ExitStack() as connections:
        for _ in range(3):
            connections.enter_context(closing(connect(client)))
        assert client.get(f"{THINGS}/any/json").status_code == 200


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
