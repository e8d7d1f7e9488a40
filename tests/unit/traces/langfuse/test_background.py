"""A consumer that is never stuck, and a background that ends with it."""

import threading
from collections.abc import Generator

import pytest

from app.core.http.throttle import Cancelled, CancelToken
from app.traces.sources.langfuse.background import run_in_thread, with_heartbeat


def test_items_come_in_order_and_signs_of_life_while_none_is_ready() -> None:
    ready = threading.Event()

    def slow() -> Generator[str, None, None]:
        yield "a"
        ready.wait(60)
        yield "b"

    found = with_heartbeat(slow(), CancelToken(), heartbeat_s=0.01)
    seen = list(iter(lambda: next(found), None))
    assert seen == ["a"]
    assert next(found) is None
    ready.set()
    assert [item for item in found if item is not None] == ["b"]


def test_what_is_raised_in_the_background_is_raised_to_the_consumer() -> None:
    def broken() -> Generator[str, None, None]:
        yield "a"
        raise ZeroDivisionError("why")

    found = with_heartbeat(broken(), CancelToken(), heartbeat_s=30)
    assert next(found) == "a"
    with pytest.raises(ZeroDivisionError, match="why"):
        next(found)


def test_when_the_consumer_leaves_the_waits_of_the_background_end() -> None:
    stop, ended = CancelToken(), threading.Event()

    def waiting() -> Generator[str, None, None]:
        try:
            stop.pause(3_600)
            yield "never"
        finally:
            ended.set()

    found = with_heartbeat(waiting(), stop, heartbeat_s=0.01)
    assert next(found) is None
    found.close()  # type: ignore[attr-defined]
    assert ended.wait(60)


def test_a_background_that_has_made_an_item_is_closed_with_its_consumer() -> None:
    closed: list[bool] = []

    def one() -> Generator[str, None, None]:
        try:
            yield "a"
        finally:
            closed.append(True)

    found = with_heartbeat(one(), CancelToken(), heartbeat_s=30)
    assert next(found) == "a"
    found.close()  # type: ignore[attr-defined]
    assert closed == [True]


def test_a_pause_ends_by_itself_or_by_the_stop() -> None:
    stop = CancelToken()
    stop.pause(0.001)
    stop.set()
    with pytest.raises(Cancelled):
        stop.pause(3_600)


def test_work_that_nobody_waits_for_does_not_keep_a_process() -> None:
    assert run_in_thread(lambda: threading.current_thread().daemon).result(30) is True
