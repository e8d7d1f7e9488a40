"""Which failures of a provider are tried again, and after how long."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

from app.core.console.input_files import BadInput
from app.llm.answers import read_arguments, read_usage, text_of
from app.llm.calling import SdkErrors, call_with_retries
from app.llm.conversation import LlmError, Provider, TurnSettings
from app.llm.prices import Price, read_price
from app.llm.providers import MissingKey, open_llm


class Trouble(Exception):
    """Anything that an SDK raises."""


class NoConnection(Trouble):
    """No answer at all."""


@dataclass
class Headers:
    headers: Mapping[str, str]


@dataclass
class Refused(Trouble):
    """An answer that is an error."""

    status_code: int
    message: str = ""
    retry_after: str | None = None
    request: httpx2.Request | None = None
    response: Headers = field(init=False)

    def __post_init__(self) -> None:
        self.response = Headers({"retry-after": self.retry_after} if self.retry_after else {})

    def __str__(self) -> str:
        return self.message


ERRORS = SdkErrors(status=Refused, connection=NoConnection, any=Trouble)


def waits(*errors: Exception) -> list[float]:
    """How long is waited for an answer that comes after these errors."""
    left = list(errors)
    waited: list[float] = []

    async def call() -> str:
        if left:
            raise left.pop(0)
        return "answer"

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    assert asyncio.run(call_with_retries(call, ERRORS, sleep=sleep)) == "answer"
    return waited


def test_waits_double() -> None:
    assert waits() == []
    assert waits(*[Refused(500)] * 4) == [2.0, 4.0, 8.0, 16.0]
    assert waits(NoConnection(), Refused(529), Refused(429)) == [2.0, 4.0, 8.0]


def test_the_server_may_say_how_long_but_not_for_ever() -> None:
    assert waits(Refused(429, retry_after="7"), Refused(503, retry_after="0")) == [7.0, 4.0]
    assert waits(Refused(429, retry_after="86400")) == [120.0]


@pytest.mark.parametrize("said", ["soon", "nan", "-3", "inf"])
def test_a_wait_that_is_none_is_not_heeded(said: str) -> None:
    assert waits(Refused(429, retry_after=said)) == [2.0]


def test_a_fifth_failure_is_the_last() -> None:
    with pytest.raises(LlmError, match="500: down") as failed:
        waits(*[Refused(500, "down")] * 5)
    assert not failed.value.final


@pytest.mark.parametrize(
    "error",
    [
        Refused(401),
        Refused(402),
        Refused(403),
        Refused(404),
        Refused(429, "You exceeded your current quota"),
        Refused(400, "see plans and billing"),
    ],
)
def test_keys_and_accounts_are_not_mended_by_waiting(error: Refused) -> None:
    with pytest.raises(LlmError) as failed:
        waits(error)
    assert failed.value.final


def test_a_refused_request_is_not_sent_again_and_others_are() -> None:
    with pytest.raises(LlmError) as failed:
        waits(Refused(400, "too long"))
    assert not failed.value.final


def test_keys_come_from_the_environment_alone() -> None:
    settings = TurnSettings()
    for provider in (Provider.ANTHROPIC, Provider.OPENAI, Provider.OPENAI_RESPONSES):
        with pytest.raises(MissingKey):
            open_llm(provider, "m", base_url=None, settings=settings, environment={})


def test_a_price_is_dollars_for_a_million_tokens(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text('{"m": {"input": 2, "output": 10}}')
    price = read_price(path, "m")
    assert price == Price(input_usd=2.0, output_usd=10.0)
    assert price.of(500_000, 100_000) == 2.0
    assert read_price(path, "other") is None


@pytest.mark.parametrize(
    "text", ['{"m": 3}', '{"m": {"input": 1}}', '{"m": {"input": -1, "output": 1}}']
)
def test_a_price_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(BadInput):
        read_price(path, "m")


@pytest.mark.parametrize(("levels", "flawed"), [(64, False), (65, True), (100_000, True)])
def test_arguments_are_nested_only_as_deep_as_everybody_can_write_them(
    levels: int, flawed: bool
) -> None:
    """The object itself is the first level."""
    lists = "[" * (levels - 1) + "]" * (levels - 1)
    found = read_arguments(f'{{"a": {lists}}}')
    assert (found.flaw is not None) is flawed
    assert not flawed or found.value == {}


@pytest.mark.parametrize("told", [-5, 2**53, 10**22, 1.5, True, None, "7"])
def test_a_number_of_tokens_that_nobody_can_have_counted_is_unknown(told: object) -> None:
    """A limit could be bought back with less than none."""
    assert read_usage({"read": told, "written": 1}, "read", "written") is None
    assert read_usage({"read": 0, "written": 2**53 - 1}, "read", "written") is not None


def test_a_key_that_a_provider_repeats_is_not_told_on() -> None:
    request = httpx2.Request("POST", "http://a/", headers={"Authorization": "Bearer sekret"})
    refused = Refused(401, "no such key: sekret", request=request)

    async def call() -> None:
        raise refused

    with pytest.raises(LlmError) as raised:
        asyncio.run(call_with_retries(call, ERRORS))
    assert raised.value.reason == "401: no such key: [redacted]"


def test_an_answer_in_parts_is_read_as_one() -> None:
    assert (
        text_of([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}])
        == "ab"
    )
    with pytest.raises(TypeError):
        text_of([{"type": "text", "text": 1}])
