"""Requests to a model server: request bodies, responses and retries."""

import asyncio
from array import array
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pytest
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from mosaico.core.encryption import Secret
from mosaico.core.errors import Invalid
from mosaico.core.http.async_client import outbound_async_client
from mosaico.core.http.throttle import AsyncThrottle
from mosaico.core.network_policy import PRIVATE_SERVERS, PUBLIC_ONLY, RefusedAddress
from mosaico.llm.completion_pool import model_event_loop
from mosaico.llm.conversation import Usage
from mosaico.llm.errors import (
    LlmAuthError,
    LlmError,
    LlmErrorKind,
    LlmNotFoundError,
    LlmQuotaExceeded,
    LlmRedirected,
)
from mosaico.llm.types import (
    BatchResponse,
    ChatAnswer,
    ChatRequest,
    EmbeddingAnswer,
    EmbeddingRequest,
    ModelRequest,
    PromptMessage,
)
from tests.support.llm import (
    EMBEDDER,
    JUDGE,
    KEY,
    ModelService,
    ReceivedLlmRequest,
    Silence,
    always,
    completion,
    error_response,
    once,
    short_retries,
    times,
    vector_of,
)
from tests.support.model_waits import FakeSleep
from tests.support.references import Reference

if TYPE_CHECKING:
    from mosaico.llm.completions import CompletionClient

# The SDK takes half a second to import: one worker does it for all.
pytestmark = pytest.mark.xdist_group("sdks of models")
completions = Reference("mosaico.llm.completions")

RETRIES = short_retries(attempt_timeout_s=20.0, max_retries=2, first_wait_s=1.0, rate_limit_s=10.0)
CHAT_REQUEST = ChatRequest(
    model=JUDGE,
    messages=(
        PromptMessage(role="system", content="Judge."),
        PromptMessage(role="user", content="é \ud83d"),
    ),
    temperature=0.5,
    json_object=True,
)


T = TypeVar("T")


def run_in_model_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(coroutine, model_event_loop()).result()


class BlockingClient:
    """A client that is called from the thread of the test."""

    def __init__(self, client: "CompletionClient") -> None:
        self._client = client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        run_in_model_loop(self._client.close())

    def complete(self, batch: Sequence[ModelRequest]) -> BatchResponse:
        return run_in_model_loop(self._client.complete(batch))


@pytest.fixture
def sleep() -> FakeSleep:
    return FakeSleep()


@pytest.fixture
def client(models: ModelService, sleep: FakeSleep) -> Iterator[BlockingClient]:
    http = outbound_async_client(timeout_s=20, max_bytes=2**20, policy=PRIVATE_SERVERS)
    throttle = AsyncThrottle(sleep.clock, sleep)
    with BlockingClient(
        completions.new_client(
            models.access,
            http,
            retries=RETRIES,
            throttle=throttle,
            sleep=sleep,
            # Half of the jitter: each wait is half of its backoff.
            chance=lambda: 0.5,
        )
    ) as opened:
        yield opened


def texts(*contents: str) -> list[EmbeddingRequest]:
    return [EmbeddingRequest(model=EMBEDDER, text=text) for text in contents]


def test_client__chat_request_has_the_format_of_the_api(
    models: ModelService, client: BlockingClient
) -> None:
    models.usage = {"prompt_tokens": 12, "completion_tokens": 3, "cost": 0.0004}
    reply = client.complete([CHAT_REQUEST])
    assert reply.answers == (ChatAnswer(content='{"reason": "as good as it gets", "score": 0.75}'),)
    assert (reply.usage, reply.cost_usd) == (Usage(input_tokens=12, output_tokens=3), 0.0004)
    [received] = models.requests
    assert (received.path, received.key) == ("/v1/chat/completions", KEY)
    assert received.body == {
        "model": JUDGE,
        "messages": [
            {"role": "system", "content": "Judge."},
            {"role": "user", "content": "é \ufffd"},
        ],
        "temperature": 0.5,
        "response_format": {"type": "json_object"},
    }


def test_client__embeddings_keep_the_order_of_the_texts(
    models: ModelService, client: BlockingClient
) -> None:
    reply = client.complete(texts("one", "two", "three"))
    expected_answers = tuple(
        EmbeddingAnswer(array("f", vector_of(text))) for text in ("one", "two", "three")
    )
    assert reply.answers == expected_answers
    assert (reply.usage, reply.cost_usd) == (Usage(input_tokens=100, output_tokens=10), None)
    assert models.requests[0].body == {
        "model": EMBEDDER,
        "input": ["one", "two", "three"],
        "encoding_format": "float",
    }


