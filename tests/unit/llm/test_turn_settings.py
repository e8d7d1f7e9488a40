"""Settings of a turn: what each provider sends, and what its API does not have."""

import pytest

from mosaico.llm.conversation import (
    ChatMessage,
    Image,
    MessageRole,
    PromptCache,
    Provider,
    ReasoningEffort,
    ThinkingBlock,
    ThinkingMode,
    ToolResultBlock,
    TurnSettings,
)
from mosaico.llm.model_families import (
    api_for,
    family_of,
    takes_images,
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
        chat.ChatDialect("max_tokens"),
        request(reasoning_effort=ReasoningEffort.LOW, seed=7, temperature=0.0),
    )
    assert (body["reasoning_effort"], body["seed"], body["temperature"]) == ("low", 7, 0.0)
    assert {"reasoning_effort", "seed"}.isdisjoint(
        chat.write_request(chat.ChatDialect("max_tokens"), request())
    )


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


def test_reasoning_item__without_content_is_not_referred_to() -> None:
    """The server stored nothing: neither the item nor the IDs of those that belong to it."""
    call = {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"}
    lost = {"type": "reasoning", "id": "rs_1", "summary": []}
    turn = responses.read_turn_items({"output": [lost, {**call, "id": "fc_1"}]})
    assert responses.wire_items(turn.message) == [call]
    read = {**lost, "content": [{"type": "reasoning_text", "text": "Hm."}]}
    turn = responses.read_turn_items({"output": [read, {**call, "id": "fc_1"}]})
    assert responses.wire_items(turn.message) == [read, {**call, "id": "fc_1"}]


def test_broken_arguments__are_sent_back_as_an_object() -> None:
    """Servers parse the history: text that is no JSON would fail every later request."""
    broken = {"name": "bash", "arguments": '{"commands": '}
    call = {"id": "c", "type": "function", "function": broken}
    choice = {"finish_reason": "tool_calls", "message": {"tool_calls": [call]}}
    [sent] = chat.wire_messages(chat.read_completion({"choices": [choice]}).message)
    assert sent["tool_calls"][0]["function"]["arguments"] == "{}"
    item = {"type": "function_call", "call_id": "c", **broken}
    turn = responses.read_turn_items({"output": [item]})
    assert responses.wire_items(turn.message) == [{**item, "arguments": "{}"}]
    block = {"type": "tool_use", "id": "c", "name": "bash", "input": "{"}
    turn = messages.read_message({"content": [block]})
    assert messages.wire_message(turn.message)["content"] == [{**block, "input": {}}]


@pytest.mark.parametrize("host", ["api.groq.com", "api.cerebras.ai"])
def test_chat__reasoning_is_kept_from_servers_that_refuse_it(host: str) -> None:
    thought = {"content": "Hi.", "reasoning": "Greet.", "reasoning_details": [], "annotations": []}
    turn = chat.read_completion({"choices": [{"message": thought}]})
    sent = TurnRequest("m", TurnSettings(), "", (turn.message,), ())
    strict = chat.write_request(chat.ChatDialect.of("m", f"https://{host}/v1"), sent)
    assert strict["messages"] == [{"role": "assistant", "content": "Hi."}]
    lenient = chat.write_request(chat.ChatDialect.of("m", "https://openrouter.ai/api/v1"), sent)
    assert lenient["messages"][0]["reasoning"] == "Greet."


@pytest.mark.parametrize(
    ("model", "base_url", "name"),
    [
        ("gpt-5.2", "http://127.0.0.1:4000/v1", "max_completion_tokens"),
        ("openai/gpt-5.6-sol", "https://openrouter.ai/api/v1", "max_completion_tokens"),
        ("qwen3.6-27b", "http://127.0.0.1:8000/v1", "max_tokens"),
        ("any", None, "max_completion_tokens"),
    ],
)
def test_chat__output_limit_has_the_name_that_the_model_knows(
    model: str, base_url: str | None, name: str
) -> None:
    assert chat.ChatDialect.of(model, base_url).limit_name == name


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("claude-sonnet-4-5-20250929", "Claude up to 4.5"),
        ("anthropic/claude-opus-4.1", "Claude up to 4.5"),
        ("claude-opus-4-20250514", "Claude up to 4.5"),
        ("claude-3-7-sonnet-latest", "Claude up to 4.5"),
        ("claude-opus-4-6", "Claude 4.6"),
        ("claude-opus-4-7", "Claude 4.7 and later"),
        ("claude-haiku-6", "Claude 4.7 and later"),
        ("claude-mythos-5-2", "Claude Fable, Mythos"),
        ("gpt-4.1-mini", "GPT-4o, 4.1"),
        ("o3-2025-04-16", "o1, o3, o4-mini"),
        ("gpt-5-nano-2025-08-07", "GPT-5, 5 mini, 5 nano"),
        ("gpt-5.1-codex", "GPT-5.1"),
        ("gpt-5.3-codex", "GPT-5.2, 5.3"),
        ("gpt-5.4-mini-2026-03-17", "GPT-5.4, 5.5"),
        ("gpt-6.2-astra", "GPT-5.6 and later"),
        ("openai/gpt-oss-120b", "other models, OpenAI's APIs"),
        ("deepseek/deepseek-v4:free", "DeepSeek V3.2, V4, reasoner"),
        ("deepseek-chat", "other models, OpenAI's APIs"),
    ],
)
def test_family__is_found_by_name(model: str, family: str) -> None:
    assert family_of(Provider.OPENAI, model).name == family
    if "claude" in model:
        assert family_of(Provider.ANTHROPIC, model).name == family


