"""Request bodies and paths, checked before any other code reads them.

A body is read completely before the application runs: a client that disconnects or sends invalid
JSON never reaches a route, so that nothing is left half-written.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

import anyio.to_thread
from fastapi import Depends, Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mosaico.core.errors import AppError, Invalid, TooLarge, Unavailable
from mosaico.core.problem_documents import (
    BODY_PROBLEMS,
    UnsupportedMediaType,
    error_response,
)
from mosaico.core.strict_json import parse_json

RETRY_AFTER_S = 10


class BodyMemory:
    """Counts the bytes of bodies that are held at the same time, and refuses those beyond `max_bytes`.

    Used on the event loop only, so that nothing has to be locked.
    """

    def __init__(self, max_bytes: int) -> None:
        self.held_bytes = 0
        self._max_bytes = max_bytes

    @contextmanager
    def hold(self) -> Iterator[Callable[[int], None]]:
        """A function that takes bytes until the block ends; it raises `Unavailable` if too many are held."""
        held_here = 0

        def take(count: int) -> None:
            nonlocal held_here
            if self.held_bytes + count > self._max_bytes:
                raise Unavailable(
                    "The service holds too many request bodies at once; try again in a few seconds.",
                    headers={"Retry-After": str(RETRY_AFTER_S), "Connection": "close"},
                )
            self.held_bytes += count
            held_here += count

        try:
            yield take
        finally:
            self.held_bytes -= held_here


MAX_BODY_BYTES = 1024 * 1024
MAX_SIGNED_BYTES = 64 * 1024
# Bodies that a process holds at once. Those of requests without a key, such as a login, have their own
# memory: many of them do not keep out requests with a key.
HELD_BYTES = 64 * 1024 * 1024
HELD_BYTES_WITHOUT_KEY = 16 * 1024 * 1024
MAX_DISCARDED_BYTES = 16 * MAX_BODY_BYTES
DISCARD_TIMEOUT_S = 5.0

BODY_FIELDS = "body_fields"

# The validation of a body, with an error for each value that is wrong, blocks the event loop: this many for a few
# hundredths of a second.
MAX_VALUES = 10_000

# Parsing more than this blocks the event loop for over a millisecond, so a thread does it.
THREAD_PARSE_BYTES = 16 * 1024


class InvalidPath(Invalid):
    """The URL contains bytes that are not UTF-8, or NUL; encode it as UTF-8 without NUL."""

    status = 400


class _ClientDisconnected(Exception):
    """The client closed the connection before the end of the body."""


def never(_scope: Scope) -> bool:
    """A predicate that is never true."""
    return False


class RequestBodyMiddleware:
    """Refuses invalid paths and bodies; bodies below `/api/` must be strict JSON.

    `is_streamed` selects requests whose body the route itself reads in chunks, with its own limit.
    `is_signed` selects requests whose signature covers the raw bytes: their body is passed on
    unchanged, up to 64 KiB.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        is_streamed: Callable[[Scope], bool] = never,
        is_signed: Callable[[Scope], bool] = never,
        max_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self.app = app
        self.is_streamed = is_streamed
        self.is_signed = is_signed
        self.max_bytes = max_bytes
        self._memory = BodyMemory(HELD_BYTES)
        self._memory_without_key = BodyMemory(HELD_BYTES_WITHOUT_KEY)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        has_key = "caller" in scope.get("state", {})
        memory = self._memory if has_key else self._memory_without_key
        with memory.hold() as take:
            try:
                _check_path(scope)
                ready = (
                    receive if self.is_streamed(scope) else await self._read(scope, receive, take)
                )
            except AppError as error:
                response = await error_response(Request(scope, receive), error)
                return await response(scope, receive, send)
            except _ClientDisconnected:
                return None
            return await self.app(scope, ready, send)

    async def _read(self, scope: Scope, receive: Receive, take: Callable[[int], None]) -> Receive:
        headers, signed = Headers(scope=scope), self.is_signed(scope)
        if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
            return receive
        max_bytes = min(self.max_bytes, MAX_SIGNED_BYTES) if signed else self.max_bytes
        declared = headers.get("content-length", "0")
        # Cut to 20 digits: Python refuses to convert very long digit strings.
        too_large = declared.isdecimal() and int(declared[:20]) > max_bytes
        body = None if too_large else await _read_body(receive, max_bytes, take)
        if body is None:
            await _discard(receive)
            raise _too_large(max_bytes)
        if body and not signed and scope["path"].startswith("/api/"):
            scope.setdefault("state", {})[BODY_FIELDS] = await _read_field_names(
                headers.get("content-type", ""), body
            )
        return _replay_body(body, receive)


