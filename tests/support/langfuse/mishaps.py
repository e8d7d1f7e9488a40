"""The faults by name: what Langfuse, a proxy before it, or the network does on a bad day."""

import gzip
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from tests.support.langfuse.faults import JSON, MIB, Answer, Exchange, NoAnswer, TrueAnswer

HTML: Final = "text/html; charset=utf-8"
ALWAYS: Final = range(1, 1_000_000_000)
_PAGE: Final = b"<html><head><title>%s</title></head><body><h1>%s</h1></body></html>"


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimited:
    """429 as the Cloud gives it; without `retry_after_s` there are no headers at all."""

    retry_after_s: int | None = 1
    limit: int = 30

    def __call__(self, _exchange: Exchange, _true_answer: TrueAnswer) -> Answer:
        answer = Answer.of_json(429, {"message": "Rate limit exceeded", "code": "rate_limited"})
        if self.retry_after_s is None:
            return answer
        headers = {
            "retry-after": str(self.retry_after_s),
            "x-ratelimit-limit": str(self.limit),
            "x-ratelimit-remaining": "0",
            # A date in words, as the server writes it, and no number.
            "x-ratelimit-reset": f"{datetime.now(UTC):%a %b %d %Y %H:%M:%S} GMT+0000",
        }
        return replace(answer, headers=headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """422 of a store out of resources, to requests for more than `above` rows."""

    above: int = 0

    def __call__(self, exchange: Exchange, _true_answer: TrueAnswer) -> Answer | None:
        if _limit(exchange) <= self.above:
            return None
        message = "The query took too long. Ask for a smaller window or fewer rows."
        return Answer.of_json(422, {"message": message, "error": "Request timed out"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadTooLarge:
    """422 to requests for more than `above` rows with their inputs and outputs."""

    above: int = 0

    def __call__(self, exchange: Exchange, _true_answer: TrueAnswer) -> Answer | None:
        with_texts = "io" in (exchange.parameter("fields") or "").split(",")
        if _limit(exchange) <= self.above or not with_texts:
            return None
        message = "The response is too large. Lower the limit or leave out io."
        return Answer.of_json(422, {"message": message, "error": "PayloadTooLargeError"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HtmlPage:
    """What a proxy says in the server's place: 500, 502, 503, 524, or even 200."""

    status: int = 502

    def __call__(self, _exchange: Exchange, _true_answer: TrueAnswer) -> Answer:
        words = str(self.status).encode()
        return Answer(status=self.status, body=_PAGE % (words, words), media_type=HTML)


@dataclass(frozen=True, slots=True, kw_only=True)
class Says:
    """Any status with any JSON."""

    status: int
    content: Any

    def __call__(self, _exchange: Exchange, _true_answer: TrueAnswer) -> Answer:
        return Answer.of_json(self.status, self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """Sends the client, and its key, somewhere else."""

    to: str = "http://127.0.0.1:9/elsewhere"
    status: int = 302

    def __call__(self, _exchange: Exchange, _true_answer: TrueAnswer) -> Answer:
        return Answer(status=self.status, body=b"", headers={"location": self.to})


class Reset:
    """The connection is reset before a byte of the answer."""

    def __call__(self, _exchange: Exchange, _true_answer: TrueAnswer) -> Answer:
        return NoAnswer(resets=True)


class Hang:
    """No answer, until somebody closes the connection."""

    def __call__(self, _exchange: Exchange, _true_answer: TrueAnswer) -> Answer:
        return NoAnswer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trickle:
    """The true answer, byte by byte: no single wait is long, all together never end."""

    pause_s: float = 0.05

    def __call__(self, exchange: Exchange, true_answer: TrueAnswer) -> Answer:
        return replace(true_answer(exchange), pause_s=self.pause_s)


class CutConnection:
    """Half of the announced bytes, and then the connection ends."""

    def __call__(self, exchange: Exchange, true_answer: TrueAnswer) -> Answer:
        answer = true_answer(exchange)
        whole = len(answer.body)
        return replace(answer, body=answer.body[: whole // 2], declared=whole)


class TruncatedJson:
    """Half of the JSON, in an answer that is whole as far as HTTP can see."""

    def __call__(self, exchange: Exchange, true_answer: TrueAnswer) -> Answer:
        answer = true_answer(exchange)
        return replace(answer, body=answer.body[: len(answer.body) // 2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Oversized:
    """The true answer, padded to more than a client should read; small on the wire if packed."""

    size: int = 33 * MIB
    packed: bool = False

    def __call__(self, exchange: Exchange, true_answer: TrueAnswer) -> Answer:
        answer = true_answer(exchange)
        padded = answer.body + b" " * (self.size - len(answer.body))
        if not self.packed:
            return replace(answer, body=padded)
        headers = {**answer.headers, "content-encoding": "gzip"}
        return replace(answer, body=gzip.compress(padded, 1), headers=headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The true JSON after a change in place: odd rows, unknown keys, missing fields."""

    change: Callable[[JSON], None]

    def __call__(self, exchange: Exchange, true_answer: TrueAnswer) -> Answer:
        answer = true_answer(exchange)
        content: JSON = json.loads(answer.body)
        self.change(content)
        return Answer.of_json(answer.status, content)


@dataclass(slots=True, kw_only=True)
class FailsAtFirst:
    """500 to each request as often as said; then the true answer to it."""

    times: int
    seen: Counter[str] = field(default_factory=Counter)

    def __call__(self, exchange: Exchange, _true_answer: TrueAnswer) -> Answer | None:
        self.seen[str(exchange.request.url)] += 1
        if self.seen[str(exchange.request.url)] > self.times:
            return None
        return Answer.of_json(500, {"message": "Internal Server Error"})


@dataclass(slots=True, kw_only=True)
class FirstPageAgain:
    """Whichever page is asked for, the one that was asked for first."""

    first: Answer | None = None

    def __call__(self, exchange: Exchange, true_answer: TrueAnswer) -> Answer:
        self.first = self.first or true_answer(exchange)
        return self.first


class RepeatingCursor:
    """The cursor that was sent comes back: a client that follows it never ends."""

    def __call__(self, exchange: Exchange, true_answer: TrueAnswer) -> Answer:
        answer = true_answer(exchange)
        content: JSON = json.loads(answer.body)
        sent = exchange.parameter("cursor")
        if sent is not None:
            content["meta"]["cursor"] = sent
        return Answer.of_json(answer.status, content)


def _limit(exchange: Exchange) -> int:
    return int(exchange.parameter("limit") or 50)
