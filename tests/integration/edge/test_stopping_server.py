"""The server of the tests: what it leaves open would fail whichever test comes later."""

import gc
import socket
import sys

import pytest
from starlette.types import Receive, Scope, Send

from tests.support.http import serving


async def answer_nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that gets no request."""


def test_serving__connections_of_its_last_moment_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Connections of earlier tests are not counted.
    gc.collect()
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: unraisable.append(args.exc_value))
    # Few attempts meet the last moment.
    for _ in range(30):
        with serving(answer_nothing) as client:
            address = (client.base_url.host, client.base_url.port)
            connections = [socket.create_connection(address) for _ in range(7)]
        for connection in connections:
            connection.close()
    gc.collect()
    assert unraisable == []
