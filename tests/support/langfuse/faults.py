"""Faults of Langfuse, of a proxy in front of it, and of the network."""

import gzip
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from tests.support.langfuse.exchange import (
    JSON,
    MIB,
    Exchange,
    FakeResponse,
    NoResponse,
    TrueResponse,
)

HTML: Final = "text/html; charset=utf-8"
ALWAYS: Final = range(1, 1_000_000_000)
_PAGE: Final = b"<html><head><title>%s</title></head><body><h1>%s</h1></body></html>"


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimited:
    """429 as Langfuse Cloud returns it; without `retry_after_s` it has no headers."""

    retry_after_s: int | None = 1
    limit: int = 30

    def __call__(self, _exchange: Exchange, _true_answer: TrueResponse) -> FakeResponse:
        answer = FakeResponse.of_json(
            429, {"message": "Rate limit exceeded", "code": "rate_limited"}
        )
        if self.retry_after_s is None:
            return answer
        headers = {
            "retry-after": str(self.retry_after_s),
            "x-ratelimit-limit": str(self.limit),
            "x-ratelimit-remaining": "0",
            # The server writes a date string here, not a number.
            "x-ratelimit-reset": f"{datetime.now(UTC):%a %b %d %Y %H:%M:%S} GMT+0000",
        }
        return replace(answer, headers=headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTimeout:
    """422 of an overloaded store, for requests of more than `above` rows."""

    above: int = 0

    def __call__(self, exchange: Exchange, _true_answer: TrueResponse) -> FakeResponse | None:
        if _limit(exchange) <= self.above:
            return None
        message = "The query took too long. Ask for a smaller window or fewer rows."
        return FakeResponse.of_json(422, {"message": message, "error": "Request timed out"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadTooLarge:
    """422 for requests of more than `above` rows with inputs and outputs."""

    above: int = 0

    def __call__(self, exchange: Exchange, _true_answer: TrueResponse) -> FakeResponse | None:
        with_texts = "io" in (exchange.parameter("fields") or "").split(",")
        if _limit(exchange) <= self.above or not with_texts:
            return None
        message = "The response is too large. Lower the limit or leave out io."
        return FakeResponse.of_json(422, {"message": message, "error": "PayloadTooLargeError"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HtmlResponse:
    """An HTML page of a proxy: status 500, 502, 503, 524, or even 200."""

    status: int = 502

    def __call__(self, _exchange: Exchange, _true_answer: TrueResponse) -> FakeResponse:
        words = str(self.status).encode()
        return FakeResponse(status=self.status, body=_PAGE % (words, words), media_type=HTML)


@dataclass(frozen=True, slots=True, kw_only=True)
class RespondsWith:
    """Any status with any JSON body."""

    status: int
    content: Any

    def __call__(self, _exchange: Exchange, _true_answer: TrueResponse) -> FakeResponse:
        return FakeResponse.of_json(self.status, self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """A redirect to another address."""

    to: str = "http://127.0.0.1:9/elsewhere"
    status: int = 302

    def __call__(self, _exchange: Exchange, _true_answer: TrueResponse) -> FakeResponse:
        return FakeResponse(status=self.status, body=b"", headers={"location": self.to})


class ConnectionReset:
    """The connection is reset before the first byte of the response."""

    def __call__(self, _exchange: Exchange, _true_answer: TrueResponse) -> FakeResponse:
        return NoResponse(resets=True)


class NoResponseEver:
    """No response until the connection is closed."""

    def __call__(self, _exchange: Exchange, _true_answer: TrueResponse) -> FakeResponse:
        return NoResponse()


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowBody:
    """The true response, byte by byte: each pause is short, the total is endless."""

    pause_s: float = 0.05

    def __call__(self, exchange: Exchange, true_answer: TrueResponse) -> FakeResponse:
        return replace(true_answer(exchange), pause_s=self.pause_s)


class CutConnection:
    """Half of the declared bytes, then the connection ends."""

    def __call__(self, exchange: Exchange, true_answer: TrueResponse) -> FakeResponse:
        answer = true_answer(exchange)
        full_length = len(answer.body)
        return replace(answer, body=answer.body[: full_length // 2], declared=full_length)


class TruncatedJson:
    """Half of the JSON in a complete HTTP response."""

    def __call__(self, exchange: Exchange, true_answer: TrueResponse) -> FakeResponse:
        answer = true_answer(exchange)
        return replace(answer, body=answer.body[: len(answer.body) // 2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Oversized:
    """The true response, padded over the size limit; compressed if `packed`."""

    # One MiB over the largest response that the client reads (32 MiB).
    size: int = 33 * MIB
    packed: bool = False

    def __call__(self, exchange: Exchange, true_answer: TrueResponse) -> FakeResponse:
        answer = true_answer(exchange)
        padded = answer.body + b" " * (self.size - len(answer.body))
        if not self.packed:
            return replace(answer, body=padded)
        headers = {**answer.headers, "content-encoding": "gzip"}
        # A few kilobytes on the wire: only a limit on the unpacked bytes can refuse it.
        return replace(answer, body=gzip.compress(padded, 1), headers=headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModifiedResponse:
    """The true JSON after a change in place."""

    change: Callable[[JSON], None]

    def __call__(self, exchange: Exchange, true_answer: TrueResponse) -> FakeResponse:
        answer = true_answer(exchange)
        content: JSON = json.loads(answer.body)
        self.change(content)
        return FakeResponse.of_json(answer.status, content)


@dataclass(slots=True, kw_only=True)
class FailsFirst:
    """500 for the first `times` attempts of each request, then the true response."""

    times: int
    request_counts: Counter[str] = field(default_factory=Counter)

    def __call__(self, exchange: Exchange, _true_answer: TrueResponse) -> FakeResponse | None:
        self.request_counts[str(exchange.request.url)] += 1
        if self.request_counts[str(exchange.request.url)] > self.times:
            return None
        return FakeResponse.of_json(500, {"message": "Internal Server Error"})


@dataclass(slots=True, kw_only=True)
class RepeatedFirstPage:
    """The first requested page for every request."""

    first: FakeResponse | None = None

    def __call__(self, exchange: Exchange, true_answer: TrueResponse) -> FakeResponse:
        self.first = self.first or true_answer(exchange)
        return self.first


class RepeatedCursor:
    """The sent cursor is returned again, so that paging never ends."""

    def __call__(self, exchange: Exchange, true_answer: TrueResponse) -> FakeResponse:
        answer = true_answer(exchange)
        content: JSON = json.loads(answer.body)
        sent_cursor = exchange.parameter("cursor")
        if sent_cursor is not None:
            content["meta"]["cursor"] = sent_cursor
        return FakeResponse.of_json(answer.status, content)


def _limit(exchange: Exchange) -> int:
    return int(exchange.parameter("limit") or 50)
