"""The API is killed while exporters send spans: none is lost and none is stored twice."""

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.support.otlp import PROTOBUF, export, span
from tests.support.processes import MASTER_KEY, Program, Programs, programs, until
from tests.support.stored import DatabaseReader
from tests.support.waiting import LIVENESS_S

KEY = "a-key-for-the-killed-exports"
COUNTS = "SELECT (SELECT count(*) FROM otel_traces) || '/' || (SELECT count(*) FROM otel_spans)"
SPANS = 600
# A transaction stops before its last row, as long as somebody holds the lock.
WAIT_IN_TRANSACTION = """
    CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM set_config('lock_timeout', '300s', true);
        PERFORM pg_advisory_xact_lock_shared(hashtextextended('export', 0));
        RETURN NEW;
    END $$
"""
TRIGGER = """
    CREATE TRIGGER wait_for_test BEFORE INSERT ON otel_spans FOR EACH ROW
    WHEN (NEW.name = 'last') EXECUTE FUNCTION wait_for_test()
"""


def start_api(started: Programs, port: int) -> Program:
    api = started.start(
        "api", MOSAICO_PORT=str(port), MOSAICO_ADMIN_KEY=KEY, MOSAICO_LOG_FORMAT="console"
    )

    def answers() -> bool:
        try:
            return httpx.get(
                f"http://127.0.0.1:{port}/readyz", trust_env=False, verify=False
            ).is_success
        except httpx.TransportError:
            assert api.is_running, api.log
            return False

    until(answers, what=api.log)
    return api


def send_until_accepted(port: int, body: bytes, stop: Callable[[], bool]) -> None:
    """Send an export again after each lost connection, 429 and 503, as exporters do."""
    while not stop():
        try:
            response = httpx.post(
                f"http://127.0.0.1:{port}/v1/traces",
                content=body,
                headers={**PROTOBUF, "Authorization": f"Bearer {KEY}"},
                trust_env=False,
                verify=False,
                timeout=LIVENESS_S,
            )
        except httpx.TransportError:
            continue
        assert response.status_code in (200, 429, 503), response.text
        if response.is_success:
            return


@pytest.mark.parametrize("moment", ["receiving", "storing", "answering"])
def test_killed_export__spans_are_stored_exactly_once(
    fresh_database_url: str, tmp_path: Path, moment: str
) -> None:
    names = [*["middle"] * (SPANS - 1), "last"]
    body = export([span(name, trace=f"{n % 7 + 1}") for n, name in enumerate(names)])
    rows = DatabaseReader(fresh_database_url)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with programs(
        tmp_path, DATABASE_URL=fresh_database_url, MOSAICO_MASTER_KEY=MASTER_KEY
    ) as started:
        victim = start_api(started, port)
        if moment == "receiving":
            _send_half(port, body)
            victim.kill()
        elif moment == "storing":
            rows.execute(WAIT_IN_TRANSACTION)
            rows.execute(TRIGGER)
            _kill_while_storing(rows, victim, port, body)
            rows.execute("DROP TRIGGER wait_for_test ON otel_spans")
        else:
            # Stored, but the client never sees the answer. A busy database refuses some attempts.
            def is_stored() -> bool:
                _send_all_and_leave(port, body)
                return bool(rows.value(COUNTS) == f"7/{SPANS}")

            until(is_stored, what=victim.log)
            victim.kill()
        assert rows.value(COUNTS) == (f"7/{SPANS}" if moment == "answering" else "0/0")
        start_api(started, port)
        send_until_accepted(port, body, lambda: False)
    assert rows.value(COUNTS) == f"7/{SPANS}"


def _kill_while_storing(rows: DatabaseReader, victim: Program, port: int, body: bytes) -> None:
    killed = threading.Event()
    client = threading.Thread(target=send_until_accepted, args=(port, body, killed.is_set))
    with rows.locked("export") as lock:
        client.start()
        until(lock.is_awaited, what=victim.log)
        killed.set()
        victim.kill()
        client.join()
        lock.release()


def _request(body: bytes) -> bytes:
    head = (
        "POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-protobuf\r\n"
        f"Authorization: Bearer {KEY}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _send_half(port: int, body: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(_request(body)[: len(body) // 2])


def _send_all_and_leave(port: int, body: bytes) -> None:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(_request(body))
    # Sent before the end of the connection: the receiver has read the body by then.
    connection.shutdown(socket.SHUT_WR)
    connection.close()