def test_api__is_responses_where_chat_refuses_tools() -> None:
    none = TurnSettings(reasoning_effort=ReasoningEffort.NONE)
    responses_api = Provider.OPENAI_RESPONSES
    assert api_for(Provider.OPENAI, "gpt-5.4", TurnSettings()) is responses_api
    assert api_for(Provider.OPENAI, "gpt-7", TurnSettings()) is responses_api
    # Without reasoning Chat Completions takes tools; a gateway translates requests itself.
    assert api_for(Provider.OPENAI, "gpt-5.4", none) is Provider.OPENAI
    assert api_for(Provider.OPENAI, "openai/gpt-5.6-sol", TurnSettings()) is Provider.OPENAI
    assert api_for(Provider.OPENAI, "gpt-5.3-codex", TurnSettings()) is Provider.OPENAI
    assert api_for(Provider.ANTHROPIC, "gpt-5.4", TurnSettings()) is Provider.ANTHROPIC


@pytest.mark.parametrize(
    ("provider", "model", "settings", "reason"),
    [
        (Provider.ANTHROPIC, "m", TurnSettings(seed=1), "m does not take the option seed"),
        (Provider.OPENAI_RESPONSES, "m", TurnSettings(seed=1), "option seed with the API"),
        (
            Provider.OPENAI,
            "m",
            TurnSettings(thinking_tokens=2000),
            "option thinking tokens with the API openai",
        ),
        (Provider.ANTHROPIC, "m", TurnSettings(temperature=0.0), "option temperature"),
        (Provider.OPENAI, "gpt-5.2", TurnSettings(temperature=0.0), "temperature while it reasons"),
        (
            Provider.ANTHROPIC,
            "claude-opus-4-6",
            TurnSettings(thinking_tokens=2000, max_output_tokens=2000),
            "below max output tokens",
        ),
        (
            Provider.ANTHROPIC,
            "claude-opus-4-6",
            TurnSettings(thinking_tokens=2000, thinking=ThinkingMode.ADAPTIVE),
            "together with thinking tokens",
        ),
        (
            Provider.ANTHROPIC,
            "m",
            TurnSettings(reasoning_effort=ReasoningEffort.MINIMAL),
            "effort minimal; it takes low, medium, high",
        ),
    ],
)
def test_open_llm__refuses_setting_that_the_model_does_not_take(
    provider: Provider, model: str, settings: TurnSettings, reason: str
) -> None:
    assert reason in (unsupported_reason(provider, model, settings) or "")
    with pytest.raises(UnsupportedSetting, match=reason):
        open_llm(provider, model, base_url="http://127.0.0.1:9", settings=settings, environment={})


def test_unsupported_reason__valid_settings_have_none() -> None:
    openai = TurnSettings(seed=1, temperature=0.2, reasoning_effort=ReasoningEffort.MINIMAL)
    assert unsupported_reason(Provider.OPENAI, "m", openai) is None
    budget = TurnSettings(thinking_tokens=2000)
    assert unsupported_reason(Provider.ANTHROPIC, "claude-haiku-4-5", budget) is None
    assert unsupported_reason(Provider.SCRIPTED, "m", TurnSettings(seed=1)) is None
    unreasoned = TurnSettings(temperature=0.2, reasoning_effort=ReasoningEffort.NONE)
    assert unsupported_reason(Provider.OPENAI, "gpt-5.2", unreasoned) is None
    # A gateway turns thinking off for models that have no such effort in their own API.
    no_effort = TurnSettings(reasoning_effort=ReasoningEffort.NONE)
    assert unsupported_reason(Provider.OPENAI, "anthropic/claude-opus-5", no_effort) is None
    assert unsupported_reason(Provider.ANTHROPIC, "claude-opus-5", no_effort) is not None


def test_conditions__equal_those_of_earlier_runs_and_leave_out_the_cost() -> None:
    assert TurnSettings(seed=1, prompt_cache=PromptCache.ONE_HOUR).conditions() == {
        "max_output_tokens": None,
        "temperature": None,
        "reasoning_effort": None,
        "thinking_tokens": None,
        "seed": 1,
    }
    assert TurnSettings(thinking=ThinkingMode.ADAPTIVE).conditions()["thinking"] == "adaptive"


PICTURE = Image(media_type="image/png", data="AAAA")
RESULT = ChatMessage(
    role=MessageRole.TOOL_RESULT,
    content=(ToolResultBlock(tool_use_id="1", content="[image]", images=(PICTURE,)),),
)
DATA_URL = "data:image/png;base64,AAAA"


def test_images__stand_where_each_api_takes_them() -> None:
    [result] = messages.wire_message(RESULT)["content"]
    assert [part["type"] for part in result["content"]] == ["text", "image"]
    assert result["content"][1]["source"]["data"] == "AAAA"
    [output] = responses.wire_items(RESULT)
    assert output["output"][1] == {
        "type": "input_image",
        "detail": "auto",
        "image_url": DATA_URL,
    }
    # Chat Completions takes text only as the result of a tool.
    tool, user = chat.wire_messages(RESULT)
    assert (tool["role"], tool["content"]) == ("tool", "[image]")
    assert user["content"][1]["image_url"] == {"url": DATA_URL}


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        (Provider.ANTHROPIC, "claude-opus-5", True),
        (Provider.OPENAI, "gpt-4.1-mini", True),
        (Provider.OPENAI, "gpt-4", False),
        (Provider.OPENAI, "google/gemini-3-pro", True),
        (Provider.OPENAI, "deepseek-v4", False),
        (Provider.OPENAI, "unknown", False),
        (Provider.SCRIPTED, "m", False),
    ],
)
def test_images__are_sent_to_models_that_take_them(
    provider: Provider, model: str, expected: bool
) -> None:
    assert takes_images(provider, model, TurnSettings()) is expected
