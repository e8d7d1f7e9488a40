"""Outbound HTTP client for async code: the SDKs of model providers, MCP servers over HTTP.

It enforces the same network policy and limits as `mosaico.core.http.client`, for clients of httpx2.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpcore2
import httpx2

from mosaico.core.correlation import outbound_headers
from mosaico.core.http.client import SocketOption
from mosaico.core.http.transport import (
    KEEPALIVE_S,
    MAX_CONNECTIONS,
    USER_AGENT,
    SizeCounter,
    tls_context,
    unrequested_encoding_message,
)
from mosaico.core.network_policy import (
    PUBLIC_ONLY,
    OutboundPolicy,
    Resolver,
    UnresolvedName,
    check_url,
    resolve_in_background,
    resolve_name,
)


def outbound_async_client(
    *,
    timeout_s: float,
    max_bytes: int,
    policy: OutboundPolicy = PUBLIC_ONLY,
    resolve: Resolver = resolve_name,
) -> "ClosingAsyncClient":
    """A client for one server.

    `timeout_s` bounds each whole request, `max_bytes` each response; `policy` is
    `Resources.outbound`.
    Raises, from its requests: `RefusedAddress`, `OversizedResponse`, and `httpx2.TransportError`
    (`httpx2.TimeoutException` past the deadline).
    """
    network = GuardedAsyncNetwork(policy, resolve)
    return ClosingAsyncClient(
        transport=GuardedAsyncTransport(timeout_s=timeout_s, max_bytes=max_bytes, network=network),
        timeout=timeout_s,
        follow_redirects=False,
        trust_env=False,
        # Without compression, the received bytes are the bytes that the size limit counts.
        headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity", **outbound_headers()},
    )


class ClosingAsyncClient(httpx2.AsyncClient):
    """Closes all of its connections, also when its task is cancelled meanwhile.

    The HTTP library closes one after the other: a cancellation would leave the rest open.
    """

    async def aclose(self) -> None:
        await _run_to_end(super().aclose())

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def _run_to_end(work: Coroutine[Any, Any, None]) -> None:
    """Run in a task of its own; a cancellation is raised when it has ended."""
    task = asyncio.create_task(work)
    cancellation: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancellation = error
    task.result()
    if cancellation is not None:
        raise cancellation


class GuardedAsyncTransport(httpx2.AsyncHTTPTransport):
    """Checks each URL, and bounds time and size of each response."""

    def __init__(
        self, *, timeout_s: float, max_bytes: int, network: httpcore2.AsyncNetworkBackend
    ) -> None:
        super().__init__(verify=tls_context(), trust_env=False)
        # AsyncHTTPTransport has no parameter for the network backend, so that its pool is replaced.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls_context(),
            max_connections=MAX_CONNECTIONS,
            keepalive_expiry=KEEPALIVE_S,
            network_backend=network,
        )
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        check_url(request.url)
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        async with _request_deadline(deadline):
            response = await super().handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = BoundedAsyncStream(
            response.stream, deadline=deadline, max_bytes=self._max_bytes
        )
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding != "identity":
            await response.aclose()
            raise httpx2.DecodingError(unrequested_encoding_message(encoding))
        return response


class BoundedAsyncStream(httpx2.AsyncByteStream):
    """A response body that raises past its deadline or its size."""

    def __init__(self, inner: httpx2.AsyncByteStream, *, deadline: float, max_bytes: int) -> None:
        self._inner = inner
        self._deadline = deadline
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, chunks = SizeCounter(self._max_bytes), self._inner.__aiter__()
        while True:
            async with _request_deadline(self._deadline):
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            yield size.add(chunk)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _ClosingStream(httpcore2.AsyncNetworkStream):
    """A TCP connection that is closed when its TLS handshake is cancelled.

    The HTTP library closes it after an error only, and the address of a model server is https.
    """

    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner = inner
        self.read, self.write = inner.read, inner.write  # type: ignore[method-assign] # as they are
        self.get_extra_info = inner.get_extra_info  # type: ignore[method-assign] # the same

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of the base class
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return await self._inner.start_tls(ssl_context, server_hostname, timeout)
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await self._inner.aclose()
            raise


class GuardedAsyncNetwork(httpcore2.AsyncNetworkBackend):
    """Connects to allowed addresses only."""

    def __init__(self, policy: OutboundPolicy, resolve: Resolver) -> None:
        self._network = httpcore2.AnyIOBackend()
        self._policy = policy
        self._resolve = resolve

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of the base class
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        resolving = resolve_in_background(host, port, self._policy, self._resolve)
        try:
            addresses = await asyncio.wrap_future(resolving)
        except UnresolvedName as error:
            raise httpcore2.ConnectError(str(error)) from error
        failure: Exception | None = None
        for address in addresses:
            try:
                stream = await self._network.connect_tcp(
                    str(address), port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
            else:
                return _ClosingStream(stream)
        raise failure or httpcore2.ConnectError(f"no address for {host!r}")


@asynccontextmanager
async def _request_deadline(deadline: float) -> AsyncIterator[None]:
    # Not `asyncio.timeout_at`: the HTTP library shields the closing of its connections from the
    # cancellation of a scope only.
    with anyio.CancelScope(deadline=deadline) as scope:
        yield
    if scope.cancelled_caught:
        raise httpx2.ReadTimeout("the whole request took too long")
