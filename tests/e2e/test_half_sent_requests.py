"""A flood of requests that are never completed, against `mosaico api`."""

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.support.processes import LIVENESS_S, MASTER_KEY, Program, programs, until
from tests.support.serve import free_port

HALF_A_REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: b"
# Of one request while the API starts: a lost one must not take the time of the whole start.
STARTUP_REQUEST_S = 10.0

# One test is longer than 5 s, because it waits for the real deadline of a real process.
pytestmark = pytest.mark.xdist_group("half-sent requests")


@pytest.fixture
def api(fresh_database_url: str, tmp_path: Path) -> Iterator[tuple[Program, int]]:
    port = free_port()
    settings = {"DATABASE_URL": fresh_database_url, "MOSAICO_MASTER_KEY": MASTER_KEY}
    with programs(tmp_path, **settings) as commands:
        api = commands.start("api", MOSAICO_PORT=str(port))
        until(lambda: is_ready(api, port), what="the API answers")
        yield api, port


def is_ready(api: Program, port: int) -> bool:
    assert api.is_running, api.log
    return answer_of(port, timeout_s=STARTUP_REQUEST_S) == 200


def answer_of(port: int, timeout_s: float = LIVENESS_S) -> int:
    """The status of a request; 0 without an answer."""
    with suppress(httpx.HTTPError):
        url = f"http://127.0.0.1:{port}/healthz"
        return httpx.get(url, timeout=timeout_s, trust_env=False).status_code
    return 0


@contextmanager
def half_sent_requests(port: int, count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        connections = []
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", port), timeout=LIVENESS_S)
            connections.append(stack.enter_context(closing(connection)))
            connection.sendall(HALF_A_REQUEST)
        yield connections


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
    api: tuple[Program, int],
) -> None:
    program, port = api
    lines_before = len(program.log.splitlines())
    with half_sent_requests(port, 300) as connections:
        assert [answer_of(port) for _ in range(5)] == [200] * 5

        assert answers_of(connections) == {"408": 300}
    assert len(program.log.splitlines()) - lines_before <= 3
