"""The pool of model requests: leaving it ends its batches and leaves nothing open."""

import asyncio
import threading

import anyio

from mosaico.llm.completion_pool import CompletionPool, model_event_loop
from mosaico.llm.types import BatchResponse, RequestBatch
from tests.support.waiting import LIVENESS_S

CONNECTIONS = 3


class ClosingClient:
    """Closes connections like the HTTP library: one after the other, shielded from cancellation."""

    def __init__(self) -> None:
        self.is_closing, self.is_closed = threading.Event(), threading.Event()
        self.closed_connections = 0
        self._may_continue = asyncio.Event()

    async def complete(self, _: RequestBatch) -> BatchResponse:
        with anyio.CancelScope(shield=True):
            for _number in range(CONNECTIONS):
                self.is_closing.set()
                await self._may_continue.wait()
                self.closed_connections += 1
        await asyncio.Event().wait()  # a server that never answers
        raise AssertionError("the request was cancelled")

    async def close(self) -> None:
        self.is_closed.set()

    def release(self) -> None:
        self._may_continue.set()


def test_completion_pool__leaving_it_does_not_interrupt_the_closing_of_connections() -> None:
    client = ClosingClient()
    with CompletionPool(client) as pool:
        pool.submit([])
        assert client.is_closing.wait(LIVENESS_S)
    # After the cancellation, which is scheduled before it.
    model_event_loop().call_soon_threadsafe(client.release)
    assert client.is_closed.wait(LIVENESS_S)
    assert client.closed_connections == CONNECTIONS