def document_problems(operation: dict[str, Any]) -> None:
    """Add the problems of a body to the description of an operation that has one, unless its route
    reads the body itself and declares them.
    """
    problems = {str(status): problem for status, problem in BODY_PROBLEMS.items()}
    responses = operation["responses"]
    if "requestBody" in operation and not problems.keys() & responses.keys():
        responses.update(problems)


async def read_raw_body(request: Request) -> bytes:
    """The raw bytes of the body, for routes that check a signature."""
    return await request.body()


RawBody = Annotated[bytes, Depends(read_raw_body)]


async def _read_body(receive: Receive, max_bytes: int, take: Callable[[int], None]) -> bytes | None:
    """The complete body, whose bytes are taken as they arrive; None as soon as it is too large."""
    # Counted while it arrives: a chunked body declares no length, and a declared one may be wrong.
    body = bytearray()
    more = True
    while more:
        message = await _receive_chunk(receive)
        chunk = message.get("body", b"")
        take(len(chunk))
        body += chunk
        if len(body) > max_bytes:
            return None
        more = message.get("more_body", False)
    return bytes(body)


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(
        f"The body is larger than {max_bytes} bytes; send less at once.",
        maxBytes=max_bytes,
        headers={"Connection": "close"},
    )


async def _receive_chunk(receive: Receive) -> Message:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise _ClientDisconnected
    return message


async def _discard(receive: Receive) -> None:
    """Read and drop the rest of the body: a client that still sends would not read the response."""
    discarded = 0
    try:
        async with asyncio.timeout(DISCARD_TIMEOUT_S):
            while discarded < MAX_DISCARDED_BYTES:
                message = await _receive_chunk(receive)
                discarded += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
    except TimeoutError:
        return


def _check_path(scope: Scope) -> None:
    path: bytes = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogatepass")
    for part in (path, scope.get("query_string", b"")):
        # The usual path needs no decoding.
        if b"%" in part or not part.isascii() or b"\x00" in part:
            _check_encoded(part)


def _check_encoded(part: bytes) -> None:
    decoded = unquote_to_bytes(part)
    if b"\x00" in decoded:
        raise InvalidPath("The URL contains NUL (%00); remove it.")
    try:
        decoded.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidPath from None


def get_body_fields(scope: Scope) -> list[str]:
    """The member names of the JSON object in the body; empty without one."""
    field_names: list[str] = scope.get("state", {}).get(BODY_FIELDS, [])
    return field_names


def read_content_type(request: Request) -> str:
    """The media type of the body, without parameters; empty when the client names none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _read_field_names(content_type: str, body: bytes) -> list[str]:
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json" and not (
        kind.startswith("application/") and kind.endswith("+json")
    ):
        raise UnsupportedMediaType
    if len(body) <= THREAD_PARSE_BYTES:
        return _field_names(body)
    return await anyio.to_thread.run_sync(_field_names, body, limiter=_parsers())


def _field_names(body: bytes) -> list[str]:
    document = parse_json(body)
    if len(body) > THREAD_PARSE_BYTES and _count_values(document) > MAX_VALUES:
        raise TooLarge(f"The body has more than {MAX_VALUES:,} JSON values; send less at once.")
    return sorted(document) if isinstance(document, dict) else []


def _count_values(value: Any) -> int:
    """The number of values in a parsed document, whose depth is limited."""
    if isinstance(value, dict):
        return 1 + sum(map(_count_values, value.values()))
    return 1 + sum(map(_count_values, value)) if isinstance(value, list) else 1


@cache
def _parsers() -> anyio.CapacityLimiter:
    """Two bodies are parsed at a time: small values take thirty times the memory of their text."""
    return anyio.CapacityLimiter(2)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        # After the body, the application receives the disconnect of the client as usual.
        return pending.pop() if pending else await receive()

    return replay