@pytest.mark.parametrize("status", [408, 503])
def test_client__server_errors_are_retried_with_growing_waits(
    status: int, models: ModelService, client: BlockingClient, sleep: FakeSleep
) -> None:
    models.faults.append(times(2, error_response(status, "later")))
    client.complete([CHAT_REQUEST])
    assert len(models.requests) == 3
    assert sleep.seconds == [0.5, 1.0]  # half of 1 s and of 2 s


def test_client__raises_after_the_last_retry(
    models: ModelService, client: BlockingClient, sleep: FakeSleep
) -> None:
    models.faults.append(always(error_response(503, "the model is overloaded")))
    with pytest.raises(LlmError, match="503: the model is overloaded") as raised:
        client.complete([CHAT_REQUEST])
    assert raised.value.kind is LlmErrorKind.SERVER
    assert len(models.requests) == 3


def test_client__rate_limit_waits_for_retry_after(
    models: ModelService, client: BlockingClient, sleep: FakeSleep
) -> None:
    models.faults.append(
        once(error_response(429, "slow down", "rate_limit_exceeded", Retry_After="7"))
    )
    client.complete([CHAT_REQUEST])
    assert sleep.seconds == [7.0]
    assert len(models.requests) == 2


def test_client__rate_limit_beyond_the_total_wait_is_an_error(
    models: ModelService, client: BlockingClient
) -> None:
    # More than rate_limit_s (10 s) allows in total.
    models.faults.append(always(error_response(429, "slow down", Retry_After="60")))
    with pytest.raises(LlmError) as raised:
        client.complete([CHAT_REQUEST])
    assert raised.value.kind is LlmErrorKind.RATE_LIMITED
    assert len(models.requests) == 1


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (
            error_response(401, f"Incorrect API key: {KEY}"),
            LlmAuthError,
            r"401: Incorrect API key: \[redacted\]",
        ),
        (error_response(401, f"{'wrong ' * 32}{KEY}"), LlmAuthError, "Correct MOSAICO_LLM_API_KEY"),
        (error_response(403, "not yours"), LlmAuthError, "Correct MOSAICO_LLM_API_KEY"),
        (error_response(402, "pay first"), LlmQuotaExceeded, "402: pay first"),
        (
            error_response(429, "You exceeded it", "insufficient_quota"),
            LlmQuotaExceeded,
            "Top up the account",
        ),
        (error_response(404, "no model of that name"), LlmNotFoundError, "Correct the model name"),
        (RedirectResponse("http://elsewhere.example/"), LlmRedirected, "the new address"),
    ],
)
def test_client__final_errors_are_raised_without_a_retry(
    answer: Response,
    error: type[Invalid],
    message: str,
    models: ModelService,
    client: BlockingClient,
) -> None:
    models.faults.append(always(answer))
    with pytest.raises(error, match=message) as raised:
        client.complete([CHAT_REQUEST])
    assert KEY[:4] not in str(raised.value)  # nor its beginning, where the words are cut
    assert len(models.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        HTMLResponse("<html>Welcome</html>"),
        Response(b'{"choices": [{"mess', media_type="application/json"),
        JSONResponse({"choices": [{"text": "an older API"}]}),
    ],
)
def test_client__unreadable_response_is_retried_once(
    answer: Response, models: ModelService, client: BlockingClient
) -> None:
    models.faults.append(once(answer))
    client.complete([CHAT_REQUEST])
    assert len(models.requests) == 2
    models.faults = [always(answer)]
    with pytest.raises(LlmError) as raised:
        client.complete([CHAT_REQUEST])
    assert raised.value.kind is LlmErrorKind.UNREADABLE
    assert len(models.requests) == 4


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}],
        [{"index": 0, "embedding": []}, {"index": 1, "embedding": [1.0]}],
        [{"index": 0, "embedding": ["1"]}, {"index": 1, "embedding": [1.0]}],
        # Beyond a float of 32 bits.
        [{"index": 0, "embedding": [1e40]}, {"index": 1, "embedding": [1.0]}],
        [{"index": 0, "embedding": "AAA"}, {"index": 1, "embedding": [1.0]}],
        [{"index": 0}, {"index": 1}],
        "rows",
    ],
)
def test_client__invalid_embeddings_are_unreadable(
    rows: Any, models: ModelService, client: BlockingClient
) -> None:
    models.faults.append(always(JSONResponse({"data": rows})))
    with pytest.raises(LlmError) as raised:
        client.complete(texts("a", "b"))
    assert raised.value.kind is LlmErrorKind.UNREADABLE


