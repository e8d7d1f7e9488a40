"""The agent loop of a task and the runner around it, with scripted models."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from mosaico.harness.bash.agent import (
    BASH,
    AgentAttempt,
    AttemptLimits,
    attempt_task,
    parse_call,
    tool_text,
)
from mosaico.harness.bash.sandbox import SandboxLimits, sandbox_prompt
from mosaico.harness.bash.types import EvalTask
from mosaico.harness.budget import Budget
from mosaico.harness.harness_config import BashHarnessSettings
from mosaico.harness.limits import BudgetLimits
from mosaico.harness.results import ConversationEnding
from mosaico.llm.conversation import (
    ChatMessage,
    MessageRole,
    Provider,
    StopReason,
    Tool,
    ToolResultBlock,
    ToolUseBlock,
    Turn,
)
from mosaico.llm.errors import LlmError
from mosaico.llm.prices import Price
from mosaico.llm.retry import call_with_retries
from mosaico.llm.sdk import SdkErrors, call_sdk
from mosaico.run_store.plan import conditions_of
from tests.support.bash_eval import call, task
from tests.support.bash_turns import ScriptedTurns, TimedModel, turn

pytestmark = pytest.mark.usefixtures("loaded_checks")


def attempt(
    *turns: Turn | LlmError, eval_task: EvalTask | None = None, **limits: Any
) -> AgentAttempt:
    budget = limits.pop("budget", None) or Budget()
    return asyncio.run(
        attempt_task(eval_task or task(), ScriptedTurns(turns), AttemptLimits(**limits), budget)
    )


def test_agent_loop__model_without_tool_calls_stops_naturally() -> None:
    agent_attempt = attempt(turn("echo one", "echo two"), turn(text="Done."))
    assert (agent_attempt.trace.ending, agent_attempt.trace.natural_stop) == (
        ConversationEnding.NATURAL,
        True,
    )
    assert (agent_attempt.trace.turns, agent_attempt.trace.tool_call_count) == (2, 2)
    assert (agent_attempt.trace.total_input_tokens, agent_attempt.trace.total_output_tokens) == (
        16,
        4,
    )
    assert agent_attempt.trace.last_tool_response == agent_attempt.trace.tool_calls[1]
    assert [tool_call.stdout for tool_call in agent_attempt.trace.tool_calls] == ["one\n", "two\n"]


def test_agent_loop__results_of_one_turn_are_one_message() -> None:
    agent_attempt = attempt(turn("true", "false"), turn(text="Done."))
    results = agent_attempt.trace.messages[2]
    assert results.role is MessageRole.TOOL_RESULT
    assert [getattr(block, "is_error", None) for block in results.content] == [False, True]


def test_turn_limit__trace_ends_with_results_of_last_turn() -> None:
    agent_attempt = attempt(turn("echo again"), max_turns=3)
    assert (agent_attempt.trace.ending, agent_attempt.trace.natural_stop) == (
        ConversationEnding.TURN_LIMIT,
        False,
    )
    assert (agent_attempt.trace.turns, agent_attempt.trace.tool_call_count) == (3, 3)
    assert agent_attempt.trace.messages[-1].role is MessageRole.TOOL_RESULT


def test_system_prompt__task_prompt_overrides_sandbox_prompt() -> None:
    for system, expected in ((None, sandbox_prompt()), ("", ""), ("Own.", "Own.")):
        model = ScriptedTurns([turn(text="Done.")])
        asyncio.run(attempt_task(task(system=system), model, AttemptLimits(), Budget()))
        assert model.systems == [expected]


def test_time_limit__trace_keeps_finished_turns(expire_time_limit: Callable[[], None]) -> None:
    # The limit of a call, 30 s by default, must not end the
    # command before the time limit of the task.
    limits = AttemptLimits(sandbox=SandboxLimits(timeout_s=600))
    model = TimedModel([turn("echo x"), turn("sleep 600")], expire=expire_time_limit)
    agent_attempt = asyncio.run(attempt_task(task(), model, limits, Budget()))
    assert agent_attempt.trace.ending is ConversationEnding.TIME_LIMIT
    finished, stopped = agent_attempt.trace.tool_calls
    assert (finished.commands, finished.ran) == ("echo x", True)
    assert (stopped.ran, stopped.stderr) == (
        False,
        "not run: the time limit of the task was reached",
    )
    assert agent_attempt.trace.messages[-1].role is MessageRole.TOOL_RESULT
    assert agent_attempt.failure is None


def use_of(name: str = "bash", *, flaw: str | None = None, **arguments: Any) -> ToolUseBlock:
    return ToolUseBlock(id=f"call-{name}", name=name, input=arguments, flaw=flaw)


def test_agent_loop__every_tool_use_block_is_one_recorded_call() -> None:
    blocks = (
        use_of(commands="echo one"),
        use_of(flaw="the arguments are not JSON"),
        # In turn: a valid call, arguments that are not JSON, an
        # unknown tool and an unknown argument.
        use_of("python", commands="print()"),
        use_of(cmd="echo two"),
    )
    mixed = replace(turn(text=""), message=ChatMessage(role=MessageRole.ASSISTANT, content=blocks))
    recorded_trace = attempt(mixed, turn(text="Done.")).trace
    assert recorded_trace.tool_call_count == len(recorded_trace.tool_calls) == 4
    assert recorded_trace.calls_ok() == 1
    assert [tool_call.ran for tool_call in recorded_trace.tool_calls] == [True, False, False, False]
    assert [tool_call.exit_code for tool_call in recorded_trace.tool_calls] == [0, 2, 2, 2]
    answers = recorded_trace.messages[2].content
    assert [getattr(block, "is_error", None) for block in answers] == [False, True, True, True]


def test_agent_loop__calls_of_truncated_turn_are_errors() -> None:
    # A command that was cut may do something else than the whole one: it must not run.
    cut = replace(turn("rm -rf /tmp"), stop=StopReason.TRUNCATED)
    recorded_trace = attempt(cut).trace
    assert recorded_trace.ending is ConversationEnding.TRUNCATED
    [tool_call] = recorded_trace.tool_calls
    assert (tool_call.ran, recorded_trace.calls_ok()) == (False, 0)
    assert "truncated" in tool_call.stderr


def test_time_limit__server_without_answer_is_infra_error() -> None:
    class Silent(ScriptedTurns):
        async def turn(self, *_: Any) -> Turn:
            await asyncio.sleep(60)
            raise AssertionError

    limits = AttemptLimits(time_s=0.01)
    agent_attempt = asyncio.run(attempt_task(task(), Silent([]), limits, Budget()))
    assert agent_attempt.trace.ending is ConversationEnding.ERROR
    assert str(agent_attempt.failure).startswith(
        "timed out after 0.01 s: no response to request 1 for "
    )


class ConnectionLost(Exception):
    """The server does not respond."""


ERRORS = SdkErrors(status=AssertionError, connection=ConnectionLost, any=ConnectionLost)


@dataclass(slots=True)
class RecoveringModel(ScriptedTurns):
    """A model whose server is busy once, in the second turn.

    The time limit of the task expires in turn `late`; in turn 2 that is before the retry.
    """

    late: int = 2

    async def turn(
        self, system: str, messages: Sequence[ChatMessage], tools: Sequence[Tool], /
    ) -> Turn:
        number = len(self.received) + 1
        errors = [ConnectionLost("busy")] if number == 2 else []

        async def call() -> Turn:
            if errors:
                raise errors.pop()
            return await ScriptedTurns.turn(self, system, messages, tools)

        async def sleep(_: float) -> None:
            # The time limit expires during the wait before the retry.
            if number == self.late:
                raise TimeoutError

        if number == self.late > 2:
            raise TimeoutError
        return await call_with_retries(lambda: call_sdk(call, ERRORS, 60.0), sleep=sleep)


def test_time_limit__retried_request_is_infra_error() -> None:
    agent_attempt = asyncio.run(
        attempt_task(task(), RecoveringModel([turn("true")]), AttemptLimits(), Budget())
    )
    assert (
        agent_attempt.trace.ending,
        agent_attempt.trace.turns,
        agent_attempt.trace.tool_call_count,
    ) == (
        ConversationEnding.ERROR,
        1,
        1,
    )
    assert str(agent_attempt.failure) == (
        "timed out after 1 × no connection within 600 s (last: no response: busy)"
    )


def test_time_limit__failures_of_an_earlier_request_are_not_those_of_this_one() -> None:
    """The second request recovered; the third one is only slow."""
    late = RecoveringModel([turn("true")], late=3)
    agent_attempt = asyncio.run(attempt_task(task(), late, AttemptLimits(), Budget()))
    assert (agent_attempt.trace.ending, agent_attempt.trace.turns) == (ConversationEnding.ERROR, 2)
    assert str(agent_attempt.failure).startswith(
        "timed out after 600 s: no response to request 3 for "
    )


def test_task_budget__exhausted_budget_ends_task_before_next_turn() -> None:
    dear = Price(input_usd=0.0, output_usd=1_000_000.0)
    for budget_limits, ending in (
        # A turn has 8 input tokens and 2 output tokens at 1 $: two turns reach 20 tokens and 4 $, and
        # the third would exceed 5 $.
        (BudgetLimits(tokens=20), ConversationEnding.TOKEN_LIMIT),
        (BudgetLimits(cost_usd=5.0), ConversationEnding.COST_LIMIT),
    ):
        agent_attempt = attempt(turn("true"), budget=Budget(limits=budget_limits, price=dear))
        assert (agent_attempt.trace.ending, agent_attempt.trace.turns) == (ending, 2)
        assert agent_attempt.trace.cost_usd == 4.0


def test_usage__missing_tokens_make_sum_unknown() -> None:
    agent_attempt = attempt(turn("true"), turn(text="x", usage=None))
    assert (agent_attempt.trace.total_input_tokens, agent_attempt.trace.cost_usd) == (None, None)


def test_provider_error__trace_keeps_finished_turns() -> None:
    agent_attempt = attempt(turn("echo x"), LlmError("overloaded"))
    assert agent_attempt.failure is not None
    assert (agent_attempt.trace.ending, agent_attempt.trace.tool_call_count) == (
        ConversationEnding.ERROR,
        1,
    )


@pytest.mark.parametrize(
    ("tool_input", "commands"),
    [
        ({"commands": "a"}, "a"),
        ({"script": "b"}, "b"),
        ({"commands": "a", "script": "b"}, "a"),
        ({"commands": ""}, ""),
    ],
)
def test_parse_call__reads_commands_or_script(tool_input: dict[str, Any], commands: str) -> None:
    parsed_call = parse_call(ToolUseBlock(id="1", name="bash", input=tool_input))
    assert (parsed_call.commands, parsed_call.error) == (commands, None)


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (ToolUseBlock(id="1", name="python", input={}), "there is no tool 'python'; use bash"),
        (ToolUseBlock(id="1", name="bash", input={}, flaw="bad"), "bad; send"),
        (ToolUseBlock(id="1", name="bash", input={"commands": 3}), "commands must be a text"),
        (ToolUseBlock(id="1", name="bash", input={"cmd": "ls"}), "commands is missing (cmd given)"),
        (ToolUseBlock(id="1", name="bash", input={}), "commands is missing (no argument given)"),
    ],
)
def test_parse_call__invalid_call_is_answered_with_reason(use: ToolUseBlock, reason: str) -> None:
    assert reason in (parse_call(use).error or "")


@pytest.mark.parametrize("value", [None, "5", True, -1, [1]])
def test_parse_call__invalid_timeout_is_ignored(value: Any) -> None:
    use = ToolUseBlock(id="1", name="bash", input={"commands": "x", "timeout_ms": value})
    assert parse_call(use).timeout_ms is None


def test_bash_tool__schema_equals_reference() -> None:
    assert BASH.schema["required"] == ["commands"]
    assert set(BASH.schema["properties"]) == {"commands", "timeout_ms"}


@pytest.mark.parametrize(
    ("done", "text"),
    [
        (call("out\n"), "out\n"),
        (call("out", stderr="err"), "out\nSTDERR: err"),
        (call("", stderr="err"), "STDERR: err"),
        (call("out", code=2), "out\nExit code: 2"),
        (call("out\n", stderr="err", code=2), "out\n\nSTDERR: err\nExit code: 2"),
        (call("", code=2), "Exit code: 2"),
        (call(""), "(no output)"),
    ],
)
def test_tool_text__contains_output_errors_and_exit_code(done: Any, text: str) -> None:
    assert tool_text(done) == text


def test_tool_text__long_output_is_cut_for_the_model_only() -> None:
    ended = attempt(turn("printf 'x%.0s' $(seq 300); exit 3"), turn(text="Done."), tool_chars=100)
    [recorded_call] = ended.trace.tool_calls
    assert len(recorded_call.stdout) == 300
    [block] = ended.trace.messages[2].content
    assert isinstance(block, ToolResultBlock)
    # 300 characters, a line break and "Exit code: 3" are 313; the model reads 100 of them.
    head, mark, tail = block.content.split("\n", 2)
    assert (head, mark) == (50 * "x", "[213 characters omitted]")
    assert tail.endswith("\nExit code: 3")


def test_tool_chars__are_a_condition_of_a_run() -> None:
    def conditions(**limits: int) -> dict[str, Any]:
        return conditions_of(BashHarnessSettings(provider=Provider.OPENAI, model="m", **limits))

    assert conditions()["toolChars"] == 100_000
    assert conditions(tool_chars=500) != conditions()
