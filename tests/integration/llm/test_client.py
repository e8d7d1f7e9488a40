"""One server of models, well and unwell: what is sent, what is read, what is tried again."""

from array import array
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from app.core.encryption import Secret
from app.core.errors import Invalid
from app.core.http.client import outbound_client
from app.core.http.network_policy import PRIVATE_SERVERS, PUBLIC_ONLY, RefusedAddress
from app.core.http.throttle import Throttle
from app.llm.client import Client, new_client
from app.llm.failures import (
    Kind,
    LlmAuthError,
    LlmNotFoundError,
    LlmQuotaExceeded,
    LlmRedirected,
    NoAnswer,
)
from app.llm.retry import Patience
from app.llm.types import (
    ChatAnswer,
    ChatRequest,
    EmbeddingAnswer,
    EmbeddingRequest,
    PromptMessage,
    Usage,
)
from tests.support.llm import (
    EMBEDDER,
    JUDGE,
    KEY,
    Asked,
    Models,
    Silence,
    always,
    completion,
    once,
    refusal,
    times,
    vector_of,
)

QUICK = Patience(request_s=20.0, retries=2, first_wait_s=1.0, rate_limit_s=10.0)
ASKED = ChatRequest(
    model=JUDGE,
    messages=(
        PromptMessage(role="system", content="Judge."),
        PromptMessage(role="user", content="é \ud83d"),
    ),
    temperature=0.5,
    json_object=True,
)


