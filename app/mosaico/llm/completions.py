"""Single requests of metrics to a server with OpenAI's API: chat completions and embeddings.

Imports the SDK, which takes half a second: import it only where requests are sent.

Source: OpenAI API reference, "Create chat completion" and "Create embeddings"; the `cost` of a
usage is an extension of OpenRouter.
"""

import asyncio
import base64
import binascii
import math
import random
from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

import httpx2
import openai

from mosaico.core.errors import AppError
from mosaico.core.http.async_client import outbound_async_client
from mosaico.core.http.throttle import AsyncThrottle, get_async_throttle
from mosaico.core.llm_server import LlmServer
from mosaico.core.network_policy import OutboundPolicy, RefusedAddress
from mosaico.core.strict_json import is_number
from mosaico.core.text import replace_unstorable
from mosaico.llm.conversation import Provider, Usage
from mosaico.llm.errors import (
    LlmAuthError,
    LlmError,
    LlmErrorKind,
    LlmNotFoundError,
    LlmQuotaExceeded,
    LlmRedirected,
)
from mosaico.llm.model_families import Sampling, family_of
from mosaico.llm.openai_chat import ERRORS, open_openai, read_choice
from mosaico.llm.response_reader import (
    JSON,
    read_response,
    read_text,
    read_token_count,
    read_usage,
    unreadable,
)
from mosaico.llm.retry import LlmRetryPolicy, Sleep, call_with_retries
from mosaico.llm.sdk import ProviderAccess, call_sdk
from mosaico.llm.types import (
    BatchResponse,
    ChatAnswer,
    ChatRequest,
    EmbeddingAnswer,
    EmbeddingRequest,
    ModelAnswer,
    RequestBatch,
)

# A batch of embeddings as JSON text takes about 20 bytes per number.
MAX_RESPONSE_BYTES: Final = 32 * 1024 * 1024

# Parameters that some models and servers reject; the request is repeated without them.
OPTIONAL_PARAMETERS: Final = ("response_format", "temperature")
# Servers disagree on which of the two an unknown parameter is.
_INVALID_STATUSES: Final = (400, 422)

_NO_API_KEY: Final = "none"  # the SDK requires one
# Without a key no header is sent, instead of the placeholder that the SDK requires.
_NO_AUTHORIZATION: Final[openai.RequestOptions] = {"headers": {"Authorization": openai.Omit()}}


