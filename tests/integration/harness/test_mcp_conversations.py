"""Conversations of models with tools: requests, limits, errors, endings."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mosaico.harness.limits import BudgetLimits
from mosaico.harness.mcp.stored_attempt import attempt_transcript
from mosaico.harness.mcp.types import (
    Content,
    ContentKind,
    ErrorKind,
)
from mosaico.harness.results import AttemptOutcome, ConversationEnding
from mosaico.harness.transcript import TranscriptMessage
from mosaico.llm.conversation import (
    ChatMessage,
    MessageRole,
    StopReason,
    ToolResultBlock,
    Turn,
)
from mosaico.llm.errors import LlmError
from mosaico.llm.prices import Price
from tests.support.mcp_bench import (
    ScriptedModel,
    calls,
    direct_task,
    harness_task,
    run,
    says,
    scripted,
)
from tests.support.mcp_models import failing
from tests.support.mcp_servers import faults
from tests.support.texts import assert_names

pytestmark = pytest.mark.usefixtures("loaded_evaluators")


def results_of(message: ChatMessage) -> list[ToolResultBlock]:
    return [block for block in message.content if isinstance(block, ToolResultBlock)]


def test_conversation__model_uses_a_tool_and_answers() -> None:
    model = scripted(calls(("echo", {"text": "hello"}), tokens=(100, 5)), says("It says hello."))
    result = run(harness_task(faults()), model=model).result
    assert (result.outcome, result.ending) == (AttemptOutcome.SCORED, ConversationEnding.NATURAL)
    assert result.response == "It says hello."
    assert [(call.server, call.tool, call.text) for call in result.tool_calls] == [
        ("faults", "echo", "hello")
    ]
    roles = [message.role for message in result.messages]
    assert roles == [
        MessageRole.USER,
        MessageRole.ASSISTANT,
        MessageRole.TOOL_RESULT,
        MessageRole.ASSISTANT,
    ]
    assert result.natural_stop


def test_conversation__single_server_keeps_tool_names() -> None:
    model = scripted(says("Done."))
    result = run(harness_task(faults(), system_prompt="Be brief."), model=model).result
    [request] = model.requests
    transcript = attempt_transcript(result)
    assert transcript is not None
    assert transcript.steps[0] == TranscriptMessage(role="system", text=request.system)
    assert (request.tools[0].name, request.tools[0].description) == ("echo", "Does echo.")
    assert_names(request.system, "Be brief.", "Expect the worst.", "16 tools of 1 server")


def test_conversation__several_servers_prefix_tool_names() -> None:
    model = scripted(calls(("b__echo", {"text": "x"})), says("Done."))
    result = run(harness_task(faults(name="a"), faults("toolless", name="b")), model=model).result
    first = model.requests[0]
    assert first.tools[0].name == "a__echo"
    assert first.tools[0].description == "[a] Does echo."
    assert "You have 16 tools of 2 servers." in first.system
    # A server without tools leaves the names of the others as they are, and has none itself.
    [refused] = result.tool_calls
    assert refused.is_error
    assert refused.text.startswith("unknown tool 'b__echo'; available tools: a__echo, ")


def test_conversation__sends_prompts_in_order_and_keeps_last_answer() -> None:
    model = scripted(says("one"), calls(("count", {})), says("two"))
    task = harness_task(faults(), prompts=("First.", "Second."))
    result = run(task, model=model).result
    assert [message.text() for message in result.messages if message.role is MessageRole.USER] == [
        "First.",
        "Second.",
    ]
    assert result.response == "two"
    assert [len(request.messages) for request in model.requests] == [1, 3, 5]
    assert len(result.llm_calls) == 3


class Thoughtful(ScriptedModel):
    """Delays each answer."""

    async def turn(self, *arguments: Any) -> Turn:
        await asyncio.sleep(0.05)
        return await super().turn(*arguments)


def test_conversation__latency_is_that_of_the_model() -> None:
    model = scripted(calls(("echo", {"text": "x"})), says("Done."))
    result = run(harness_task(faults()), model=Thoughtful(model.play)).result
    first, second = [call.latency_ms for call in result.llm_calls]
    assert min(first, second) > 45  # clocks round
    assert first + second <= result.duration_ms


def test_conversation__usage_is_counted_per_request() -> None:
    """Inputs 100, 160, 260: base 100, growth (60 + 100) / 2 = 80; 520 · 1 $ + 60 · 2 $ a million."""
    count: tuple[str, dict[str, Any]] = ("count", {})
    model = scripted(
        calls(count, tokens=(100, 10)), calls(count, count, tokens=(160, 20)), says("3", (260, 30))
    )
    result = run(
        harness_task(faults()), model=model, prices={"m": Price(input_usd=1.0, output_usd=2.0)}
    ).result
    assert [call.cumulative_input for call in result.llm_calls] == [100, 260, 520]
    assert [call.tool_calls_made for call in result.llm_calls] == [1, 2, 0]
    assert [call.text for call in result.tool_calls] == ["1", "2", "3"]
    assert (result.base_context, result.context_growth_avg) == (100, 80)
    assert (result.input_tokens, result.output_tokens) == (520, 60)
    assert result.cost_usd == pytest.approx(640e-6)


def test_conversation__invalid_arguments_are_reported_to_the_model() -> None:
    flawed = calls(("echo", {}))
    block = flawed.message.tool_uses()[0]
    message = ChatMessage(
        role=MessageRole.ASSISTANT,
        content=(
            type(block)(id="c", name="echo", input={}, flaw="the arguments are not valid JSON"),
        ),
    )
    model = scripted(Turn(message=message, stop=StopReason.TOOL_USE, usage=None), says("Sorry."))
    result = run(harness_task(faults()), model=model).result
    [tool_result] = results_of(result.messages[2])
    assert (tool_result.content, tool_result.is_error) == ("the arguments are not valid JSON", True)
    assert result.outcome is AttemptOutcome.SCORED


@pytest.mark.parametrize(
    ("limits", "ending", "turns"),
    [
        ({"max_turns": 3}, ConversationEnding.TURN_LIMIT, 3),
        (
            {"budget_limits": BudgetLimits(tokens=250)},
            ConversationEnding.TOKEN_LIMIT,
            3,
        ),  # 110, 220, 330
        (
            {"budget_limits": BudgetLimits(cost_usd=0.00005)},
            ConversationEnding.COST_LIMIT,
            2,
        ),  # 0.00002 a turn: the third would exceed the limit
    ],
)
def test_conversation__limits_end_it(
    limits: Mapping[str, Any], ending: ConversationEnding, turns: int
) -> None:
    endless = scripted(calls(("count", {}), text="Once more.", tokens=(100, 10)))
    prices = {"m": Price(input_usd=0.0, output_usd=2.0)}
    result = run(harness_task(faults(), **limits), model=endless, prices=prices).result
    assert (result.ending, result.natural_stop) == (ending, False)
    assert len(result.llm_calls) == turns
    assert (result.outcome, result.response) == (AttemptOutcome.SCORED, "Once more.")


def test_conversation__provider_error_keeps_earlier_steps() -> None:
    model = failing(LlmError("500: busy"), after=1)
    result = run(harness_task(faults()), model=model).result
    assert (result.outcome, result.ending) == (AttemptOutcome.INFRA_ERROR, ConversationEnding.ERROR)
    assert result.error is not None
    assert result.error.kind is ErrorKind.PROVIDER
    assert result.error.detail == "the model did not answer: m: 500: busy"
    assert len(result.tool_calls) == 1


def test_conversation__server_death_ends_the_task() -> None:
    model = scripted(calls(("echo", {"text": "x"})), calls(("die", {})), says("Fine!"))
    result = run(harness_task(faults()), model=model).result
    assert result.outcome is AttemptOutcome.INFRA_ERROR
    assert result.error is not None
    assert result.error.kind is ErrorKind.SERVER_DIED
    assert len(model.requests) == 2
    assert [(call.tool, call.is_error) for call in result.tool_calls] == [
        ("echo", False),
        ("die", True),
    ]


def test_conversation__calls_of_one_turn_run_at_the_same_time(tmp_path: Path) -> None:
    """Each call waits for the other; recorded are they in the order of the model."""
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    uses = [
        ("y__meet", {"mine": a, "other": b}),
        ("x__nobody", {}),
        ("x__meet", {"mine": b, "other": a}),
    ]
    model = scripted(calls(*uses), says("Met."))
    result = run(harness_task(faults(name="x"), faults(name="y")), model=model).result
    assert result.response == "Met."
    recorded = [(call.server, call.tool, call.is_error) for call in result.tool_calls]
    assert recorded == [("y", "meet", False), ("", "x__nobody", True), ("x", "meet", False)]
    assert [block.tool_use_id for block in results_of(result.messages[2])] == [
        "call_0", "call_1", "call_2",
    ]  # fmt: skip


def test_conversation__all_unanswered_calls_of_a_turn_are_named(tmp_path: Path) -> None:
    uses = [("y__hang", {}), ("x__echo", {"text": "x"}), ("x__hang", {})]
    task = harness_task(faults(name="x"), faults(name="y"), timeout_s=0.5)
    result = run(task, model=scripted(calls(*uses), says("Never."))).result
    assert result.error is not None
    assert result.error.detail.endswith("; it was waiting for hang of y and hang of x")
    assert [call.text for call in result.tool_calls] == ["(no answer)", "x", "(no answer)"]


@pytest.mark.parametrize(
    ("tool", "servers", "expected_server"),
    [
        ("a__echo", ("", ""), "a"),
        ("b/echo", ("", ""), "b"),
        ("echo", ("toolless", ""), "b"),
        ("echo", ("", ""), None),
        ("nobody", ("", ""), None),
    ],
)
def test_direct_task__names_a_tool_of_several_servers(
    tool: str, servers: tuple[str, str], expected_server: str | None
) -> None:
    a, b = (faults(habit, name=name) for habit, name in zip(servers, "ab", strict=True))
    result = run(direct_task(a, tool, servers=(a, b), arguments={"text": "hi"})).result
    [call] = result.tool_calls
    if expected_server is not None:
        assert (result.outcome, call.server, call.text) == (
            AttemptOutcome.SCORED,
            expected_server,
            "hi",
        )
    else:
        assert result.outcome is AttemptOutcome.AGENT_ERROR
        assert result.error is not None
        assert f"unknown tool {tool!r}; available tools: a__echo" in result.error.detail


def test_conversation__long_tool_result_is_truncated_for_the_model_only() -> None:
    model = scripted(calls(("huge", {"bytes": 500_000})), says("Long."))
    result = run(harness_task(faults()), model=model).result
    [tool_result] = results_of(result.messages[2])
    # 400,000 characters are left, MAX_MODEL_CHARS.
    assert tool_result.content.endswith("\n[100000 more characters omitted]")
    model = scripted(calls(("huge", {"bytes": 500_000})), says("Long."))
    result = run(harness_task(faults(), tool_chars=1000), model=model).result
    [tool_result] = results_of(result.messages[2])
    assert tool_result.content.endswith("\n[499000 more characters omitted]")
    assert result.tool_calls[0].content[0] == Content(kind=ContentKind.TEXT, size=500_000)


def test_tool_chars__make_another_task() -> None:
    hashes = {harness_task(tool_chars=chars).content_hash() for chars in (1000, 2000, 400_000)}
    assert len(hashes) == 3
    assert harness_task().content_hash() in hashes
