"""One request with its response, and the injection of faults into it.

A fault gets the request and the way to the true answer, and gives another answer, or None where
it does not apply to this request.
"""

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

from starlette.requests import Request
from starlette.types import Receive, Send

JSON = dict[str, Any]
MIB: Final = 1024 * 1024
_LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request and its connection."""

    request: Request
    path: str
    body: bytes
    receive: Receive
    send: Send
    is_over: Callable[[], bool]

    def parameter(self, name: str) -> str | None:
        return self.request.query_params.get(name)

    def reset(self) -> None:
        """Close the connection with a TCP reset."""
        # ASGI has no message for a reset: the transport behind the
        # bound method `send` of uvicorn has one.
        transport = cast("Any", self.send).__self__.transport
        # SO_LINGER of 0 seconds makes the kernel send RST; a plain
        # close would send FIN, an orderly end.
        linger = struct.pack("ii", 1, 0)
        with contextlib.suppress(OSError):  # the client was faster
            transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, linger
            )
        transport.abort()

    async def wait_until_closed(self) -> None:
        """Wait until the client disconnects or the server stops."""
        gone = asyncio.ensure_future(self._disconnected())
        while not gone.done() and not self.is_over():
            await asyncio.wait([gone], timeout=_LOOK_S)
        gone.cancel()

    async def _disconnected(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeResponse:
    """A response; `declared` is the Content-Length, `pause_s` the pause between bytes."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = "application/json; charset=utf-8"
    declared: int | None = None
    pause_s: float = 0.0

    @classmethod
    def of_json(cls, status: int, content: Any, **headers: str) -> "FakeResponse":
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return cls(status=status, body=text.encode(), headers=named)

    async def send(self, exchange: Exchange) -> None:
        length = len(self.body) if self.declared is None else self.declared
        headers = {**self.headers, "content-type": self.media_type, "content-length": str(length)}
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await exchange.send({"type": "http.response.start", "status": self.status, "headers": raw})
        if self.pause_s:
            await self._trickle(exchange)
        # uvicorn refuses to end a response that is shorter than
        # declared; the reset cuts it instead.
        elif length > len(self.body):
            await exchange.send(
                {"type": "http.response.body", "body": self.body, "more_body": True}
            )
            exchange.reset()
        else:
            await exchange.send({"type": "http.response.body", "body": self.body})

    async def _trickle(self, exchange: Exchange) -> None:
        gone = asyncio.ensure_future(exchange.wait_until_closed())
        for at in range(len(self.body)):
            piece = self.body[at : at + 1]
            last = at + 1 == len(self.body)
            await exchange.send(
                {"type": "http.response.body", "body": piece, "more_body": not last}
            )
            if (await asyncio.wait([gone], timeout=self.pause_s))[0]:
                return exchange.reset()
        gone.cancel()
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoResponse(FakeResponse):
    """No response: the connection is reset at once, or left open."""

    status: int = 0
    body: bytes = b""
    resets: bool = False

    async def send(self, exchange: Exchange) -> None:
        if not self.resets:
            await exchange.wait_until_closed()
        exchange.reset()


TrueResponse = Callable[[Exchange], FakeResponse]


class Fault(Protocol):
    def __call__(self, exchange: Exchange, true_answer: TrueResponse, /) -> FakeResponse | None: ...


@dataclass(slots=True, kw_only=True)
class Injection:
    """A fault on a path, for these request numbers, counted from 1 since its injection."""

    path: str
    on: Container[int]
    fault: Fault
    request_count: int = 0

    def is_due(self, exchange: Exchange) -> bool:
        if self.path not in (exchange.path, "*"):
            return False
        # Only requests of its own path count, so that "the second
        # page" is 2 whatever else is requested.
        self.request_count += 1
        return self.request_count in self.on
