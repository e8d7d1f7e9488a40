"""The one way out: every HTTP call to somebody else's server is made by a client from here.

Refused: other schemes than http and https, user names in the URL, and every address that the
policy of the operator does not let through, in whatever form it is written: names are resolved
here, every answer is checked, and the checked address itself is dialled. Redirects are not
followed and proxies of the environment not used. Each request has one deadline from the first byte
to the last and a cap on what is read, counted after decompression.
"""

import base64
import ipaddress
import socket
import ssl
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.metadata import version
from threading import Thread
from typing import Any, Protocol

import httpcore
import httpx

from app.core.correlation import outbound_headers
from app.core.errors import Invalid
from app.core.http.network_policy import HTTPS_PORT, PUBLIC_ONLY, IPAddress, OutboundPolicy

Resolver = Callable[[str, int], Sequence[IPAddress]]
SocketOption = (
    tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
)

USER_AGENT = f"mosaico/{version('mosaico')}"
MAX_CONNECTIONS = 20
PIECE = 64 * 1024
MASK = "[redacted]"


class RefusedAddress(Invalid):
    """This service does not call that address; use a public server, or have it allowed."""

    code = "refused-address"


class AnswerTooLarge(Invalid):
    """The server answered with more than this service reads; ask it for less at once."""

    code = "answer-too-large"


_deadline: ContextVar[float | None] = ContextVar("outbound_deadline", default=None)


