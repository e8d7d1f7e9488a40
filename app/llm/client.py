"""Requests to one server of models; a failure is retried as it deserves."""

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Final

import httpx

from app.core.http.client import outbound_client
from app.core.http.network_policy import OutboundPolicy
from app.core.http.throttle import Pause, Throttle, get_throttle
from app.core.http.transport import OversizedResponse
from app.core.resources import LlmAccess
from app.llm.failures import (
    Failure,
    Kind,
    NoAnswer,
    failure_of_answer,
    failure_of_error,
    fatal_error,
)
from app.llm.retry import Patience, wait_before_retry
from app.llm.types import ModelRequest
from app.llm.wire import JSON, Reply, Sent, Unreadable, read_reply, sent

MAX_BYTES: Final = 32 * 1024 * 1024

# What some models and servers refuse to be told; they are asked again without it.
DISPENSABLE: Final = ("response_format", "temperature")


class Client:
    """Asks the models of one server; several threads may use it together.

    Raises, from `ask`: `NoAnswer` for a failure of that request, what `failures` lists for one
    that every request would meet, and whatever `pause` raises to end a wait.
    """

    def __init__(
        self,
        http: httpx.Client,
        access: LlmAccess,
        *,
        turns: Throttle,
        pause: Pause,
        patience: Patience,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._http = http
        self._base = access.base_url.rstrip("/")
        self._secret = access.api_key.reveal() if access.api_key else None
        self._turns = turns
        self._pause = pause
        self._patience = patience
        self._chance = chance
        self._lock = threading.Lock()
        self._refused: dict[str, frozenset[str]] = {}

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def ask(self, batch: Sequence[ModelRequest]) -> Reply:
        """The answers of one conversation, or of any number of texts for one model."""
        failures: Counter[Kind] = Counter()
        waited_s = 0.0
        while True:
            path, body = self._sent(batch)
            answer = self._attempt(batch, path, body)
            if not isinstance(answer, Failure):
                return answer
            if self._dispenses(body, answer):
                continue
            fatal = fatal_error(answer, path)
            if fatal is not None:
                raise fatal
            wait_s = wait_before_retry(
                answer,
                attempt=failures[answer.kind],
                waited_s=waited_s,
                chance=self._chance(),
                patience=self._patience,
                divisible=len(batch) > 1,
            )
            if wait_s is None:
                raise NoAnswer(answer)
            failures[answer.kind] += 1
            waited_s += wait_s
            if answer.kind is Kind.RATE_LIMITED:
                self._turns.delay_requests(wait_s)
            self._pause(wait_s)

    def _sent(self, batch: Sequence[ModelRequest]) -> Sent:
        path, body = sent(batch)
        refused = self._refused.get(body["model"], frozenset())
        return Sent(path, {name: value for name, value in body.items() if name not in refused})

    def _attempt(self, batch: Sequence[ModelRequest], path: str, body: JSON) -> Reply | Failure:
        with self._turns.slot(self._pause):
            try:
                response = self._http.post(
                    self._base + path, content=json.dumps(body), headers=self._headers()
                )
            except (httpx.HTTPError, OversizedResponse) as error:
                return failure_of_error(error)
        if not response.is_success:
            return failure_of_answer(response)
        try:
            return read_reply(batch, _document(response))
        except Unreadable as error:
            return Failure(kind=Kind.GARBLED, detail=str(error))

    def _dispenses(self, body: JSON, failure: Failure) -> bool:
        """Whether the model refused something that it need not be told; it is left out then."""
        if failure.status not in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY):
            return False
        named = {name for name in DISPENSABLE if name in body and name in failure.detail}
        with self._lock:
            known = self._refused.get(body["model"], frozenset())
            self._refused[body["model"]] = known | named
        return bool(named)

    def _headers(self) -> dict[str, str]:
        key = {} if self._secret is None else {"Authorization": f"Bearer {self._secret}"}
        return {"Content-Type": "application/json", **key}


def new_client(
    access: LlmAccess, *, policy: OutboundPolicy, pause: Pause, patience: Patience
) -> Client:
    """A client that takes turns with all others of this process at the same server; close it."""
    http = outbound_client(timeout_s=patience.request_s, max_bytes=MAX_BYTES, policy=policy)
    return Client(http, access, turns=get_throttle(access.base_url), pause=pause, patience=patience)


def _document(response: httpx.Response) -> JSON:
    try:
        content: Any = json.loads(response.content)
    except (ValueError, RecursionError) as error:
        kind = response.headers.get("content-type", "").partition(";")[0]
        raise Unreadable(f"the answer is no JSON ({kind or 'no type'}, {error})"[:200]) from None
    if not isinstance(content, dict):
        raise Unreadable("the answer is no JSON object")
    return content
