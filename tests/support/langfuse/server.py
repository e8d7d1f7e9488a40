"""The HTTP side: who may ask, what is written down of it, and what goes wrong on purpose."""

import asyncio
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

from tests.support.langfuse.faults import Answer, Exchange, Injection
from tests.support.langfuse.parameters import Parameters
from tests.support.langfuse.refusals import Refused, missing, not_in_events_only, only_in_v4
from tests.support.langfuse.routes import PREFIX, Found, Mode, Route, find_route
from tests.support.langfuse.store import Store
from tests.support.langfuse.writes import Write, Written

ORGANISATION_PUBLIC_KEY: Final = "pk-lf-organisation"
ORGANISATION_SECRET_KEY: Final = "sk-lf-organisation"
HEADERS_UP_TO: Final = 16 * 1024

_numbers = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as it came: `path` without the prefix, still encoded; `at` is monotonic.

    `status` is None when nothing was answered.
    """

    method: str
    path: str
    parameters: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    at: float
    status: int | None


@dataclass(slots=True, kw_only=True)
class Server:
    """The ASGI application and everything that a test may turn."""

    mode: Mode
    version: str
    public_key: str = ""
    secret_key: str = ""
    takes_score_lists: bool = False
    store: Store = field(default_factory=Store)
    asked: list[Asked] = field(default_factory=list)
    injections: list[Injection] = field(default_factory=list)
    latency_s: float = 0.0
    writes: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    closing: bool = False

    def __post_init__(self) -> None:
        if not self.public_key:
            self._make_keys()

    def start_anew(self) -> None:
        """Forget everything, and take other keys."""
        self.store = Store()
        self.asked.clear()
        self.injections.clear()
        self.latency_s = 0.0
        self.most_in_flight = 0
        self._make_keys()

    def _make_keys(self) -> None:
        # The SDK keeps one client for each public key, even after its end.
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
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        came_at = time.monotonic()
        try:
            if self.latency_s:
                await asyncio.sleep(self.latency_s)
            answer = self._injected(exchange) or self.answer(exchange)
            self._write_down(exchange, came_at, answer.status or None)
            await answer.send(exchange)
        finally:
            self.in_flight -= 1

    def answer(self, exchange: Exchange) -> Answer:
        """What the server says when nothing goes wrong."""
        try:
            written = self._content(exchange)
        except Refused as refusal:
            return Answer.of_json(refusal.status, refusal.body)
        return Answer.of_json(written.status, written.content)

    def _injected(self, exchange: Exchange) -> Answer | None:
        due = [injection for injection in self.injections if injection.is_due(exchange)]
        answers = (injection.fault(exchange, self.answer) for injection in due)
        return next((answer for answer in answers if answer is not None), None)

    def _content(self, exchange: Exchange) -> Written:
        request = exchange.request
        if _size(request) > HEADERS_UP_TO:
            raise Refused(431, {"message": "Request Header Fields Too Large"})
        if exchange.path == "/health":
            return Written(content={"status": "OK", "version": self.version})
        found = find_route(request.method, exchange.path)
        if found is None:
            raise missing("Not Found")
        self._check_mode_before(found.route)
        self._check_key(request)
        return self._answer_of(found, exchange)

    def _answer_of(self, found: Found, exchange: Exchange) -> Written:
        route = found.route
        if route.write is not None:
            return route.write(self._write(exchange))
        assert route.read is not None
        asked = Parameters(exchange.request.query_params)
        if route.needs == "v4" and self.mode == "v3":
            raise only_in_v4(route.what)
        return Written(content=route.read(self.store, asked, *found.parts))

    def _write(self, exchange: Exchange) -> Write:
        self.writes += 1
        return Write(
            store=self.store,
            body=exchange.body,
            headers=dict(exchange.request.headers),
            now=datetime.now(UTC),
            number=self.writes,
            takes_score_lists=self.takes_score_lists,
            events_only=self.mode == "events_only",
        )

    def _check_mode_before(self, route: Route) -> None:
        if route.needs == "v3" and self.mode == "events_only":
            raise not_in_events_only()

    def _check_key(self, request: Request) -> None:
        given = _basic_credentials(request.headers.get("authorization"))
        if given is None:
            raise Refused(401, {"message": "No authorization header"})
        if given == f"{ORGANISATION_PUBLIC_KEY}:{ORGANISATION_SECRET_KEY}":
            message = "Access denied: the key is of an organization; use one of a project"
            raise Refused(403, {"message": message})
        if given != f"{self.public_key}:{self.secret_key}":
            message = "Invalid credentials. Confirm that you've configured the correct host."
            raise Refused(401, {"message": message})

    def _write_down(self, exchange: Exchange, came_at: float, status: int | None) -> None:
        request = exchange.request
        self.asked.append(
            Asked(
                method=request.method,
                path=exchange.path,
                parameters=dict(request.query_params),
                headers=dict(request.headers),
                body=exchange.body,
                at=came_at,
                status=status,
            )
        )


def _raw_path(scope: Scope) -> str:
    """The path as a server reads it: `.` and `..`, encoded or not, are steps and no names."""
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
