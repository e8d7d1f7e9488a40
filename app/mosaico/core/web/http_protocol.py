"""The HTTP/1.1 protocol of the server: what uvicorn lacks and a service needs with and without a proxy.

A deadline for headers, a limit of connections per address, the end of a connection whose request has two lengths, and
problem documents for malformed requests. Deadlines of bodies and responses, and compression, are the task of the proxy
in front of the service (docs/network.md).
"""

import asyncio
import logging
from collections import Counter
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from mosaico.core.errors import AppError
from mosaico.core.ids import new_id
from mosaico.core.problem_documents import (
    REQUEST_ID,
    MalformedRequest,
    SlowRequest,
    problem_response,
)
from mosaico.core.web.client_network import NO_PROXIES, TrustedProxies, client_network
from mosaico.core.web.refusal_log import RefusalLog
from mosaico.core.web.response_headers import SECURITY_HEADERS

_ERRORS_ONLY = logging.getLogger("uvicorn.error.connections")
_ERRORS_ONLY.setLevel(logging.ERROR)

# A header is at most 64 KiB, which a slow mobile connection sends in a second.
HEADER_DEADLINE_S = 10.0
# Of each process: half of the files that a process may usually have open.
CONNECTIONS_PER_ADDRESS = 500


class HttpProtocol(H11Protocol):
    """A connection of the API.

    Refuses what the parser cannot read, such as NUL in a header, like any other bad request.
    """

    # Their connections are those of many clients: they are not counted.
    trusted_proxies: ClassVar[TrustedProxies] = NO_PROXIES
    connections_by_network: ClassVar[Counter[str]] = Counter()
    refusals: ClassVar[RefusalLog] = RefusalLog("connection refused")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # Its warnings are one record per malformed request; `refusals` counts them instead.
        self.logger = _ERRORS_ONLY
        self._header_deadline: asyncio.TimerHandle | None = None
        self._address = ""
        self._counted_network: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        if not self.trusted_proxies.trusts(self._address):
            network = client_network(self._address)
            # Refused connections are not counted: those of one flood would keep the address out until they
            # are closed.
            if self.connections_by_network[network] >= CONNECTIONS_PER_ADDRESS:
                self.refusals.record("too many connections of one address", self._address)
                # Without an answer: a client with so many connections would have to read each.
                transport.abort()
                return
            self.connections_by_network[network] += 1
            self._counted_network = network
        self._start_header_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_header_deadline()
        network, self._counted_network = self._counted_network, None
        if network is not None:
            self.connections_by_network[network] -= 1
            # Addresses without connections must not fill the memory.
            if self.connections_by_network[network] <= 0:
                del self.connections_by_network[network]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._header_deadline is None and self.conn.their_state is h11.IDLE:
            self._start_header_deadline()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_header_deadline()

    def handle_events(self) -> None:
        """Also called for a request that was sent before the answer to the one before it."""
        super().handle_events()
        if self.cycle is not None:
            self._end_after_two_lengths()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the text of uvicorn
        """Send the problem document and close the connection."""
        self._stop_header_deadline()
        self.refusals.record("malformed request", self._address)
        if self.cycle is not None:
            # The request whose body is malformed still runs: its answer must not follow this one.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._send_problem(MalformedRequest())

    def _end_after_two_lengths(self) -> None:
        names = {name for name, _ in self.cycle.scope["headers"]}
        if {b"content-length", b"transfer-encoding"} <= names:
            # RFC 9112, section 6.1: a proxy that reads the other length sees another request in the rest.
            self.cycle.keep_alive = False

    def _start_header_deadline(self) -> None:
        self._header_deadline = self.loop.call_later(HEADER_DEADLINE_S, self._end_slow_request)

    def _stop_header_deadline(self) -> None:
        if self._header_deadline is not None:
            self._header_deadline.cancel()
            self._header_deadline = None

    def _end_slow_request(self) -> None:
        self._header_deadline = None
        if self.transport.is_closing() or self.conn.their_state is not h11.IDLE:
            return
        self.refusals.record("headers did not arrive in time", self._address)
        detail = f"The headers did not arrive within {HEADER_DEADLINE_S:g} s; send them at once."
        self._send_problem(SlowRequest(detail))

    def _send_problem(self, error: AppError) -> None:
        response_id = new_id()
        response = problem_response(error, request_id=response_id)
        response.headers.update(
            {REQUEST_ID: response_id, "Connection": "close", **SECURITY_HEADERS}
        )
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            start = h11.Response(status_code=response.status_code, headers=response.raw_headers)
            for event in (start, h11.Data(data=bytes(response.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
