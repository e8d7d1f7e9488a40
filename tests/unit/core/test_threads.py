"""Work in threads: order, heartbeats, and exceptions."""

import threading
from collections.abc import Generator

import pytest

from mosaico.core.http.threads import run_in_thread, with_heartbeat
from mosaico.core.http.throttle import Cancelled, CancelToken
from tests.support.waiting import LIVENESS_S


def test_with_heartbeat__yields_items_in_order_and_none_while_waiting() -> None:
    ready = threading.Event()

    def slow() -> Generator[str, None, None]:
        yield "a"
        ready.wait(LIVENESS_S)
        yield "b"

    items = with_heartbeat(slow(), CancelToken(), heartbeat_s=0.01)
    first_items = list(iter(lambda: next(items), None))
    assert first_items == ["a"]
    assert next(items) is None
    ready.set()
    assert [item for item in items if item is not None] == ["b"]


def test_with_heartbeat__passes_exceptions_to_the_consumer() -> None:
    def broken() -> Generator[str, None, None]:
        yield "a"
        raise ZeroDivisionError("why")

    # Longer than the test: no heartbeat comes before the exception.
    items = with_heartbeat(broken(), CancelToken(), heartbeat_s=30)
    assert next(items) == "a"
    with pytest.raises(ZeroDivisionError, match="why"):
        next(items)


def test_with_heartbeat__closing_ends_the_waits_of_the_producer() -> None:
    stop, ended = CancelToken(), threading.Event()

    def waiting() -> Generator[str, None, None]:
        try:
            stop.pause(3_600)
            yield "never"
        finally:
            ended.set()

    items = with_heartbeat(waiting(), stop, heartbeat_s=0.01)
    assert next(items) is None
    items.close()  # type: ignore[attr-defined]
    assert ended.wait(LIVENESS_S)


def test_with_heartbeat__closing_closes_an_idle_producer() -> None:
    closed: list[bool] = []

    def one() -> Generator[str, None, None]:
        try:
            yield "a"
        finally:
            closed.append(True)

    items = with_heartbeat(one(), CancelToken(), heartbeat_s=30)
    assert next(items) == "a"
    items.close()  # type: ignore[attr-defined]
    assert closed == [True]


def test_cancel_token__pause_ends_by_time_or_by_cancel() -> None:
    stop = CancelToken()
    stop.pause(0.001)
    stop.set()
    with pytest.raises(Cancelled):
        stop.pause(3_600)


def test_run_in_thread__thread_is_a_daemon() -> None:
    assert run_in_thread(lambda: threading.current_thread().daemon).result(30) is True
