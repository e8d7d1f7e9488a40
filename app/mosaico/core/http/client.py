"""Outbound HTTP client: every synchronous call to another server is made by a client from here.

The network policy checks each resolved address, and the client connects to a checked address.
Redirects are not followed, proxies of the environment not used. Each request has one deadline from
its first byte to the last and a size limit that counts decompressed bytes.
"""

import base64
import ssl
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Protocol

import httpcore
import httpx

from mosaico.core.correlation import outbound_headers
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
    RefusedAddress,
    Resolver,
    UnresolvedName,
    check_url,
    resolve_in_background,
    resolve_name,
)

SocketOption = (
    tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
)

CHUNK_BYTES: Final = 64 * 1024
MASK: Final = "[redacted]"

# httpcore passes the network layer a timeout per operation; the deadline of the whole request
# reaches it through this variable.
_deadline: ContextVar[float | None] = ContextVar("outbound_deadline", default=None)


def outbound_client(
    *,
    timeout_s: float,
    max_bytes: int,
    policy: OutboundPolicy = PUBLIC_ONLY,
    resolve: Resolver = resolve_name,
) -> httpx.Client:
    """A client for one server.

    `timeout_s` bounds each whole request, `max_bytes` each response; `policy` is
    `Resources.outbound`.
    Raises, from its requests: `RefusedAddress`, `OversizedResponse`, and `httpx.TransportError`
    (`httpx.TimeoutException` past the deadline).
    """
    network = GuardedNetwork(policy, resolve)
    return OutboundClient(
        transport=GuardedTransport(timeout_s=timeout_s, max_bytes=max_bytes, network=network),
        timeout=timeout_s,
        follow_redirects=False,
        trust_env=False,
        headers={"User-Agent": USER_AGENT, "Accept-Encoding": "gzip", **outbound_headers()},
    )


def own_service_client(url: str, *, key: str | None, timeout_s: float) -> httpx.Client:
    """The command line's client for the service itself.

    It has no network policy: the user chose the address, and the service often runs on the same
    machine.
    """
    return httpx.Client(**_own_service_options(url, key, timeout_s))


def own_service_async_client(url: str, *, key: str | None, timeout_s: float) -> httpx.AsyncClient:
    """The client of `own_service_client` for async code."""
    return httpx.AsyncClient(**_own_service_options(url, key, timeout_s))


def _own_service_options(url: str, key: str | None, timeout_s: float) -> dict[str, Any]:
    return {
        "base_url": url,
        "timeout": timeout_s,
        # Loading the certificate authorities takes longer than a request; plain HTTP needs none.
        "verify": tls_context() if url.lower().startswith("https:") else False,
        "follow_redirects": False,
        "trust_env": False,
        "headers": {
            "User-Agent": USER_AGENT,
            **({"Authorization": f"Bearer {key}"} if key is not None else {}),
        },
    }


class SentRequest(Protocol):
    """A request of either HTTP client."""

    @property
    def headers(self) -> Mapping[str, str]: ...


def redact_credentials(text: str, request: SentRequest) -> str:
    """A server's message without the credentials of the request, which some servers repeat."""
    credentials = request.headers.get("authorization", "").partition(" ")[2]
    api_key = request.headers.get("x-api-key")
    for secret in (credentials, *_decode_basic(credentials), api_key):
        text = text.replace(secret, MASK) if secret else text
    return text


def _decode_basic(credentials: str) -> tuple[str, ...]:
    """`user:password` and the password of basic credentials (RFC 7617); empty for other schemes."""
    try:
        pair = base64.b64decode(credentials, validate=True).decode()
    except ValueError:
        return ()
    return pair, pair.partition(":")[2]


class OutboundClient(httpx.Client):
    """Raises `RefusedAddress` for malformed URLs too, and frees responses as soon as they are dropped."""

    def send(
        self, request: httpx.Request, *, stream: bool = False, **options: Any
    ) -> httpx.Response:
        response = super().send(request, stream=stream, **options)
        if not stream:
            # The stream refers back to the response. In this cycle each read body would wait for the
            # garbage collector, which visits old objects rarely: a worker that reads a million
            # traces grew by 150 MiB.
            response.stream = httpx.ByteStream(b"")
        return response

    def build_request(self, *args: Any, **kwargs: Any) -> httpx.Request:
        try:
            return super().build_request(*args, **kwargs)
        except httpx.InvalidURL as error:
            raise RefusedAddress(
                f"The URL is malformed ({error}); write it as https://server.example."
            ) from None


