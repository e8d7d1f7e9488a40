"""The failures of a provider that are retried, and the wait before each retry."""

import asyncio
from pathlib import Path
from typing import Final

import httpx2
import pytest

from mosaico.core.console.files import InvalidInput
from mosaico.llm.anthropic_messages import read_message
from mosaico.llm.conversation import Provider, TurnSettings, Usage
from mosaico.llm.errors import LlmError
from mosaico.llm.prices import Price, read_price
from mosaico.llm.providers import MissingKey, open_llm
from mosaico.llm.response_reader import read_arguments, read_usage
from mosaico.llm.retry import call_with_retries
from mosaico.llm.sdk import SdkErrors, call_sdk


class SdkError(Exception):
    """Any exception of an SDK."""


class NoConnection(SdkError):
    """No response at all."""


class StatusError(SdkError):
    """A response with an error status."""

    def __init__(self, status: int, message: str = "", retry_after: str | None = None) -> None:
        headers = {"retry-after": retry_after} if retry_after else {}
        # Servers repeat the key of a request in the text of the error.
        request = httpx2.Request("POST", "http://a/", headers={"Authorization": "Bearer sekret"})
        super().__init__(message)
        self.response = httpx2.Response(status, headers=headers, text=message, request=request)


ERRORS = SdkErrors(status=StatusError, connection=NoConnection, any=SdkError)


def waits(*errors: Exception) -> list[float]:
    """How long is waited for an answer that comes after these errors."""
    remaining = list(errors)
    waited: list[float] = []

    async def respond() -> str:
        if remaining:
            raise remaining.pop(0)
        return "answer"

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async def attempt() -> str:
        return await call_sdk(respond, ERRORS, 60.0)

    assert asyncio.run(call_with_retries(attempt, sleep=sleep)) == "answer"
    return waited


def test_turn_retries__waits_double() -> None:
    assert waits() == []
    assert waits(*[StatusError(500)] * 4) == [2.0, 4.0, 8.0, 16.0]
    assert waits(NoConnection(), StatusError(529), StatusError(429)) == [2.0, 4.0, 8.0]


def test_turn_retries__retry_after_is_respected_up_to_a_limit() -> None:
    # Without a wait of the server the second one is that of a second failure: 4 s.
    assert waits(StatusError(429, retry_after="7"), StatusError(503, retry_after="0")) == [7.0, 4.0]
    # A proxy may ask for a day; the limit of a turn is two minutes.
    assert waits(StatusError(429, retry_after="86400")) == [120.0]


def test_turn_retries__fifth_failure_is_raised() -> None:
    with pytest.raises(LlmError, match="500: down") as failed:
        waits(*[StatusError(500, "down")] * 5)
    assert not failed.value.final


@pytest.mark.parametrize(
    "error",
    [
        StatusError(401),
        StatusError(402),
        StatusError(403),
        StatusError(404),
        # OpenAI answers 429 and Anthropic 400 when an account has no money: to wait is of no use.
        StatusError(429, "You exceeded your current quota"),
        StatusError(400, "see plans and billing"),
    ],
)
def test_turn_retries__key_and_quota_errors_are_final(error: StatusError) -> None:
    with pytest.raises(LlmError) as failed:
        waits(error)
    assert failed.value.final


def test_turn_retries__rejected_request_is_not_final() -> None:
    with pytest.raises(LlmError) as failed:
        waits(StatusError(400, "too long"))
    assert not failed.value.final


def test_open_llm__requires_a_key_from_the_environment() -> None:
    settings = TurnSettings()
    for provider in (Provider.ANTHROPIC, Provider.OPENAI, Provider.OPENAI_RESPONSES):
        with pytest.raises(MissingKey):
            open_llm(provider, "m", base_url=None, settings=settings, environment={})


def test_price__is_dollars_per_million_tokens(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text('{"m": {"input": 2, "output": 10}}')
    price = read_price(path, "m")
    assert price == Price(input_usd=2.0, output_usd=10.0)
    assert price.of(Usage(input_tokens=500_000, output_tokens=100_000)) == 2.0
    assert read_price(path, "other") is None


CACHED: Final = Price(input_usd=2.0, output_usd=10.0, cached_input_usd=0.2, cache_write_usd=2.5)


def test_cached_tokens__have_their_own_price() -> None:
    """Of 1,100 input tokens 1,024 are cached: 76 * 2 + 1,024 * 0.2 + 10 * 10 = 456.8 millionths."""
    details = {"prompt_tokens_details": {"cached_tokens": 1024}}
    chat = read_usage(
        {"prompt_tokens": 1100, "completion_tokens": 10, **details},
        "prompt_tokens",
        "completion_tokens",
    )
    assert chat is not None
    assert CACHED.of(chat) == pytest.approx(456.8e-6)
    # Without a price of cached tokens they cost as much as others: 1,100 * 2 + 100.
    assert Price(input_usd=2.0, output_usd=10.0).of(chat) == pytest.approx(2300e-6)


def test_cached_tokens__of_messages_are_input_too() -> None:
    """76 * 2 + 1,024 * 0.2 + 200 * 2.5 + 10 * 10 = 956.8 millionths."""
    turn = read_message(
        {
            "content": [],
            "usage": {
                "input_tokens": 76,
                "output_tokens": 10,
                "cache_read_input_tokens": 1024,
                "cache_creation_input_tokens": 200,
            },
        }
    )
    assert turn.usage is not None
    assert turn.usage.input_tokens == 1300
    assert CACHED.of(turn.usage) == pytest.approx(956.8e-6)


def test_price__of_cached_tokens_is_read(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text('{"m": {"input": 2, "output": 10, "cached_input": 0.2, "cache_write": 2.5}}')
    assert read_price(path, "m") == CACHED


@pytest.mark.parametrize(
    "text",
    [
        '{"m": 3}',
        '{"m": {"input": 1, "output": 2, "cached_input": "x"}}',
        '{"m": {"input": 1}}',
        '{"m": {"input": -1, "output": 1}}',
    ],
)
def test_price__invalid_entry_is_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(InvalidInput):
        read_price(path, "m")


@pytest.mark.parametrize(("levels", "flawed"), [(64, False), (65, True), (100_000, True)])
def test_read_arguments__limits_the_nesting_depth(levels: int, flawed: bool) -> None:
    """The object itself is the first level."""
    lists = "[" * (levels - 1) + "]" * (levels - 1)
    parsed = read_arguments(f'{{"a": {lists}}}')
    assert (parsed.error is not None) is flawed
    assert not flawed or parsed.arguments == {}


# Above 2⁵³ a number of JSON is not exact, and sums of it are wrong.
@pytest.mark.parametrize("count", [-5, 2**53, 10**22, 1.5, True, None, "7"])
def test_read_usage__impossible_token_count_is_unknown(count: object) -> None:
    """A limit could be bought back with less than none."""
    assert read_usage({"read": count, "written": 1}, "read", "written") is None
    assert read_usage({"read": 0, "written": 2**53 - 1}, "read", "written") is not None


def test_error_translation__api_key_in_the_response_is_redacted() -> None:
    async def respond() -> None:
        raise StatusError(401, "no such key: sekret")

    with pytest.raises(LlmError) as raised:
        asyncio.run(call_sdk(respond, ERRORS, 60.0))
    assert raised.value.reason == "401: no such key: [redacted]"
