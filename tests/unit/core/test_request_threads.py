"""The threads of requests: results, errors, context, their number, and requests that are given up."""

import asyncio
import threading
from contextvars import ContextVar

import pytest

from app.core.web.threads import ThreadPool

LIVENESS_S = 300

request_id: ContextVar[str] = ContextVar("request_id")


class Wait:
    """A call that waits until it is released; `begun` counts the calls that run."""

    def __init__(self) -> None:
        self.begun, self.released = threading.Semaphore(0), threading.Event()

    def __call__(self) -> int:
        self.begun.release()
        assert self.released.wait(LIVENESS_S)
        return threading.get_ident()

    async def until_begun(self, calls: int) -> None:
        for _ in range(calls):
            assert await asyncio.to_thread(self.begun.acquire, timeout=LIVENESS_S)


def test_thread__returns_the_result_and_raises_the_error() -> None:
    def divide(number: int, *, by: int) -> float:
        return number / by

    async def compute() -> float:
        pool = ThreadPool(1)
        with pytest.raises(ZeroDivisionError):
            await pool.run(divide, 1, by=0)
        return await pool.run(divide, 1, by=2)

    assert asyncio.run(compute()) == 0.5


def test_thread__has_the_context_of_its_request() -> None:
    async def read(pool: ThreadPool, identifier: str) -> str:
        request_id.set(identifier)
        return await pool.run(request_id.get)

    async def read_all() -> list[str]:
        pool = ThreadPool(2)
        return await asyncio.gather(*(read(pool, name) for name in "abcd"))

    assert asyncio.run(read_all()) == ["a", "b", "c", "d"]


def test_pool__has_at_most_its_number_of_threads() -> None:
    async def run() -> list[int]:
        pool, wait = ThreadPool(3), Wait()
        waiting = [asyncio.create_task(pool.run(wait)) for _ in range(12)]
        await wait.until_begun(3)
        wait.released.set()
        return await asyncio.gather(*waiting)

    assert len(set(asyncio.run(run()))) == 3


def test_pool__uses_an_idle_thread_again() -> None:
    async def run() -> set[int]:
        pool = ThreadPool(5)
        return {await pool.run(threading.get_ident) for _ in range(20)}

    # The second thread: the first one may still be on its way back when the next call comes.
    assert len(asyncio.run(run())) <= 2


def test_call__of_a_request_that_was_given_up_leaves_its_thread_usable() -> None:
    async def run() -> str:
        pool, wait = ThreadPool(1), Wait()
        given_up = asyncio.create_task(pool.run(wait))
        await wait.until_begun(1)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        wait.released.set()
        return await pool.run(lambda: "next")

    assert asyncio.run(run()) == "next"
