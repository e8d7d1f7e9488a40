"""Models of scripted turns for the agent loop of `bashkit-eval`, and attempts with them."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mosaico.harness.bash.attempt_runner import RunLimits, Runner, plan_trials
from mosaico.harness.bash.judge import BashJudge
from mosaico.harness.bash.types import EvalResult, EvalTask
from mosaico.harness.budget import Budget
from mosaico.llm.conversation import (
    ChatMessage,
    Llm,
    MessageRole,
    StopReason,
    TextBlock,
    Tool,
    ToolUseBlock,
    Turn,
    Usage,
)
from mosaico.llm.errors import LlmError

TEN = Usage(input_tokens=8, output_tokens=2)


def turn(
    *commands: str, text: str = "", stop: StopReason | None = None, usage: Usage | None = TEN
) -> Turn:
    blocks: list[TextBlock | ToolUseBlock] = [TextBlock(text=text)] if text else []
    blocks += [
        ToolUseBlock(id=str(n), name="bash", input={"commands": command})
        for n, command in enumerate(commands)
    ]
    return Turn(
        message=ChatMessage(role=MessageRole.ASSISTANT, content=tuple(blocks)),
        stop=stop or (StopReason.TOOL_USE if commands else StopReason.END),
        usage=usage,
    )


@dataclass(slots=True)
class ScriptedTurns:
    """A model that returns the given turns in order and then repeats the last one; it raises errors."""

    turns: Sequence[Turn | LlmError]
    provider: str = "model"
    model: str = "p"
    received: list[Sequence[ChatMessage]] = field(default_factory=list)
    systems: list[str] = field(default_factory=list)

    async def turn(
        self, system: str, messages: Sequence[ChatMessage], _: Sequence[Tool], /
    ) -> Turn:
        # A real model always gives the loop back; without it,
        # concurrent attempts would run one by one.
        await asyncio.sleep(0)
        reply = self.turns[min(len(self.received), len(self.turns) - 1)]
        self.received.append(tuple(messages))
        self.systems.append(system)
        if isinstance(reply, LlmError):
            raise reply
        return reply

    async def close(self) -> None:
        """No connection is open."""


@dataclass(slots=True)
class TimedModel(ScriptedTurns):
    """A model that lets the time limit expire after its second reply."""

    expire: Callable[[], None] = lambda: None

    async def turn(
        self, system: str, messages: Sequence[ChatMessage], tools: Sequence[Tool], /
    ) -> Turn:
        reply = await ScriptedTurns.turn(self, system, messages, tools)
        if len(self.received) == 2:
            self.expire()
        return reply


def run_all(
    llm: Llm,
    *tasks: EvalTask,
    budget: Budget | None = None,
    judge: BashJudge | None = None,
    **limits: Any,
) -> list[EvalResult]:
    results: list[EvalResult] = []
    runner = Runner(
        lambda _: llm,
        RunLimits(**{"concurrency": 1, **limits}),
        budget or Budget(),
        on_result=results.append,
        judge=judge,
    )
    asyncio.run(runner.run(plan_trials(tasks, 1)))
    return results
