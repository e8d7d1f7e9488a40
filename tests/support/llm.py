"""A local LLM server with the API of OpenAI; tests choose its responses and read its requests."""

import asyncio
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from mosaico.core.encryption import Secret
from mosaico.core.http.retry import ExponentialBackoff, RetryPolicy
from mosaico.core.llm_server import LlmServer
from mosaico.llm.retry import COMPLETION_RETRIES, LlmRetryPolicy
from tests.support.http import serving

JSON = dict[str, Any]

KEY = "key-of-the-tests"
JUDGE = "judge-1"
EMBEDDER = "embedder-1"
DIMENSIONS = 8


class ReceivedLlmRequest(NamedTuple):
    """One request as it came."""

    path: str
    body: JSON
    key: str

    @property
    def texts(self) -> list[str]:
        """What is embedded, or what the messages say."""
        if "input" in self.body:
            return list(self.body["input"])
        return [message["content"] for message in self.body["messages"]]


Fault = Callable[[ReceivedLlmRequest], Response | None]


@dataclass(slots=True)
class ModelService:
    """The application. `judge` writes what a model says about a conversation; `faults` are tried in
    turn for each request, and the first answer of one of them is the answer.
    """

    judge: Callable[[ReceivedLlmRequest], str] = lambda _: (
        '{"reason": "as good as it gets", "score": 0.75}'
    )
    faults: list[Fault] = field(default_factory=list)
    requests: list[ReceivedLlmRequest] = field(default_factory=list)
    # Two round numbers that differ, so that a swap of input and output tokens changes a sum.
    usage: JSON = field(default_factory=lambda: {"prompt_tokens": 100, "completion_tokens": 10})
    in_flight: int = 0
    most_in_flight: int = 0
    released: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    @property
    def access(self) -> LlmServer:
        """What the service is told of this server."""
        return LlmServer(
            base_url=self.url, api_key=Secret(KEY), model=JUDGE, embeddings_model=EMBEDDER
        )

    @property
    def conversations(self) -> list[ReceivedLlmRequest]:
        return [request for request in self.requests if request.path.endswith("/chat/completions")]

    @property
    def embedded(self) -> list[str]:
        """Every text that was embedded, in the order in which they were asked for."""
        return [
            text for request in self.requests if "input" in request.body for text in request.texts
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        received = ReceivedLlmRequest(
            path=request.url.path,
            body=json.loads(await request.body()),
            key=request.headers.get("authorization", "").removeprefix("Bearer "),
        )
        self.requests.append(received)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await self._answer(received)(scope, receive, send)
        finally:
            self.in_flight -= 1

    def _answer(self, request: ReceivedLlmRequest) -> Response:
        for fault in self.faults:
            answer = fault(request)
            if answer is not None:
                return answer
        if request.key != KEY:
            return error_response(
                401, f"Incorrect API key provided: {request.key}", "invalid_api_key"
            )
        if request.path == "/v1/embeddings":
            return JSONResponse(self._embeddings(request))
        if request.path == "/v1/chat/completions":
            return JSONResponse(completion(self.judge(request), self.usage))
        return error_response(404, f"Unknown request URL: POST {request.path}", "unknown_url")

    def _embeddings(self, request: ReceivedLlmRequest) -> JSON:
        rows = [
            {"object": "embedding", "index": index, "embedding": vector_of(text)}
            for index, text in enumerate(request.texts)
        ]
        # The reference promises no order, and some servers keep none.
        return {"object": "list", "data": rows[::-1], "model": EMBEDDER, "usage": self.usage}


def vector_of(text: str) -> list[float]:
    """A vector that the text decides: numbers between 0 and 1."""
    return [byte / 255 for byte in hashlib.sha256(text.encode()).digest()[:DIMENSIONS]]


def completion(content: str | None, usage: JSON | None = None, **message: Any) -> JSON:
    """A document as the API answers with."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": JUDGE,
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": content, **message},
            }
        ],
        "usage": usage,
    }


def error_response(status: int, message: str, code: str | None = None, **headers: str) -> Response:
    """An error as the API words it."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return JSONResponse(
        {"error": error}, status, {name.replace("_", "-"): text for name, text in headers.items()}
    )


class Silence(Response):
    """No answer until somebody releases it, and none then either."""

    def __init__(self, models: ModelService) -> None:
        super().__init__()
        self._models = models

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        # The end of the block releases it, or the server would wait for this connection.
        while not self._models.released.is_set():  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.01)


def once(answer: Response) -> Fault:
    """The first request gets this answer."""
    return times(1, answer)


def times(count: int, answer: Response) -> Fault:
    """The first requests get this answer."""
    remaining_replies = [answer] * count
    return lambda _: remaining_replies.pop() if remaining_replies else None


def always(answer: Response) -> Fault:
    """Every request gets this answer."""
    return lambda _: answer


@contextmanager
def model_server() -> Iterator[ModelService]:
    """The server, until the block ends."""
    models = ModelService()
    with serving(models) as client:
        # httpx ends a base URL with a slash.
        models.url = f"{client.base_url}/v1".replace("//v1", "/v1")
        try:
            yield models
        finally:
            models.released.set()


def short_retries(
    *, attempt_timeout_s: float, max_retries: int, first_wait_s: float, rate_limit_s: float = 10.0
) -> LlmRetryPolicy:
    """The retries of metrics, with shorter times."""
    backoff = ExponentialBackoff(first_s=first_wait_s, longest_s=30.0)
    return replace(
        COMPLETION_RETRIES,
        attempt_timeout_s=attempt_timeout_s,
        transient=RetryPolicy(backoff=backoff, max_retries=max_retries, max_retry_after_s=30.0),
        rate_limited=RetryPolicy(backoff=backoff, max_total_wait_s=rate_limit_s),
        unreadable=RetryPolicy(backoff=backoff, max_retries=1),
    )
