"""Runs model requests on an event loop of their own, for the threads that compute runs."""

import asyncio
import threading
from functools import cache
from queue import Empty, SimpleQueue
from typing import NamedTuple, Protocol, Self

import anyio

from mosaico.core.http.throttle import MAX_IN_FLIGHT
from mosaico.llm.errors import LlmError
from mosaico.llm.types import BatchResponse, RequestBatch


class BatchCompleter(Protocol):
    """Sends a batch: a `CompletionClient`."""

    async def complete(self, batch: RequestBatch) -> BatchResponse: ...

    async def close(self) -> None: ...


class BatchOutcome(NamedTuple):
    """A batch with its response or its error."""

    batch: RequestBatch
    response: BatchResponse | Exception


class CompletionPool:
    """Sends batches concurrently; their outcomes come in any order.

    Leaving the block cancels all batches at once and does not wait for them: a silent server
    keeps neither a job nor a process from ending.
    """

    def __init__(self, client: BatchCompleter) -> None:
        self._client = client
        self._tasks: set[asyncio.Task[None]] = set()
        self._scopes: set[anyio.CancelScope] = set()
        self._is_closed = False
        # The throttle limits the requests to a server; this limits the batches of one run,
        # including those that wait between two attempts.
        self._slots = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._failed = False
        self._outcomes: SimpleQueue[BatchOutcome] = SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Without `.result()`: see the class.
        asyncio.run_coroutine_threadsafe(self._shut_down(), model_event_loop())

    def submit(self, batch: RequestBatch) -> None:
        """Send a batch as soon as the throttle of the server allows."""
        # The caller is a thread of its own; asyncio objects may be used only in the thread of their
        # loop.
        model_event_loop().call_soon_threadsafe(self._start, batch)

    def take(self, timeout_s: float) -> list[BatchOutcome]:
        """The outcomes since the last call; waits up to `timeout_s` for the first."""
        outcomes = []
        try:
            # One blocking wait, then whatever is there: the caller stores answers in batches.
            outcomes.append(self._outcomes.get(timeout=timeout_s))
            while True:
                outcomes.append(self._outcomes.get_nowait())
        except Empty:
            return outcomes

    def _start(self, batch: RequestBatch) -> None:
        task = asyncio.create_task(self._complete(batch))
        self._tasks.add(task)  # the event loop itself keeps weak references only
        task.add_done_callback(self._tasks.discard)

    async def _complete(self, batch: RequestBatch) -> None:
        if self._is_closed:
            return
        # A scope instead of `task.cancel()`, from which the HTTP library cannot protect itself: it
        # would leave connections open that it is just closing.
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                await self._send(batch)
            finally:
                self._scopes.discard(scope)

    async def _send(self, batch: RequestBatch) -> None:
        async with self._slots:
            # Batches that wait for a slot would otherwise each send a request with the same wrong
            # key.
            if self._failed:  # by an error that every other batch would meet as well
                return
            response: BatchResponse | Exception
            try:
                response = await self._client.complete(batch)
            except Exception as error:  # noqa: BLE001 - raised again by the thread that takes it
                # An `LlmError` concerns this batch only; `error_of_run` has turned the others into
                # AppErrors.
                self._failed = not isinstance(error, LlmError)
                response = error
            self._outcomes.put(BatchOutcome(batch, response))

    async def _shut_down(self) -> None:
        self._is_closed = True
        for scope in list(self._scopes):
            scope.cancel()
        # The tasks must have ended before their connections are closed.
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()


@cache
def _start_model_event_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    # A daemon: an open connection must not keep the process from ending.
    threading.Thread(target=loop.run_forever, name="model requests", daemon=True).start()
    return loop


_START = threading.Lock()


def model_event_loop() -> asyncio.AbstractEventLoop:
    """The event loop of this process for model requests.

    One for all runs, so that they share the throttle of each server.
    """
    with _START:  # two threads may ask first at the same time
        return _start_model_event_loop()
