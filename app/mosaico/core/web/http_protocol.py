"""The HTTP/1.1 protocol of the server: deadlines for headers, for bodies that nobody reads and for answers
that nobody reads, a limit per address, and problem documents for malformed requests.

Uvicorn has timeouts for idle connections (`timeout_keep_alive`) and a limit on requests in progress
(`limit_concurrency`), but no deadline for a request that has begun and none for a new connection that
sends nothing; the first byte of a body ends its timeout for idle connections, and a connection whose answer
is not read is never closed. It answers malformed requests with plain text and logs each of them.
"""

import asyncio
import logging
import resource
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple

import h11
import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol

from mosaico.core.errors import AppError
from mosaico.core.ids import new_id
from mosaico.core.problem_documents import (
    REQUEST_ID,
    MalformedRequest,
    SlowRequest,
    problem_response,
)
from mosaico.core.web.client_network import client_network
from mosaico.core.web.response_headers import SECURITY_HEADERS

log = structlog.stdlib.get_logger(__name__)
_ERRORS_ONLY = logging.getLogger("uvicorn.error.connections")
_ERRORS_ONLY.setLevel(logging.ERROR)

# A header is at most 64 KiB, which a slow mobile connection sends in a second.
HEADER_DEADLINE_S = 10.0
# Of each process, like the descriptors that it protects. The kernel divides connections unevenly between
# the processes of a port, and so a share of each would be refused too early.
CONNECTIONS_PER_ADDRESS = 1200
# For the rest of a body whose request is answered: a client that still sends would not read the answer.
UNREAD_BODY_DEADLINE_S = 5.0
# A client that reads nothing of its answer for as long would hold its memory, and an unfinished answer what it
# is read from. It begins when the buffer of the connection is full (64 KiB beside that of the kernel).
UNREAD_ANSWER_DEADLINE_S = 30.0
LOG_INTERVAL_S = 10.0
# File descriptors of this process. Some are reserved: for the database, uploads and logs, and for the new
# connections of one turn of the event loop, which are accepted before any of them can be refused.
DESCRIPTORS = 4096
RESERVED_DESCRIPTORS = 256
ACCEPT_BACKLOG = 128
OUT_OF_DESCRIPTORS = "socket.accept() out of system resource"


class ConnectionLimits(NamedTuple):
    """The largest number of open connections of one address, and of all together."""

    per_address: int
    total: int


