"""The failures of a provider that are retried, and the wait before each retry."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from mosaico.core.console.files import InvalidInput
from mosaico.llm.conversation import Provider, TurnSettings, Usage
from mosaico.llm.errors import LlmError, LlmErrorKind
from mosaico.llm.prices import Price, read_price
from mosaico.llm.providers import MissingKey, open_llm
from mosaico.llm.response_reader import read_arguments, read_text, read_turn, read_usage
from mosaico.llm.retry import call_with_retries
from mosaico.llm.sdk import SdkErrors, call_sdk, error_of_response
from tests.support.references import Reference

# The SDKs take a second to import each: one process does it for all.
pytestmark = pytest.mark.xdist_group("sdks of models")
anthropic_messages = Reference("mosaico.llm.anthropic_messages")
openai_chat = Reference("mosaico.llm.openai_chat")
JSON = dict[str, Any]


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


# Sources: the error codes of OpenAI, Anthropic and OpenRouter.
@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (429, {"code": "organization_spend_limit_exceeded", "message": "m"}, LlmErrorKind.QUOTA),
        (429, {"code": "organization_usage_limit_exceeded", "message": "m"}, LlmErrorKind.QUOTA),
        (429, {"code": "credit_balance_exhausted", "message": "m"}, LlmErrorKind.QUOTA),
        (
            429,
            {
                "type": "rate_limit_error",
                "message": "m",
                "details": {"error_code": "enforced_spend_limit_reached"},
            },
            LlmErrorKind.QUOTA,
        ),
        (
            400,
            {"type": "invalid_request_error", "message": "You have reached your usage limits."},
            LlmErrorKind.QUOTA,
        ),
        (429, {"code": "slow_down", "message": "m"}, LlmErrorKind.RATE_LIMITED),
        (429, {"code": "ramp_limit_exceeded", "message": "m"}, LlmErrorKind.RATE_LIMITED),
        (402, {"code": "in_flight_budget_exhausted", "message": "m"}, LlmErrorKind.RATE_LIMITED),
        (402, {"code": 402, "message": "Insufficient credits"}, LlmErrorKind.QUOTA),
        (
            403,
            {"code": 403, "message": "m", "metadata": {"reasons": ["violence"]}},
            LlmErrorKind.CONTENT_FILTER,
        ),
        (403, {"code": 403, "message": "The key is disabled"}, LlmErrorKind.AUTH),
    ],
)
def test_error__is_classed_by_its_code(status: int, error: JSON, kind: LlmErrorKind) -> None:
    """No wait refills an account; a flagged prompt says nothing about the key."""
    failure = error_of_response(StatusError(status, json.dumps({"error": error})).response)
    assert failure.kind is kind
    # The list of Gemini's errors says the same.
    listed = error_of_response(StatusError(status, json.dumps([{"error": error}])).response)
    assert (listed.kind, listed.reason) == (kind, failure.reason)


def test_moderation__names_its_reasons() -> None:
    error = {"code": 403, "message": "m", "metadata": {"reasons": ["violence", "self-harm"]}}
    failure = error_of_response(StatusError(403, json.dumps({"error": error})).response)
    assert "violence, self-harm" in failure.reason
    assert not failure.final


def test_retry_after__in_milliseconds_comes_first() -> None:
    error = StatusError(429, retry_after="9")
    error.response.headers["retry-after-ms"] = "1500"
    assert waits(error) == [1.5]


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
    turn = anthropic_messages.read_message(
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


def test_cached_tokens__more_than_the_input_are_not_counted() -> None:
    usage = {"input_tokens": 5, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 9}}
    read = read_usage(usage, "input_tokens", "output_tokens")
    assert read == Usage(input_tokens=5, output_tokens=1)


@pytest.mark.parametrize(("total", "output"), [(160, 60), (110, 10), (0, 10), (None, 10)])
def test_thoughts__outside_of_the_output_are_output_too(total: int | None, output: int) -> None:
    """100 tokens were read and 10 written; 50 thoughts are in the total alone, and are paid for."""
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": total}
    read = read_usage(usage, "prompt_tokens", "completion_tokens")
    assert read == Usage(input_tokens=100, output_tokens=output)


def test_answer__cut_for_lack_of_resources_is_a_fault_of_the_server() -> None:
    message = {"content": "I was ab"}
    choice = {"finish_reason": "insufficient_system_resource", "message": message}
    with pytest.raises(LlmError) as failed:
        openai_chat.read_completion({"choices": [choice]})
    assert failed.value.transient


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


def test_read_text__joins_the_parts_of_a_text() -> None:
    assert (
        read_text([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}])
        == "ab"
    )
    with pytest.raises(TypeError):
        read_text([{"type": "text", "text": 1}])


@pytest.mark.parametrize(("levels", "is_read"), [(40, True), (200, False)])
def test_message__nested_too_deep_to_be_stored_is_unreadable(levels: int, *, is_read: bool) -> None:
    """What is kept as it came is stored too: writers of JSON fail at a few hundred levels."""
    details: Any = "end"
    for _ in range(levels):
        details = [details]
    message = {"content": "Hi.", "reasoning_details": details}
    body = json.dumps({"choices": [{"message": message}]}).encode()
    if is_read:
        assert read_turn(body, openai_chat.read_completion).message.text() == "Hi."
    else:
        with pytest.raises(LlmError, match="nested more than"):
            read_turn(body, openai_chat.read_completion)


def test_chat__call_that_is_no_function_is_not_sent_back() -> None:
    custom = {"id": "c", "type": "custom", "custom": {"name": "x", "input": "y"}}
    message = {"content": "Hi.", "tool_calls": [custom]}
    turn = openai_chat.read_completion({"choices": [{"message": message}]})
    assert openai_chat.wire_messages(turn.message) == [{"role": "assistant", "content": "Hi."}]
