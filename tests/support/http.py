"""A real HTTP server on loopback for an ASGI application, and a client for it.

A real server is used so that malformed requests reach the same parser as in production.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from starlette.types import ASGIApp

STARTS_WITHIN_S = 60.0


@contextmanager
def serving(
    app: ASGIApp, *, lifespan: bool = False, server_class: type[uvicorn.Server] = uvicorn.Server
) -> Iterator[httpx.Client]:
    """Serve an application in a thread; the client speaks to it until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # asyncio leaves Nagle's algorithm on for sockets that it did not make: 40 ms a request.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        config = uvicorn.Config(
            app,
            log_config=None,
            ws="none",
            lifespan="on" if lifespan else "off",
            timeout_graceful_shutdown=2,
        )
        server = server_class(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            _wait_until_started(server, thread)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            # It meets no certificates; to read those of this machine takes longer than many tests.
            with httpx.Client(base_url=url, trust_env=False, verify=False, timeout=60) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join()


def _wait_until_started(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + STARTS_WITHIN_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("the server did not start; its log says why")
        time.sleep(0.01)