class Waits:
    """Counts what is waited for; only its own clock goes on meanwhile."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        if seconds:
            self.seconds.append(seconds)

    def clock(self) -> float:
        return sum(self.seconds)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def client(models: Models, waits: Waits) -> Iterator[Client]:
    with outbound_client(timeout_s=20, max_bytes=2**20, policy=PRIVATE_SERVERS) as http:
        yield Client(
            http,
            models.access,
            turns=Throttle(waits.clock),
            pause=waits,
            patience=QUICK,
            chance=lambda: 0.5,
        )


def texts(*given: str) -> list[EmbeddingRequest]:
    return [EmbeddingRequest(model=EMBEDDER, text=text) for text in given]


def test_a_conversation_is_sent_as_the_api_wants_it_and_answered(
    models: Models, client: Client
) -> None:
    models.usage = {"prompt_tokens": 12, "completion_tokens": 3, "cost": 0.0004}
    reply = client.ask([ASKED])
    assert reply.answers == (ChatAnswer(content='{"reason": "as good as it gets", "score": 0.75}'),)
    assert reply.usage == Usage(12, 3, 0.0004)
    [asked] = models.asked
    assert (asked.path, asked.key) == ("/v1/chat/completions", KEY)
    assert asked.body == {
        "model": JUDGE,
        "messages": [
            {"role": "system", "content": "Judge."},
            {"role": "user", "content": "é \ud83d"},
        ],
        "temperature": 0.5,
        "response_format": {"type": "json_object"},
    }


def test_texts_are_embedded_together_and_come_back_in_their_order(
    models: Models, client: Client
) -> None:
    reply = client.ask(texts("one", "two", "three"))
    wanted = tuple(EmbeddingAnswer(array("f", vector_of(text))) for text in ("one", "two", "three"))
    assert reply.answers == wanted
    assert reply.usage == Usage(100, 10, None)
    assert models.asked[0].body == {
        "model": EMBEDDER,
        "input": ["one", "two", "three"],
        "encoding_format": "float",
    }


def test_a_server_without_a_key_gets_none(models: Models) -> None:
    models.faults.append(always(JSONResponse(completion("fine"))))
    access = replace(models.access, api_key=None)
    with closing(
        new_client(access, policy=PRIVATE_SERVERS, pause=Waits(), patience=QUICK)
    ) as opened:
        assert opened.ask([ASKED]).answers == (ChatAnswer(content="fine"),)
    assert models.asked[0].key == ""


@pytest.mark.parametrize("status", [408, 500, 502, 503, 529])
def test_errors_of_the_server_are_tried_again_with_growing_waits(
    status: int, models: Models, client: Client, waits: Waits
) -> None:
    models.faults.append(times(2, refusal(status, "later")))
    client.ask([ASKED])
    assert len(models.asked) == 3
    assert waits.seconds == [0.5, 1.0]  # half of 1 s and of 2 s


def test_after_its_retries_a_request_has_no_answer(
    models: Models, client: Client, waits: Waits
) -> None:
    models.faults.append(always(refusal(503, "the model is overloaded")))
    with pytest.raises(NoAnswer, match="503 the model is overloaded") as raised:
        client.ask([ASKED])
    assert raised.value.failure.kind is Kind.SERVER
    assert len(models.asked) == 3


def test_a_rate_limit_is_waited_for_as_long_as_the_server_asks(
    models: Models, client: Client, waits: Waits
) -> None:
    models.faults.append(once(refusal(429, "slow down", "rate_limit_exceeded", Retry_After="7")))
    client.ask([ASKED])
    assert waits.seconds == [7.0]
    assert len(models.asked) == 2


def test_a_rate_limit_that_lasts_too_long_is_no_answer(models: Models, client: Client) -> None:
    models.faults.append(always(refusal(429, "slow down", Retry_After="60")))
    with pytest.raises(NoAnswer) as raised:
        client.ask([ASKED])
    assert raised.value.failure.kind is Kind.RATE_LIMITED
    assert len(models.asked) == 1


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (
            refusal(401, f"Incorrect API key: {KEY}"),
            LlmAuthError,
            r"401 Incorrect API key: \[redacted\]",
        ),
        (refusal(401, f"{'wrong ' * 32}{KEY}"), LlmAuthError, "Correct MOSAICO_LLM_API_KEY"),
        (refusal(403, "not yours"), LlmAuthError, "Correct MOSAICO_LLM_API_KEY"),
        (refusal(402, "pay first"), LlmQuotaExceeded, "402 pay first"),
        (
            refusal(429, "You exceeded it", "insufficient_quota"),
            LlmQuotaExceeded,
            "Top the account up",
        ),
        (refusal(404, "no model of that name"), LlmNotFoundError, "Correct the model's name"),
        (RedirectResponse("http://elsewhere.example/"), LlmRedirected, "the address it has now"),
    ],
)
def test_what_every_request_would_meet_is_told_at_once(
    answer: Response, error: type[Invalid], said: str, models: Models, client: Client
) -> None:
    models.faults.append(always(answer))
    with pytest.raises(error, match=said) as raised:
        client.ask([ASKED])
    assert KEY[:4] not in str(raised.value)  # nor its beginning, where the words are cut
    assert len(models.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        HTMLResponse("<html>Welcome</html>"),
        Response(b'{"choices": [{"mess', media_type="application/json"),
        JSONResponse([1]),
        JSONResponse({"choices": []}),
        JSONResponse({"choices": [{"text": "an older API"}]}),
        JSONResponse({}),
    ],
)
def test_an_answer_that_cannot_be_read_is_asked_for_once_more(
    answer: Response, models: Models, client: Client
) -> None:
    models.faults.append(once(answer))
    client.ask([ASKED])
    assert len(models.asked) == 2
    models.faults = [always(answer)]
    with pytest.raises(NoAnswer) as raised:
        client.ask([ASKED])
    assert raised.value.failure.kind is Kind.GARBLED
    assert len(models.asked) == 4


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}],
        [{"index": 0, "embedding": []}, {"index": 1, "embedding": [1.0]}],
        [{"index": 0, "embedding": ["1"]}, {"index": 1, "embedding": [1.0]}],
        [{"index": 0, "embedding": [1e40]}, {"index": 1, "embedding": [1.0]}],
        [{"index": 0, "embedding": "AAA"}, {"index": 1, "embedding": [1.0]}],
        [{"index": 0}, {"index": 1}],
        "rows",
    ],
)
def test_vectors_that_are_none_or_too_few_are_not_taken(
    rows: Any, models: Models, client: Client
) -> None:
    models.faults.append(always(JSONResponse({"data": rows})))
    with pytest.raises(NoAnswer) as raised:
        client.ask(texts("a", "b"))
    assert raised.value.failure.kind is Kind.GARBLED


def test_vectors_in_base64_are_read_too(models: Models, client: Client) -> None:
    # The floats 1.0 and -2.0, four bytes each, the lowest first.
    models.faults.append(always(JSONResponse({"data": [{"embedding": "AACAPwAAAMA="}]})))
    assert client.ask(texts("a")).answers == (EmbeddingAnswer(array("f", [1.0, -2.0])),)


def test_a_refusal_and_a_filter_are_answers_without_content(models: Models, client: Client) -> None:
    refused = completion(None, refusal="I will not.")
    filtered = completion("")
    filtered["choices"][0]["finish_reason"] = "content_filter"
    models.faults += [once(JSONResponse(refused)), once(JSONResponse(filtered))]
    assert client.ask([ASKED]).answers == (ChatAnswer(content=None, refusal="I will not."),)
    [answer] = client.ask([ASKED]).answers
    assert answer == ChatAnswer(content=None, refusal="a filter of the server held the answer back")


def test_what_a_model_refuses_to_be_told_is_left_out_from_then_on(
    models: Models, client: Client
) -> None:
    def picky(asked: Asked) -> Response | None:
        for name in ("response_format", "temperature"):
            if name in asked.body:
                return refusal(400, f"Unsupported parameter: '{name}' with this model.")
        return None

    models.faults.append(picky)
    client.ask([ASKED])
    client.ask([ASKED])
    assert [sorted(asked.body) for asked in models.asked] == [
        ["messages", "model", "response_format", "temperature"],
        ["messages", "model", "temperature"],
        ["messages", "model"],
        ["messages", "model"],
    ]


def test_a_request_that_is_refused_for_another_reason_has_no_answer(
    models: Models, client: Client
) -> None:
    models.faults.append(always(refusal(400, "maximum context length is 8 tokens")))
    with pytest.raises(NoAnswer, match="400 maximum context length") as raised:
        client.ask([ASKED])
    assert raised.value.failure.kind is Kind.REFUSED
    assert len(models.asked) == 1


def test_a_server_that_is_silent_is_given_up_at_the_deadline(models: Models) -> None:
    models.faults.append(always(Silence(models)))
    patience = Patience(request_s=0.2, retries=1, first_wait_s=0.0)
    with (
        closing(
            new_client(models.access, policy=PRIVATE_SERVERS, pause=Waits(), patience=patience)
        ) as opened,
        pytest.raises(NoAnswer) as raised,
    ):
        opened.ask([ASKED])
    assert raised.value.failure.kind in (Kind.SILENT, Kind.UNREACHABLE)
    assert len(models.asked) == 2


def test_nobody_there_is_no_answer_and_what_is_not_called_is_refused(models: Models) -> None:
    nowhere = replace(models.access, base_url="http://127.0.0.1:1/v1", api_key=Secret("k"))
    with closing(
        new_client(nowhere, policy=PRIVATE_SERVERS, pause=Waits(), patience=QUICK)
    ) as opened:
        with pytest.raises(NoAnswer) as raised:
            opened.ask([ASKED])
        assert raised.value.failure.kind is Kind.UNREACHABLE
    with (
        closing(
            new_client(models.access, policy=PUBLIC_ONLY, pause=Waits(), patience=QUICK)
        ) as opened,
        pytest.raises(RefusedAddress),
    ):
        opened.ask([ASKED])
    assert models.asked == []


def test_whoever_pauses_may_leave(models: Models) -> None:
    class Left(Exception):
        pass

    def leave(seconds: float) -> None:
        raise Left

    models.faults.append(always(refusal(500, "later")))
    stop: Callable[[float], None] = leave
    with (
        closing(
            new_client(models.access, policy=PRIVATE_SERVERS, pause=stop, patience=QUICK)
        ) as opened,
        pytest.raises(Left),
    ):
        opened.ask([ASKED])
    assert len(models.asked) == 1
