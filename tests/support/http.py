"""A real HTTP server on loopback for an ASGI application, and a client for it.

A real server is used so that malformed requests reach the same parser as in production.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from starlette.types import ASGIApp

from mosaico.core.web.http_protocol import HttpProtocol
from tests.support.waiting import LIVENESS_S

# A busy machine must not end a connection while the client sends its next request.
IDLE_S = 3600


class PromptServer(uvicorn.Server):
    """Uvicorn that stops at once.

    Uvicorn itself looks ten times a second whether it should stop, and then waits a tenth of a
    second: over a thousand tests that is minutes.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop, self._stop_requested = asyncio.get_running_loop(), asyncio.Event()
        await super().startup(sockets=sockets)

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._stop_requested.wait()

    def stop(self) -> None:
        """Stop a started server, from another thread."""
        self._loop.call_soon_threadsafe(self._stop_requested.set)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # A connection takes some turns of the loop from its acceptance to its protocol. A server that is
        # closed meanwhile would leave its socket open.
        for listener in sockets or ():
            self._loop.remove_reader(listener)
        for _ in range(5):
            await asyncio.sleep(0)
        for server in self.servers:
            server.close()
        for listener in sockets or ():
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while self.server_state.connections or self.server_state.tasks:  # noqa: ASYNC110 - uvicorn has no event for it
                    await asyncio.sleep(0.002)
        except TimeoutError:
            for task in self.server_state.tasks:
                task.cancel()
        await self.lifespan.shutdown()


@contextmanager
def serving(
    app: ASGIApp, *, lifespan: bool = False, server_class: type[uvicorn.Server] = PromptServer
) -> Iterator[httpx.Client]:
    """Serve an application in a thread; the client speaks to it until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # asyncio leaves Nagle's algorithm on for sockets that it did not make: 40 ms a request.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        config = uvicorn.Config(
            app,
            http=HttpProtocol,
            log_config=None,
            ws="none",
            proxy_headers=False,
            lifespan="on" if lifespan else "off",
            timeout_graceful_shutdown=2,
            timeout_keep_alive=IDLE_S,
        )
        server = server_class(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            _wait_until_started(server, thread)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            # It meets no certificates; to read those of this machine takes longer than many tests.
            with httpx.Client(
                base_url=url, trust_env=False, verify=False, timeout=LIVENESS_S
            ) as client:
                yield client
        finally:
            if isinstance(server, PromptServer) and server.started:
                server.stop()
            else:
                server.should_exit = True
            thread.join()


def _wait_until_started(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + LIVENESS_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("the server did not start; its log says why")
        time.sleep(0.002)
