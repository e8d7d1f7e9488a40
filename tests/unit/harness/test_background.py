"""Background evaluations: results arrive in order, and a closed consumer ends the producer."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from mosaico.harness.background import run_in_background
from mosaico.harness.bash.attempt_runner import OnResult
from tests.support.bash_eval import result, task
from tests.support.waiting import LIVENESS_S

FIRST, SECOND = result(task(task_id="a"), True), result(task(task_id="b"), True)


def test_background__producer_that_cannot_start_raises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A new event loop needs file descriptors: without them the task
    # never starts, and waiting for it would not end.
    def run_out(main: Coroutine[Any, Any, None]) -> None:
        main.close()
        raise OSError("too many open files")

    async def work(report_result: OnResult) -> None:
        report_result(FIRST)

    monkeypatch.setattr(asyncio, "run", run_out)
    with pytest.raises(OSError, match="too many open files"):
        list(run_in_background(work, heartbeat_s=LIVENESS_S))


def test_background__closed_consumer_cancels_producer() -> None:
    ended = threading.Event()

    async def work(report_result: OnResult) -> None:
        report_result(FIRST)
        try:
            await asyncio.sleep(LIVENESS_S)
        finally:
            ended.set()

    pages = run_in_background(work, heartbeat_s=LIVENESS_S)
    assert next(pages) == [FIRST]
    pages.close()
    # `close` waits for the producer, so nothing is asked of a model afterwards.
    assert ended.is_set()