class GuardedTransport(httpx.HTTPTransport):
    """Checks each URL, and bounds time and size of each response."""

    def __init__(
        self, *, timeout_s: float, max_bytes: int, network: httpcore.NetworkBackend
    ) -> None:
        super().__init__(verify=tls_context(), trust_env=False)
        # HTTPTransport has no parameter for the network backend, so that its pool is replaced.
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls_context(),
            max_connections=MAX_CONNECTIONS,
            keepalive_expiry=KEEPALIVE_S,
            network_backend=network,
        )
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        check_url(request.url)
        deadline = time.monotonic() + self._timeout_s
        with _request_deadline(deadline):
            response = super().handle_request(request)
        assert isinstance(response.stream, httpx.SyncByteStream)
        encoding = response.headers.get("content-encoding", "identity").lower()
        body = BoundedStream(
            response.stream, deadline=deadline, max_bytes=self._max_bytes, encoding=encoding
        )
        # The body is decompressed here, so that httpx must not decompress it again.
        headers = [
            (name, value)
            for name, value in response.headers.raw
            if encoding == "identity"
            or name.lower() not in (b"content-encoding", b"content-length")
        ]
        return httpx.Response(
            response.status_code, headers=headers, stream=body, extensions=response.extensions
        )


class BoundedStream(httpx.SyncByteStream):
    """A decompressed response body that raises past its deadline or its size."""

    def __init__(
        self, inner: httpx.SyncByteStream, *, deadline: float, max_bytes: int, encoding: str
    ) -> None:
        self._inner = inner
        self._deadline = deadline
        self._max_bytes = max_bytes
        self._encoding = encoding

    def __iter__(self) -> Iterator[bytes]:
        size = SizeCounter(self._max_bytes)
        return map(size.add, self._decoded())

    def close(self) -> None:
        self._inner.close()

    def _decoded(self) -> Iterator[bytes]:
        if self._encoding == "identity":
            return self._raw()
        if self._encoding in ("gzip", "x-gzip"):
            return _gunzip(self._raw())
        raise httpx.DecodingError(unrequested_encoding_message(self._encoding))

    def _raw(self) -> Iterator[bytes]:
        chunks = iter(self._inner)
        while True:
            with _request_deadline(self._deadline):
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield chunk


class GuardedNetwork(httpcore.NetworkBackend):
    """Connects to allowed addresses only, within the deadline of the request."""

    def __init__(self, policy: OutboundPolicy, resolve: Resolver) -> None:
        self._network = httpcore.SyncBackend()
        self._policy = policy
        self._resolve = resolve

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore.NetworkStream:
        options = list(socket_options or ())
        failure: httpcore.NetworkError | httpcore.TimeoutException | None = None
        resolving = resolve_in_background(host, port, self._policy, self._resolve)
        try:
            addresses = resolving.result(_remaining(timeout))
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(f"the name {host!r} was not resolved in time") from error
        except UnresolvedName as error:
            raise httpcore.ConnectError(str(error)) from error
        for address in addresses:
            try:
                stream = self._network.connect_tcp(
                    str(address), port, _remaining(timeout), local_address, options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return DeadlineStream(stream)
        raise failure or httpcore.ConnectError(f"no address for {host!r}")


class DeadlineStream(httpcore.NetworkStream):
    """A connection whose reads and writes end at the deadline of the current request."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _remaining(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _remaining(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        encrypted = self._stream.start_tls(ssl_context, server_hostname, _remaining(timeout))
        return DeadlineStream(encrypted)

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)


def _gunzip(chunks: Iterator[bytes]) -> Iterator[bytes]:
    # At most CHUNK_BYTES are decompressed at once, so that the size limit stops a gzip bomb.
    decoder = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    has_content = False  # an empty body, as of a 204, is not a truncated one
    try:
        for chunk in chunks:
            has_content = True
            yield decoder.decompress(chunk, CHUNK_BYTES)
            while decoder.unconsumed_tail:
                yield decoder.decompress(decoder.unconsumed_tail, CHUNK_BYTES)
            # The decoder keeps all bytes after the end of the stream, without a limit.
            if decoder.unused_data:
                raise httpx.DecodingError("the gzip response has data after its end")
    except zlib.error as error:
        raise httpx.DecodingError(f"the gzip response is malformed: {error}") from error
    if has_content and not decoder.eof:
        raise httpx.DecodingError("the gzip response is truncated")


def _remaining(timeout: float | None) -> float | None:
    deadline = _deadline.get()
    if deadline is None:
        return timeout
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0:
        raise httpcore.ReadTimeout("the whole request took too long")
    return remaining_s if timeout is None else min(remaining_s, timeout)


@contextmanager
def _request_deadline(deadline: float) -> Iterator[None]:
    token = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(token)
