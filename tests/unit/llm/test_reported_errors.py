"""Errors that a model server reports in a response with status 200."""

import asyncio
import json
from typing import Any

import pytest

from mosaico.llm.conversation import Turn
from mosaico.llm.errors import LlmError, LlmErrorKind
from mosaico.llm.response_reader import read_turn
from mosaico.llm.retry import call_with_retries, track_retries
from tests.support.references import Reference

pytestmark = pytest.mark.xdist_group("sdks of models")
openai_chat = Reference("mosaico.llm.openai_chat")
openai_responses = Reference("mosaico.llm.openai_responses")

ANSWER = {"choices": [{"finish_reason": "stop", "message": {"content": "Hello."}}]}


def error_of(document: Any, read: Any = None) -> LlmError:
    with pytest.raises(LlmError) as raised:
        read_turn(json.dumps(document).encode(), read or openai_chat.read_completion)
    return raised.value


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        ({"code": 502, "message": "Provider returned error"}, LlmErrorKind.SERVER,
         "200 with an error: 502: Provider returned error"),
        ({"code": 429, "message": "busy"}, LlmErrorKind.RATE_LIMITED,
         "200 with an error: 429: busy"),
        ({"code": 402}, LlmErrorKind.QUOTA, "200 with an error: 402: no message"),
        ({"code": "rate_limit_exceeded", "message": "slow"}, LlmErrorKind.RATE_LIMITED,
         "200 with an error: rate_limit_exceeded: slow"),
        ({"code": "content_filter", "message": "no"}, LlmErrorKind.CONTENT_FILTER,
         "200 with an error: content_filter: no"),
        ({"code": 403, "message": "no", "metadata": {"reasons": ["hate"]}},
         LlmErrorKind.CONTENT_FILTER, "200 with an error: 403: no; moderation: hate"),
        ({"code": 429, "message": "organization_spend_limit_exceeded"}, LlmErrorKind.QUOTA,
         "200 with an error: 429: organization_spend_limit_exceeded"),
        ({"code": "credit_balance_exhausted", "message": "x"}, LlmErrorKind.QUOTA,
         "200 with an error: credit_balance_exhausted: x"),
        ({"code": "context_length_exceeded", "message": "x"}, LlmErrorKind.CONTEXT_LENGTH,
         "200 with an error: context_length_exceeded: x"),
        ({"message": "upstream"}, LlmErrorKind.SERVER, "200 with an error: upstream"),
        ("upstream", LlmErrorKind.SERVER, "200 with an error: upstream"),
        ({"code": True, "message": 5}, LlmErrorKind.SERVER, "200 with an error: True: 5"),
    ],
)  # fmt: skip
def test_reported_error__has_the_kind_of_its_code(
    error: Any, kind: LlmErrorKind, reason: str
) -> None:
    failure = error_of({"error": error})
    assert (failure.kind, failure.reason) == (kind, reason)


def test_reported_error__failed_response_is_retried_or_not_by_its_code() -> None:
    failed = {"status": "failed", "output": [], "error": {"code": "server_error", "message": "x"}}
    assert error_of(failed, openai_responses.read_turn_items).kind is LlmErrorKind.SERVER
    invalid = {"status": "failed", "output": [], "error": {"code": "invalid_prompt"}}
    assert error_of(invalid, openai_responses.read_turn_items).kind is LlmErrorKind.CONTENT_FILTER


def test_reported_error__is_retried_and_counted_by_its_status() -> None:
    bodies = [{"error": {"code": 503, "message": "overloaded"}}] * 3 + [ANSWER]

    async def attempt() -> Turn:
        return read_turn(json.dumps(bodies.pop(0)).encode(), openai_chat.read_completion)

    now_s = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    with track_retries() as status:
        turn = asyncio.run(call_with_retries(attempt, sleep=sleep, clock=lambda: now_s))
    assert turn.message.text() == "Hello."
    assert (status.describe(), status.waited_s) == ("3 × 503", 2 + 4 + 8)
