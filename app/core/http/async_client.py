"""The way out for clients that are async: the SDKs of models, tools over HTTP.

What is refused is decided by `app.core.http.client`: here the same addresses are checked and dialled, for
clients of httpx2. Redirects are not followed and proxies of the environment not used.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import cache
from typing import Final

import httpcore
import httpcore2
import httpx2

from app.core.correlation import outbound_headers
from app.core.http.client import (
    MAX_CONNECTIONS,
    USER_AGENT,
    AnswerTooLarge,
    Resolver,
    SocketOption,
    asked,
    check_url,
    resolved,
)
from app.core.http.network_policy import PUBLIC_ONLY, OutboundPolicy

KEEPALIVE_S: Final = 5.0


def outbound_async_client(
    *,
    timeout_s: float,
    max_bytes: int,
    policy: OutboundPolicy = PUBLIC_ONLY,
    resolve: Resolver = resolved,
) -> httpx2.AsyncClient:
    """A client for one server: `timeout_s` bounds each whole request, `max_bytes` each answer.

    `policy` is the operator's: `Resources.outbound`.
    Raises, from its requests: `RefusedAddress`, `AnswerTooLarge`, and `httpx2.TransportError`
    (`httpx2.TimeoutException` past the deadline).
    """
    network = CheckedAsyncNetwork(policy, resolve)
    return httpx2.AsyncClient(
        transport=GuardedAsyncTransport(timeout_s=timeout_s, max_bytes=max_bytes, network=network),
        timeout=timeout_s,
        follow_redirects=False,
        trust_env=False,
        # Nothing is decompressed, so nothing can grow on the way.
        headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity", **outbound_headers()},
    )


class GuardedAsyncTransport(httpx2.AsyncHTTPTransport):
    """Checks what goes out and bounds what comes back."""

    def __init__(
        self, *, timeout_s: float, max_bytes: int, network: httpcore2.AsyncNetworkBackend
    ) -> None:
        super().__init__(verify=certificates(), trust_env=False)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=certificates(),
            max_connections=MAX_CONNECTIONS,
            keepalive_expiry=KEEPALIVE_S,
            network_backend=network,
        )
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        check_url(request.url)
        ends_at = asyncio.get_running_loop().time() + self._timeout_s
        async with _until(ends_at):
            response = await super().handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = BoundedAsyncStream(
            response.stream, ends_at=ends_at, max_bytes=self._max_bytes
        )
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding != "identity":
            await response.aclose()
            raise httpx2.DecodingError(
                f"the server answered in the encoding {encoding[:40]!r}, which was not asked for"
            )
        return response


class BoundedAsyncStream(httpx2.AsyncByteStream):
    """A body that ends in an error past its deadline or its size."""

    def __init__(self, inner: httpx2.AsyncByteStream, *, ends_at: float, max_bytes: int) -> None:
        self._inner = inner
        self._ends_at = ends_at
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left, pieces = self._max_bytes, self._inner.__aiter__()
        while True:
            async with _until(self._ends_at):
                piece = await anext(pieces, None)
            if piece is None:
                return
            left -= len(piece)
            if left < 0:
                raise AnswerTooLarge(
                    f"The server answered with more than {self._max_bytes} bytes;"
                    " ask it for less at once."
                )
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


class CheckedAsyncNetwork(httpcore2.AsyncNetworkBackend):
    """Dials only addresses that were checked."""

    def __init__(self, policy: OutboundPolicy, resolve: Resolver) -> None:
        self._network = httpcore2.AnyIOBackend()
        self._policy = policy
        self._resolve = resolve

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of the port
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            addresses = await asyncio.wrap_future(asked(host, port, self._policy, self._resolve))
        except httpcore.ConnectError as error:
            raise httpcore2.ConnectError(str(error)) from error
        failure: Exception | None = None
        for address in addresses:
            try:
                return await self._network.connect_tcp(
                    str(address), port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore2.ConnectError(f"no address for {host!r}")

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 - the signature of the port
        socket_options: Iterable[SocketOption] | None = None,  # noqa: ARG002 - the same
    ) -> httpcore2.AsyncNetworkStream:
        raise httpcore2.ConnectError(f"no sockets of this machine: {path!r}")

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)


@cache
def certificates() -> ssl.SSLContext:
    """Reading them takes longer than most requests; all clients of a process share them."""
    return httpx2.create_ssl_context()


@asynccontextmanager
async def _until(ends_at: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout_at(ends_at):
            yield
    except TimeoutError:
        raise httpx2.ReadTimeout("the whole request took too long") from None
