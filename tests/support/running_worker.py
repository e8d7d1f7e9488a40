"""A worker that runs in a thread of the test."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mosaico.jobs.job_runner import Worker


@contextmanager
def running_worker(worker: Worker, *may_end: threading.Event) -> Iterator[None]:
    """Run a worker until the end of the block, which sets the events that its jobs wait for.

    They end first, also when the test fails: the worker waits for them.
    """
    thread = threading.Thread(target=lambda: asyncio.run(worker.run()))
    thread.start()
    try:
        yield
    finally:
        for event in may_end:
            event.set()
        worker.stop()
        thread.join()
