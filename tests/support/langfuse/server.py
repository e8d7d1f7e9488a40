"""The ASGI server: authentication, recorded requests and faults."""

import base64
import binascii
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Final

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from tests.support.langfuse.errors import (
    ErrorResponse,
    not_found,
    requires_v4,
    unavailable_in_events_only,
)
from tests.support.langfuse.exchange import Exchange, FakeResponse, Injection
from tests.support.langfuse.parameters import Parameters
from tests.support.langfuse.routes import PREFIX, Mode, Route, RouteMatch, find_route
from tests.support.langfuse.store import Store
from tests.support.langfuse.writes import WriteRequest, WriteResponse

ORGANISATION_PUBLIC_KEY: Final = "pk-lf-organisation"
ORGANISATION_SECRET_KEY: Final = "sk-lf-organisation"
# The default of Node, in which Langfuse runs: a URL with 900 IDs gets 431.
MAX_HEADER_BYTES: Final = 16 * 1024

_numbers = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """One request: `path` is encoded and without the prefix, `received_at` is monotonic.

    `status` is None without a response.
    """

    method: str
    path: str
    parameters: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    received_at: float
    status: int | None


@dataclass(slots=True, kw_only=True)
class FakeServer:
    """The ASGI application and its settings for tests."""

    mode: Mode
    version: str
    public_key: str = ""
    secret_key: str = ""
    takes_score_lists: bool = False
    store: Store = field(default_factory=Store)
    requests: list[RecordedRequest] = field(default_factory=list)
    injections: list[Injection] = field(default_factory=list)
    writes: int = 0
    in_flight: int = 0
    max_in_flight: int = 0
    closing: bool = False

    def __post_init__(self) -> None:
        if not self.public_key:
            self._make_keys()

    def reset(self) -> None:
        """Delete all data and change the keys."""
        self.store = Store()
        self.requests.clear()
        self.injections.clear()
        self.max_in_flight = 0
        self._make_keys()

    def _make_keys(self) -> None:
        # The SDK caches one client per public key, even after its shutdown.
        number = next(_numbers)
        self.public_key = f"pk-lf-stand-in-{number}"
        self.secret_key = f"sk-lf-stand-in-{number}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        exchange = Exchange(
            request=request,
            path=_raw_path(scope).removeprefix(PREFIX),
            body=await request.body(),
            receive=receive,
            send=send,
            is_over=lambda: self.closing,
        )
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        came_at = time.monotonic()
        try:
            answer = self._injected(exchange) or self.answer(exchange)
            # Before it is sent: a test that has the response must find its request recorded.
            self._record_request(exchange, came_at, answer.status or None)
            await answer.send(exchange)
        finally:
            self.in_flight -= 1

    def answer(self, exchange: Exchange) -> FakeResponse:
        """The true response, without faults."""
        try:
            written = self._handle(exchange)
        except ErrorResponse as refusal:
            return FakeResponse.of_json(refusal.status, refusal.body)
        return FakeResponse.of_json(written.status, written.content)

    def _injected(self, exchange: Exchange) -> FakeResponse | None:
        due = [injection for injection in self.injections if injection.is_due(exchange)]
        answers = (injection.fault(exchange, self.answer) for injection in due)
        return next((answer for answer in answers if answer is not None), None)

    def _handle(self, exchange: Exchange) -> WriteResponse:
        request = exchange.request
        if _size(request) > MAX_HEADER_BYTES:
            raise ErrorResponse(431, {"message": "Request Header Fields Too Large"})
        if exchange.path == "/health":
            return WriteResponse(content={"status": "OK", "version": self.version})
        match = find_route(request.method, exchange.path)
        if match is None:
            raise not_found("Not Found")
        # Before the key: Langfuse says which API it lacks even to a client with a wrong key.
        self._check_mode(match.route)
        self._check_key(request)
        return self._answer_of(match, exchange)

    def _answer_of(self, match: RouteMatch, exchange: Exchange) -> WriteResponse:
        route = match.route
        if route.write is not None:
            return route.write(self._write(exchange, match.parts))
        assert route.read is not None
        parameters = Parameters(exchange.request.query_params)
        if route.required_api == "v4" and self.mode == "v3":
            raise requires_v4(route.api_name)
        return WriteResponse(content=route.read(self.store, parameters, *match.parts))

    def _write(self, exchange: Exchange, parts: list[str]) -> WriteRequest:
        self.writes += 1
        return WriteRequest(
            store=self.store,
            body=exchange.body,
            headers=dict(exchange.request.headers),
            now=datetime.now(UTC),
            number=self.writes,
            takes_score_lists=self.takes_score_lists,
            parts=parts,
        )

    def _check_mode(self, route: Route) -> None:
        if route.required_api == "v3" and self.mode == "events_only":
            raise unavailable_in_events_only()

    def _check_key(self, request: Request) -> None:
        credentials = _basic_credentials(request.headers.get("authorization"))
        if credentials is None:
            raise ErrorResponse(401, {"message": "No authorization header"})
        if credentials == f"{ORGANISATION_PUBLIC_KEY}:{ORGANISATION_SECRET_KEY}":
            message = "Access denied: the key is of an organization; use one of a project"
            raise ErrorResponse(403, {"message": message})
        if credentials != f"{self.public_key}:{self.secret_key}":
            message = "Invalid credentials. Confirm that you've configured the correct host."
            raise ErrorResponse(401, {"message": message})

    def _record_request(self, exchange: Exchange, came_at: float, status: int | None) -> None:
        request = exchange.request
        self.requests.append(
            RecordedRequest(
                method=request.method,
                path=exchange.path,
                parameters=dict(request.query_params),
                headers=dict(request.headers),
                body=exchange.body,
                received_at=came_at,
                status=status,
            )
        )


def _raw_path(scope: Scope) -> str:
    """The resolved raw path: `.` and `..` are resolved, encoded or not."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    steps: list[str] = []
    for step in raw.partition(b"?")[0].decode("ascii", "replace").split("/"):
        match step.lower().replace("%2e", "."):
            case ".":
                pass
            case "..":
                steps[1:] = steps[1:-1]
            case _:
                steps.append(step)
    return "/".join(steps)


def _size(request: Request) -> int:
    headers = sum(len(name) + len(value) + 4 for name, value in request.headers.raw)
    return headers + len(request.scope["query_string"]) + len(_raw_path(request.scope))


def _basic_credentials(header: str | None) -> str | None:
    kind, _, content = (header or "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        return base64.b64decode(content, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