def raise_descriptor_limit() -> None:
    """Let this process open `DESCRIPTORS` files, or as many as its hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        # A system may have a lower limit of its own; the soft limit then stays.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def connection_limits() -> ConnectionLimits:
    """The limits of this process.

    They leave the reserved file descriptors free, and other addresses a quarter.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors = DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    total = max(1, descriptors - RESERVED_DESCRIPTORS)
    return ConnectionLimits(max(1, min(CONNECTIONS_PER_ADDRESS, total * 3 // 4)), total)


def collapse_accept_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Count the connections that found no file descriptor, instead of logging each with a traceback."""

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if context.get("message") == OUT_OF_DESCRIPTORS:
            HttpProtocol.refusals.record("out of file descriptors", "")
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)


class RefusalLog:
    """One log record per reason and interval, with the number of refusals since the last one."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._logged_at: dict[str, float] = {}

    def record(self, reason: str, address: str) -> None:
        self._counts[reason] += 1
        now = time.monotonic()
        if now - self._logged_at.get(reason, -LOG_INTERVAL_S) >= LOG_INTERVAL_S:
            self._logged_at[reason] = now
            log.warning(
                "connection refused", reason=reason, count=self._counts[reason], last=address
            )
            self._counts[reason] = 0


class ResponseWriter(h11.Connection):
    """A connection that sends the head of a response together with its first part.

    They would be two packets, and two system calls, at each of which another thread takes the interpreter.
    `write` sends a head whose response is not ready at once, such as that of an event stream.
    """

    def __init__(self, max_bytes: int, write: Callable[[bytes], None]) -> None:
        super().__init__(h11.SERVER, max_bytes)
        self._write = write
        self._head: list[bytes] = []

    def send_with_data_passthrough(self, event: h11.Event) -> list[bytes] | None:
        parts = super().send_with_data_passthrough(event)
        if isinstance(event, h11.Response):
            self._head = parts or []
            asyncio.get_running_loop().call_soon(self._send_head)
            return []
        return None if parts is None else [*self._take_head(), *parts]

    def _send_head(self) -> None:
        if head := self._take_head():
            self._write(b"".join(head))

    def _take_head(self) -> list[bytes]:
        head, self._head = self._head, []
        return head


class HttpProtocol(H11Protocol):
    """A connection of the API.

    Refuses what the parser cannot read, such as NUL in a header, like any other bad request.
    """

    connections_by_network: ClassVar[Counter[str]] = Counter()
    refusals: ClassVar[RefusalLog] = RefusalLog()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn = ResponseWriter(self.conn._max_incomplete_event_size, self._write_head)  # noqa: SLF001
        # Its warnings are one record per malformed request; `refusals` counts them instead.
        self.logger = _ERRORS_ONLY
        self._header_deadline: asyncio.TimerHandle | None = None
        self._unread_body_deadline: asyncio.TimerHandle | None = None
        self._unread_answer_deadline: asyncio.TimerHandle | None = None
        self._address = ""
        self._network = ""
        self._is_counted = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._network = client_network(self._address)
        limits = connection_limits()
        # Refused connections are not counted: those of one flood would keep all other addresses out until
        # they are closed.
        if self.connections_by_network[self._network] >= limits.per_address:
            self._refuse("too many connections of one address")
        elif self.connections_by_network.total() >= limits.total:
            self._refuse("too many connections")
        else:
            self.connections_by_network[self._network] += 1
            self._is_counted = True
            self._start_header_deadline()

    def _refuse(self, reason: str) -> None:
        self.refusals.record(reason, self._address)
        # Without an answer: a client with so many connections would have to read each.
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_header_deadline()
        self._stop_unread_body_deadline()
        self._stop_unread_answer_deadline()
        if self._is_counted:
            self._is_counted = False
            self.connections_by_network[self._network] -= 1
        # Addresses without connections must not fill the memory.
        if self.connections_by_network[self._network] <= 0:
            del self.connections_by_network[self._network]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._header_deadline is None and self.conn.their_state is h11.IDLE:
            self._start_header_deadline()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_header_deadline()
        elif self._header_deadline is None:
            # The end of a body whose request is answered: its first byte has ended the timeout.
            self._restart_keep_alive()
        if self.cycle is not None:
            self._end_after_two_lengths()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_unread_answer_deadline()

    def resume_writing(self) -> None:
        self._stop_unread_answer_deadline()
        super().resume_writing()

    def on_response_complete(self) -> None:
        self._stop_unread_body_deadline()
        super().on_response_complete()
        if self._has_unread_body():
            self._unread_body_deadline = self.loop.call_later(
                UNREAD_BODY_DEADLINE_S, self._end_unread_body
            )

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the text of uvicorn
        """Send the problem document and close the connection."""
        self._stop_header_deadline()
        self.refusals.record("malformed request", self._address)
        if self.cycle is not None:
            # The request whose body is malformed still runs: its answer must not follow this one.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._send_problem(MalformedRequest())

    def _write_head(self, head: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(head)

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

    def _has_unread_body(self) -> bool:
        """Return whether a request is answered although its body has not arrived."""
        return (
            self.cycle.response_complete
            and self.conn.their_state is h11.SEND_BODY
            and not self.transport.is_closing()
        )

    def _stop_unread_body_deadline(self) -> None:
        if self._unread_body_deadline is not None:
            self._unread_body_deadline.cancel()
            self._unread_body_deadline = None

    def _end_unread_body(self) -> None:
        self._unread_body_deadline = None
        # Otherwise the body has arrived since, and the connection may have its next request.
        if self._has_unread_body():
            self.refusals.record(
                "the body of an answered request did not arrive in time", self._address
            )
            self.timeout_keep_alive_handler()

    def _start_unread_answer_deadline(self) -> None:
        self._unread_answer_deadline = self.loop.call_later(
            UNREAD_ANSWER_DEADLINE_S,
            self._end_unread_answer,
            self.transport.get_write_buffer_size(),
        )

    def _stop_unread_answer_deadline(self) -> None:
        if self._unread_answer_deadline is not None:
            self._unread_answer_deadline.cancel()
            self._unread_answer_deadline = None

    def _end_unread_answer(self, unread_bytes: int) -> None:
        if self.transport.get_write_buffer_size() < unread_bytes:
            # A slow client that reads.
            self._start_unread_answer_deadline()
            return
        self.refusals.record("the answer was not read in time", self._address)
        # Closing would wait until the client has read the rest.
        self.transport.abort()

    def _restart_keep_alive(self) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

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