class CompletionClient:
    """Sends batches to one server; belongs to one event loop.

    Raises, from `complete`: `LlmError` when one batch failed, and the errors of `mosaico.llm.errors`
    that end the step of a run.
    """

    def __init__(
        self,
        sdk: openai.AsyncOpenAI,
        *,
        throttle: AsyncThrottle,
        retries: LlmRetryPolicy,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._sdk = sdk
        self._options = _NO_AUTHORIZATION if sdk.api_key == _NO_API_KEY else openai.RequestOptions()
        self._throttle = throttle
        self._retries = retries
        self._sleep = sleep
        self._chance = chance
        # By model: one server serves models that differ in what they accept.
        self._rejected_parameters: dict[str, frozenset[str]] = {}

    async def close(self) -> None:
        """Close the connections."""
        await self._sdk.close()

    async def complete(self, batch: RequestBatch) -> BatchResponse:
        """The answers to a batch."""
        # A batch of several texts that timed out is better split than sent again as it is.
        policies = replace(self._retries, retry_timeouts=len(batch) == 1)
        try:
            return await call_with_retries(
                lambda: self._attempt(batch),
                policies,
                sleep=self._sleep,
                chance=self._chance,
                on_rate_limit=self._throttle.delay_requests,
            )
        except LlmError as error:
            raise error_of_run(error, wire_request(batch).path) or error from None

    async def _attempt(self, batch: RequestBatch) -> BatchResponse:
        path, body = wire_request(batch)
        # Ends: each round drops at least one of the two optional parameters, or returns, or raises.
        while True:
            rejected = self._rejected_parameters.get(body["model"], frozenset())
            body = {name: value for name, value in body.items() if name not in rejected}
            try:
                response = await self._post(path, body)
            except LlmError as error:
                if not self._drop_rejected_parameters(body, error):
                    raise
            else:
                return read_response(response.content, lambda document: read_batch(batch, document))

    async def _post(self, path: str, body: JSON) -> httpx2.Response:
        # Inside the retry loop: a slot is not held while an attempt waits for its retry.
        async with self._throttle.slot():
            return await call_sdk(
                lambda: self._sdk.post(
                    path, body=body, options=self._options, cast_to=httpx2.Response
                ),
                ERRORS,
                self._retries.attempt_timeout_s,
            )

    def _drop_rejected_parameters(self, body: JSON, error: LlmError) -> bool:
        """Omit an optional parameter that the model rejected; return whether there was one."""
        if error.status not in _INVALID_STATUSES:
            return False
        # The name in the message is the only sign that all servers have in common.
        rejected = {name for name in OPTIONAL_PARAMETERS if name in body and name in error.reason}
        earlier = self._rejected_parameters.get(body["model"], frozenset())
        self._rejected_parameters[body["model"]] = earlier | rejected
        return bool(rejected)


def open_completions(
    access: LlmServer, *, policy: OutboundPolicy, retries: LlmRetryPolicy
) -> CompletionClient:
    """A client that shares its throttle with all others of this process for the same server."""
    timeout_s = retries.attempt_timeout_s
    # Our own client below the SDK, so that the network policy applies to model servers, too.
    http = outbound_async_client(timeout_s=timeout_s, max_bytes=MAX_RESPONSE_BYTES, policy=policy)
    return new_client(access, http, throttle=get_async_throttle(access.base_url), retries=retries)


def new_client(
    access: LlmServer, http: httpx2.AsyncClient, *, retries: LlmRetryPolicy, **options: Any
) -> CompletionClient:
    """A client over an HTTP client; `options` are those of `CompletionClient`."""
    api_key = access.api_key.reveal() if access.api_key else None
    provider = ProviderAccess(api_key or _NO_API_KEY, access.base_url, http)
    sdk = open_openai(provider, retries.attempt_timeout_s)
    return CompletionClient(sdk, retries=retries, **options)


def error_of_run(error: LlmError, path: str) -> AppError | None:
    """The error that ends the step of a run; None when only this batch failed.

    `path` names the request for the user.
    """
    response = f"The model server answered {path} with {error.reason}"
    match error.kind:
        case LlmErrorKind.AUTH:
            return LlmAuthError(f"{response}. Correct MOSAICO_LLM_API_KEY.")
        case LlmErrorKind.QUOTA:
            return LlmQuotaExceeded(f"{response}. Top up the account, then retry the run.")
        case LlmErrorKind.NOT_FOUND:
            return LlmNotFoundError(f"{response}. Correct the model name or MOSAICO_LLM_BASE_URL.")
        case LlmErrorKind.REDIRECTED:
            return LlmRedirected(f"{response}. Set MOSAICO_LLM_BASE_URL to the new address.")
        case LlmErrorKind.REFUSED_ADDRESS:
            return RefusedAddress(error.reason)
        case _:
            return None


class WireRequest(NamedTuple):
    """The path below the address of the API, and the body."""

    path: str
    body: JSON


def wire_request(batch: RequestBatch) -> WireRequest:
    """The HTTP request for a batch."""
    first = batch[0]
    # Lone surrogates are replaced because the SDK cannot encode them.
    if isinstance(first, ChatRequest):
        return WireRequest("/chat/completions", _chat_body(first))
    texts = [
        replace_unstorable(request.text)
        for request in batch
        if isinstance(request, EmbeddingRequest)
    ]
    body = {"model": first.model, "input": texts, "encoding_format": "float"}
    return WireRequest("/embeddings", body)


def read_batch(batch: RequestBatch, document: JSON) -> BatchResponse:
    """The answers in the order of the batch. Raises: LlmError."""
    answers: tuple[ModelAnswer, ...]
    if isinstance(batch[0], ChatRequest):
        answers = (_chat_answer(document),)
    else:
        answers = _embeddings(document, len(batch))
    usage = document.get("usage")
    tokens = read_usage(usage, "prompt_tokens", "completion_tokens") or Usage(
        input_tokens=read_token_count(usage, "prompt_tokens") or 0,
        output_tokens=read_token_count(usage, "completion_tokens") or 0,
    )
    return BatchResponse(answers, tokens, _cost_usd(usage))


def _chat_body(request: ChatRequest) -> JSON:
    body: JSON = {
        "model": request.model,
        "messages": [
            {"role": message.role, "content": replace_unstorable(message.content)}
            for message in request.messages
        ],
    }
    if family_of(Provider.OPENAI, request.model).sampling is Sampling.YES:
        body["temperature"] = request.temperature
    if request.json_object:
        body["response_format"] = {"type": "json_object"}
    return body


def _chat_answer(document: JSON) -> ChatAnswer:
    choice, message = read_choice(document)
    refusal = message.get("refusal")
    # A filtered answer may contain the beginning of a text, which must not be scored as an answer.
    if not refusal and choice.get("finish_reason") == "content_filter":
        refusal = "the content filter of the server withheld the answer"
    return ChatAnswer(
        content=replace_unstorable(read_text(message.get("content") or "")) or None,
        refusal=replace_unstorable(str(refusal)) if refusal else None,
    )


def _embeddings(document: JSON, count: int) -> tuple[ModelAnswer, ...]:
    rows = document.get("data")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise unreadable("it has no list `data`")
    # The order of the rows is not specified; without indexes it is that of the request.
    indexes = [row.get("index", position) for position, row in enumerate(rows)]
    # `key=str`, because an index of a broken server may be of any type, and Python does not order
    # different types.
    if sorted(indexes, key=str) != sorted(range(count), key=str):
        raise unreadable(f"it has {len(rows)} vectors for {count} texts")
    vectors = dict(zip(indexes, (_vector(row.get("embedding")) for row in rows), strict=True))
    return tuple(EmbeddingAnswer(vectors[index]) for index in range(count))


def _vector(embedding: object) -> "array[float]":
    # 4 bytes per number, as stored: a list of Python floats takes eight times as much.
    vector = array("f")
    try:
        if isinstance(embedding, str):  # some servers send base64 whatever the request says
            vector.frombytes(base64.b64decode(embedding, validate=True))
        elif isinstance(embedding, list):
            vector.extend(embedding)
    except (TypeError, ValueError, OverflowError, binascii.Error):
        raise unreadable("an embedding is not a list of numbers") from None
    # A NaN would make every similarity of this text NaN.
    if not vector or not all(map(math.isfinite, vector)):
        raise unreadable("an embedding is not a list of numbers")
    return vector


def _cost_usd(usage: object) -> float | None:
    cost = usage.get("cost") if isinstance(usage, dict) else None
    if not is_number(cost) or not 0 <= cost < math.inf:
        return None
    return float(cost)
