"""Settings of a turn: what each provider sends, and what its API does not have."""

import pytest

from mosaico.llm.conversation import (
    Provider,
    ReasoningEffort,
    ThinkingBlock,
    TurnSettings,
    unsupported_reason,
)
from mosaico.llm.providers import UnsupportedSetting, open_llm
from mosaico.llm.sdk import TurnRequest
from tests.support.references import Reference

pytestmark = pytest.mark.xdist_group("sdks of models")
messages = Reference("mosaico.llm.anthropic_messages")
chat = Reference("mosaico.llm.openai_chat")
responses = Reference("mosaico.llm.openai_responses")


def request(model: str = "m", **settings: object) -> TurnRequest:
    return TurnRequest(model, TurnSettings(**settings), "system", (), ())  # type: ignore[arg-type]


def test_anthropic_request__has_thinking_budget_and_effort() -> None:
    body = messages.write_request(
        request(thinking_tokens=4096, reasoning_effort=ReasoningEffort.HIGH)
    )
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 4096}
    assert body["output_config"] == {"effort": "high"}
    # Above it the SDK of Anthropic requires a stream.
    assert body["max_tokens"] == 21_333
    assert messages.write_request(request())["max_tokens"] == 16_000
    assert {"thinking", "output_config", "temperature"}.isdisjoint(
        messages.write_request(request())
    )


def test_chat_request__has_effort_and_seed() -> None:
    body = chat.write_request(
        "max_tokens", request(reasoning_effort=ReasoningEffort.LOW, seed=7, temperature=0.0)
    )
    assert (body["reasoning_effort"], body["seed"], body["temperature"]) == ("low", 7, 0.0)
    assert {"reasoning_effort", "seed"}.isdisjoint(chat.write_request("max_tokens", request()))


def test_responses_request__effort_does_not_depend_on_model_name() -> None:
    assert "reasoning" not in responses.write_request(request("gpt-5-codex"))
    body = responses.write_request(request("any", reasoning_effort=ReasoningEffort.MEDIUM))
    assert body["reasoning"] == {"effort": "medium"}


def test_anthropic_thinking__is_sent_back_unchanged_before_the_tool_calls() -> None:
    blocks = [
        {"type": "thinking", "thinking": "First list the files.", "signature": "c2lnbmVk"},
        {"type": "redacted_thinking", "data": "opaque"},
        {"type": "tool_use", "id": "call_1", "name": "bash", "input": {"commands": "ls"}},
    ]
    turn = messages.read_message({"content": blocks, "stop_reason": "tool_use"})
    first = turn.message.content[0]
    assert isinstance(first, ThinkingBlock)
    assert first.text == "First list the files."
    # The API checks the signature of each block, and refuses a turn with tools without them.
    assert messages.wire_message(turn.message)["content"] == blocks
    assert turn.message.text() == ""
    # Another provider cannot read these thoughts, and gets the call alone.
    assert [item["type"] for item in responses.wire_items(turn.message)] == ["function_call"]


@pytest.mark.parametrize(
    ("provider", "settings", "reason"),
    [
        (Provider.ANTHROPIC, TurnSettings(seed=1), "does not support a seed"),
        (Provider.OPENAI_RESPONSES, TurnSettings(seed=1), "does not support a seed"),
        (
            Provider.OPENAI,
            TurnSettings(thinking_tokens=2000),
            "does not support a budget of thinking tokens",
        ),
        (
            Provider.ANTHROPIC,
            TurnSettings(thinking_tokens=2000, temperature=0.0),
            "does not accept a temperature with",
        ),
        (
            Provider.ANTHROPIC,
            TurnSettings(thinking_tokens=2000, max_output_tokens=2000),
            "below the maximum of output tokens",
        ),
        (
            Provider.ANTHROPIC,
            TurnSettings(reasoning_effort=ReasoningEffort.MINIMAL),
            "its lowest is low",
        ),
    ],
)
def test_open_llm__refuses_setting_that_the_api_does_not_have(
    provider: Provider, settings: TurnSettings, reason: str
) -> None:
    assert reason in (unsupported_reason(provider, settings) or "")
    with pytest.raises(UnsupportedSetting, match=reason):
        open_llm(provider, "m", base_url="http://127.0.0.1:9", settings=settings, environment={})
