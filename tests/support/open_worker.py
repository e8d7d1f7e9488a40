"""A worker that keeps its event loop and its connection from one call to the next."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from procrastinate.exceptions import ConnectorException

from mosaico.core.resources import Resources
from mosaico.jobs.handlers import HANDLERS
from mosaico.jobs.job_runner import Worker
from mosaico.jobs.process_pool import ProcessPool


@dataclass(slots=True)
class OpenWorker:
    """Does the waiting jobs of a service, one at a time, in the thread that made it.

    To open a loop and a connection takes longer than most jobs, and tests wait for thousands.
    """

    thread: int = field(default_factory=threading.get_ident)
    runner: asyncio.Runner | None = None
    draining: AbstractAsyncContextManager[Callable[[], Awaitable[None]]] | None = None
    drain: Callable[[], Awaitable[None]] | None = None
    parts: tuple[Resources, ProcessPool] | None = None

    def work(self, resources: Resources, pool: ProcessPool) -> None:
        if threading.get_ident() != self.thread:
            # A test that works in a thread of its own: the open loop
            # and connection belong to another one.
            asyncio.run(_worker(resources, pool).drain())
            return
        if self.parts is None or self.parts[0] is not resources or self.parts[1] is not pool:
            self._open(resources, pool)
        try:
            self._run(self.drain)
        except ConnectorException:
            # A test ended the sessions of its database.
            self._open(resources, pool)
            self._run(self.drain)

    def close(self) -> None:
        if self.draining is not None:
            leave = self.draining.__aexit__
            self.draining = self.drain = self.parts = None
            self._run(lambda: leave(None, None, None))
        if self.runner is not None:
            self.runner.close()
            self.runner = None

    def _open(self, resources: Resources, pool: ProcessPool) -> None:
        self.close()
        self.runner = asyncio.Runner()
        draining = _worker(resources, pool).draining()
        self.drain = self._run(draining.__aenter__)
        self.draining, self.parts = draining, (resources, pool)

    def _run(self, function: Callable[[], Awaitable[Any]] | None) -> Any:
        assert self.runner is not None
        assert function is not None

        async def call() -> Any:
            return await function()

        return self.runner.run(call())


def _worker(resources: Resources, pool: ProcessPool) -> Worker:
    # A worker of one job goes on with the jobs that it enqueues. A worker of two ends when the second
    # finds nothing to do, and is started again, which takes as long as a job.
    return Worker(resources, HANDLERS, pool, concurrency=1)