def test_client__refusal_and_content_filter_are_answers_without_content(
    models: ModelService, client: BlockingClient
) -> None:
    refused = completion(None, refusal="I will not.")
    filtered = completion("")
    filtered["choices"][0]["finish_reason"] = "content_filter"
    models.faults += [once(JSONResponse(refused)), once(JSONResponse(filtered))]
    assert client.complete([CHAT_REQUEST]).answers == (
        ChatAnswer(content=None, refusal="I will not."),
    )
    [answer] = client.complete([CHAT_REQUEST]).answers
    assert answer == ChatAnswer(
        content=None, refusal="the content filter of the server withheld the answer"
    )


def test_client__rejected_parameters_are_omitted_from_then_on(
    models: ModelService, client: BlockingClient
) -> None:
    def picky(received: ReceivedLlmRequest) -> Response | None:
        for name in ("response_format", "temperature"):
            if name in received.body:
                return error_response(400, f"Unsupported parameter: '{name}' with this model.")
        return None

    models.faults.append(picky)
    client.complete([CHAT_REQUEST])
    client.complete([CHAT_REQUEST])
    assert [sorted(received.body) for received in models.requests] == [
        ["messages", "model", "response_format", "temperature"],
        ["messages", "model", "temperature"],
        ["messages", "model"],
        ["messages", "model"],
    ]


def test_client__other_bad_request_is_not_retried(
    models: ModelService, client: BlockingClient
) -> None:
    models.faults.append(always(error_response(400, "the field `seed` is unknown")))
    with pytest.raises(LlmError, match="400: the field") as raised:
        client.complete([CHAT_REQUEST])
    assert raised.value.kind is LlmErrorKind.REJECTED
    assert len(models.requests) == 1


def test_client__silent_server_times_out(models: ModelService) -> None:
    models.faults.append(always(Silence(models)))
    retries = short_retries(attempt_timeout_s=0.2, max_retries=1, first_wait_s=0.0)
    with (
        BlockingClient(
            completions.open_completions(models.access, policy=PRIVATE_SERVERS, retries=retries)
        ) as opened,
        pytest.raises(LlmError) as raised,
    ):
        opened.complete([CHAT_REQUEST])
    assert raised.value.kind in (LlmErrorKind.TIMEOUT, LlmErrorKind.UNREACHABLE)
    assert len(models.requests) == 2


def test_client__unreachable_server_and_refused_address(models: ModelService) -> None:
    nowhere = replace(models.access, base_url="http://127.0.0.1:1/v1", api_key=Secret("k"))
    no_waits = short_retries(attempt_timeout_s=20.0, max_retries=2, first_wait_s=0.0)
    with BlockingClient(
        completions.open_completions(nowhere, policy=PRIVATE_SERVERS, retries=no_waits)
    ) as opened:
        with pytest.raises(LlmError) as raised:
            opened.complete([CHAT_REQUEST])
        assert raised.value.kind is LlmErrorKind.UNREACHABLE
    with (
        BlockingClient(
            completions.open_completions(models.access, policy=PUBLIC_ONLY, retries=RETRIES)
        ) as opened,
        pytest.raises(RefusedAddress),
    ):
        opened.complete([CHAT_REQUEST])
    assert models.requests == []


def test_client__cancelled_while_it_waits_for_a_retry_sends_nothing_more(
    models: ModelService, sleep: FakeSleep
) -> None:
    class Cancelled(Exception):
        pass

    async def cancel(_: float) -> None:
        raise Cancelled

    models.faults.append(always(error_response(500, "later")))
    http = outbound_async_client(timeout_s=20, max_bytes=2**20, policy=PRIVATE_SERVERS)
    with (
        BlockingClient(
            completions.new_client(
                models.access, http, retries=RETRIES, throttle=AsyncThrottle(), sleep=cancel
            )
        ) as opened,
        pytest.raises(Cancelled),
    ):
        opened.complete([CHAT_REQUEST])
    assert len(models.requests) == 1