def resolved(host: str, port: int) -> Sequence[IPAddress]:
    """All addresses of a name, as the resolver of this machine has them."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError(f"the name {host!r} cannot be resolved: {error}") from error
    return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]


def outbound_client(
    *,
    timeout_s: float,
    max_bytes: int,
    policy: OutboundPolicy = PUBLIC_ONLY,
    resolve: Resolver = resolved,
) -> httpx.Client:
    """A client for one server: `timeout_s` bounds each whole request, `max_bytes` each answer.

    `policy` is the operator's: `Resources.outbound`.
    Raises, from its requests: `RefusedAddress`, `AnswerTooLarge`, and `httpx.TransportError`
    (`httpx.TimeoutException` past the deadline).
    """
    network = CheckedNetwork(policy, resolve)
    return OutboundClient(
        transport=GuardedTransport(timeout_s=timeout_s, max_bytes=max_bytes, network=network),
        timeout=timeout_s,
        follow_redirects=False,
        trust_env=False,
        headers={"User-Agent": USER_AGENT, "Accept-Encoding": "gzip", **outbound_headers()},
    )


def without_credentials(text: str, request: httpx.Request) -> str:
    """What a server said, without what it was sent to be trusted, should it repeat that."""
    sent = request.headers.get("authorization", "").partition(" ")[2]
    for secret in (sent, *_pair_in(sent), request.headers.get("x-api-key")):
        text = text.replace(secret, MASK) if secret else text
    return text


def own_service_client(url: str, *, key: str | None, timeout_s: float) -> httpx.Client:
    """The command line's client for the service itself, which may well be on this machine.

    Unlike `outbound_client` it goes where its user says: the address is the user's own choice.
    """
    return httpx.Client(
        base_url=url,
        timeout=timeout_s,
        verify=_certificates() if url.lower().startswith("https:") else False,
        follow_redirects=False,
        trust_env=False,
        headers={
            "User-Agent": USER_AGENT,
            **({"Authorization": f"Bearer {key}"} if key is not None else {}),
        },
    )


class OutboundClient(httpx.Client):
    """Tells of a URL that cannot even be read as of any other that is not called."""

    def build_request(self, *args: Any, **given: Any) -> httpx.Request:
        try:
            return super().build_request(*args, **given)
        except httpx.InvalidURL as error:
            raise RefusedAddress(
                f"The URL cannot be read ({error}); write it as https://server.example."
            ) from None


class GuardedTransport(httpx.HTTPTransport):
    """Checks what goes out and bounds what comes back."""

    def __init__(
        self, *, timeout_s: float, max_bytes: int, network: httpcore.NetworkBackend
    ) -> None:
        super().__init__(verify=_certificates(), trust_env=False)
        self._pool = httpcore.ConnectionPool(
            ssl_context=_certificates(),
            max_connections=MAX_CONNECTIONS,
            keepalive_expiry=5.0,
            network_backend=network,
        )
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        check_url(request.url)
        ends_at = time.monotonic() + self._timeout_s
        with _until(ends_at):
            response = super().handle_request(request)
        assert isinstance(response.stream, httpx.SyncByteStream)
        encoding = response.headers.get("content-encoding", "identity").lower()
        body = BoundedStream(
            response.stream, ends_at=ends_at, max_bytes=self._max_bytes, encoding=encoding
        )
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
    """A body that ends in an error past its deadline or its size, decompressed on the way."""

    def __init__(
        self, inner: httpx.SyncByteStream, *, ends_at: float, max_bytes: int, encoding: str
    ) -> None:
        self._inner = inner
        self._ends_at = ends_at
        self._max_bytes = max_bytes
        self._encoding = encoding

    def __iter__(self) -> Iterator[bytes]:
        left = self._max_bytes
        for piece in self._decoded():
            left -= len(piece)
            if left < 0:
                raise AnswerTooLarge(
                    f"The server answered with more than {self._max_bytes} bytes;"
                    " ask it for less at once."
                )
            yield piece

    def close(self) -> None:
        self._inner.close()

    def _decoded(self) -> Iterator[bytes]:
        if self._encoding == "identity":
            return self._raw()
        if self._encoding in ("gzip", "x-gzip"):
            return _gunzip(self._raw())
        raise httpx.DecodingError(
            f"the server answered in the encoding {self._encoding[:40]!r}, which was not asked for"
        )

    def _raw(self) -> Iterator[bytes]:
        pieces = iter(self._inner)
        while True:
            with _until(self._ends_at):
                piece = next(pieces, None)
            if piece is None:
                return
            yield piece


class CheckedNetwork(httpcore.NetworkBackend):
    """Dials only addresses that were checked, and gives up at the deadline of the request."""

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
        answer = asked(host, port, self._policy, self._resolve)
        try:
            addresses = answer.result(_remaining(timeout))
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(f"the name {host!r} was not resolved in time") from error
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

    def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ARG002 - the signature of the port
        socket_options: Iterable[SocketOption] | None = None,  # noqa: ARG002 - the same
    ) -> httpcore.NetworkStream:
        raise httpcore.ConnectError(f"no sockets of this machine: {path!r}")

    def sleep(self, seconds: float) -> None:
        self._network.sleep(seconds)


class DeadlineStream(httpcore.NetworkStream):
    """A connection whose every wait ends with the request that it serves."""

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
        secured = self._stream.start_tls(ssl_context, server_hostname, _remaining(timeout))
        return DeadlineStream(secured)

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)


class Target(Protocol):
    """The URL of a request, whichever client makes it."""

    @property
    def scheme(self) -> str: ...
    @property
    def userinfo(self) -> bytes: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int | None: ...


def check_url(url: Target) -> None:
    """Raise `RefusedAddress` for what no client of this service may call."""
    if url.scheme not in ("http", "https"):
        raise RefusedAddress(f"{url.scheme[:20]!r} is not called; use an http or https URL.")
    if url.userinfo:
        raise RefusedAddress("The URL holds a user name or password; give them separately.")
    if not url.host:
        raise RefusedAddress("The URL names no server; write it as https://server.example.")
    # The policy decides by port, so a port of encrypted servers must not get plain text.
    if url.scheme == "http" and url.port == HTTPS_PORT:
        raise RefusedAddress(f"Port {HTTPS_PORT} is not called without encryption; use https.")


def checked_addresses(
    host: str, port: int, policy: OutboundPolicy, resolve: Resolver = resolved
) -> Sequence[IPAddress]:
    """The addresses of a name; raises `RefusedAddress` when any of them may not be called."""
    addresses = resolve(host, port)
    for address in addresses:
        fault = policy.fault(address, port)
        if fault is not None:
            raise RefusedAddress(f"{host} is at {address}: {fault}.")
    return addresses


def asked(
    host: str, port: int, policy: OutboundPolicy, resolve: Resolver
) -> Future[Sequence[IPAddress]]:
    """What `checked_addresses` will say: the resolver of the machine takes no deadline, so it is
    asked in a thread that keeps nobody waiting, not even the end of the process.
    """
    answer = Future[Sequence[IPAddress]]()
    answer.set_running_or_notify_cancel()

    def ask() -> None:
        try:
            answer.set_result(checked_addresses(host, port, policy, resolve))
        except Exception as error:  # noqa: BLE001 - raised where the answer is waited for
            answer.set_exception(error)

    Thread(target=ask, name="resolver", daemon=True).start()
    return answer


def _pair_in(credentials: str) -> tuple[str, ...]:
    """User and password together, and the password alone, of basic credentials (RFC 7617)."""
    try:
        pair = base64.b64decode(credentials, validate=True).decode()
    except ValueError:
        return ()
    return pair, pair.partition(":")[2]


def is_refused_certificate(error: BaseException) -> bool:
    """Whether a request failed because the server's certificate is not trusted: trying again does
    not help.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


@cache
def _certificates() -> ssl.SSLContext:
    """Reading them takes longer than most requests; `SSL_CERT_FILE` names others."""
    return httpx.create_ssl_context()


def _gunzip(pieces: Iterator[bytes]) -> Iterator[bytes]:
    decoder = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    begun = False  # no byte at all is an empty answer, such as that of a 204
    try:
        for piece in pieces:
            begun = True
            yield decoder.decompress(piece, PIECE)
            while decoder.unconsumed_tail:
                yield decoder.decompress(decoder.unconsumed_tail, PIECE)
            if decoder.unused_data:  # the decoder would keep it all, beyond any cap
                raise httpx.DecodingError("the server's gzip goes on after its end")
    except zlib.error as error:
        raise httpx.DecodingError(f"the server's gzip is broken: {error}") from error
    if begun and not decoder.eof:
        raise httpx.DecodingError("the server's gzip ends too early")


def _remaining(timeout: float | None) -> float | None:
    ends_at = _deadline.get()
    if ends_at is None:
        return timeout
    left = ends_at - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("the whole request took too long")
    return left if timeout is None else min(left, timeout)


@contextmanager
def _until(ends_at: float) -> Iterator[None]:
    token = _deadline.set(ends_at)
    try:
        yield
    finally:
        _deadline.reset(token)
