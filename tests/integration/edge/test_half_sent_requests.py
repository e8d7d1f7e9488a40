"""A flood of requests that are never completed."""

import socket
from collections import Counter
from contextlib import ExitStack, closing, suppress

import httpx
import pytest

from mosaico.core.web import http_protocol
from tests.integration.edge.toy_things import NOWHERE, THINGS, ThingStore, toy_app
from tests.support.http import serving
from tests.support.waiting import LIVENESS_S

HALF_A_REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: b"
FLOOD = 300


def send_half(client: httpx.Client) -> socket.socket:
    address = client.base_url.host, client.base_url.port or 0
    connection = socket.create_connection(address, timeout=LIVENESS_S)
    connection.sendall(HALF_A_REQUEST)
    return connection


def answers_of(connections: list[socket.socket]) -> Counter[str]:
    """The status of each connection; empty for those that were closed without an answer."""
    statuses: Counter[str] = Counter()
    for connection in connections:
        head = b""
        with suppress(OSError):
            head = connection.recv(65536)
        statuses[head[9:12].decode()] += 1
    return statuses


def test_half_sent_requests__end_at_the_deadline_and_delay_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_protocol, "HEADER_DEADLINE_S", 2.0)
    app = toy_app(NOWHERE, ThingStore())
    with serving(app) as client, ExitStack() as stack:
        connections = [stack.enter_context(closing(send_half(client))) for _ in range(FLOOD)]

        assert client.get(f"{THINGS}/any/json").status_code == 200

        assert answers_of(connections) == {"408": FLOOD}
        assert client.get(f"{THINGS}/any/json").status_code == 200
    app.state.resources.db.dispose()
