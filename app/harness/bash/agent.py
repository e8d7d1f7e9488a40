"""The loop of one task: the model talks, the sandbox answers, until one of them has enough.

Source: spec 013; what counts as a turn, a call and a natural stop is as there.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from app.harness.bash.sandbox import DEFAULT_LIMITS, Sandbox, SandboxLimits, sandbox_prompt
from app.harness.bash.types import AgentTrace, EvalTask, ToolCallResult
from app.harness.budget import Budget, BudgetKind, RunBudgetExhausted
from app.harness.results import ConversationEnding
from app.llm.conversation import (
    ChatMessage,
    Llm,
    MessageRole,
    StopReason,
    Tool,
    ToolResultBlock,
    ToolUseBlock,
    user_message,
)
from app.llm.errors import LlmError
from app.llm.retry import RetryStatus, track_retries

BASH: Final = Tool(
    name="bash",
    description=(
        "Run bash commands in a sandbox. Files, variables and the working directory last from call"
        " to call."
    ),
    schema={
        "type": "object",
        "properties": {
            "commands": {"type": "string", "description": "Bash commands to run."},
            "timeout_ms": {
                "type": ["integer", "null"],
                "minimum": 0,
                "description": "Stop this call after so many milliseconds.",
            },
        },
        "required": ["commands"],
    },
)

_ENDINGS: Final = {
    BudgetKind.TOKENS: ConversationEnding.TOKEN_LIMIT,
    BudgetKind.COST: ConversationEnding.COST_LIMIT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLimits:
    """What one attempt at a task may use; the tokens and dollars are a `Budget`'s."""

    max_turns: int = 10
    time_s: float = 600.0
    sandbox: SandboxLimits = DEFAULT_LIMITS


class AgentAttempt(NamedTuple):
    """What a model did on a task, the sandbox as it left it, and the failure that ended it."""

    trace: AgentTrace
    sandbox: Sandbox
    failure: LlmError | None


class Asked(NamedTuple):
    """What a model wants run; `flaw` says why it cannot be."""

    commands: str
    timeout_ms: int | None
    flaw: str | None = None


async def attempt_task(
    task: EvalTask,
    llm: Llm,
    limits: TaskLimits,
    budget: Budget,
    *,
    now_s: Callable[[], float] = time.monotonic,
) -> AgentAttempt:
    """Let a model work on a task. A failure of the provider keeps what was done before it; its
    silence when the time is up is one.
    """
    started = now_s()
    talk = _Conversation(task, llm, limits, budget)
    failure: LlmError | None = None
    ending = ConversationEnding.ERROR
    with track_retries() as contact:
        try:
            async with asyncio.timeout(limits.time_s):
                ending = await talk.run()
        except TimeoutError:
            failure = _silence(talk, contact, limits.time_s)
            ending = ConversationEnding.ERROR if failure else ConversationEnding.TIME_LIMIT
        except LlmError as error:
            failure = error
    duration_ms = round(1000 * (now_s() - started))
    return AgentAttempt(talk.trace(ending, duration_ms), talk.sandbox, failure)


def _silence(talk: "_Conversation", contact: RetryStatus, time_s: float) -> LlmError | None:
    """Why a task whose time is up is the provider's failure; None when it is the model's."""
    if contact.retry_reason is not None:
        return LlmError(f"no answer when {time_s:g} s were over: {contact.retry_reason}")
    return None if talk.has_heard else LlmError(f"no answer within {time_s:g} s")


class _Conversation:
    """One task while it is worked on."""

    def __init__(self, task: EvalTask, llm: Llm, limits: TaskLimits, budget: Budget) -> None:
        self.sandbox = Sandbox(task.files, limits.sandbox)
        self._system = task.system if task.system is not None else sandbox_prompt()
        self._llm = llm
        self._max_turns = limits.max_turns
        self._budget = budget
        self._messages = [user_message(task.prompt)]
        self._calls: list[ToolCallResult] = []
        self._turns = 0

    @property
    def has_heard(self) -> bool:
        """Whether the model said anything yet."""
        return self._turns > 0

    async def run(self) -> ConversationEnding:
        """Talk until the model stops or a limit of the task is reached. Raises LlmFailure, also for a
        limit of the whole run: that is no failure of the model.
        """
        while self._turns < self._max_turns:
            limit = self._budget.own_exhausted()
            if limit is not None:
                return _ENDINGS[limit]
            try:
                self._budget.require_run_budget()
            except RunBudgetExhausted as reached:
                raise LlmError(str(reached)) from None
            turn = await self._llm.turn(self._system, self._messages, [BASH])
            self._turns += 1
            self._budget.add_usage(turn.usage)
            self._messages.append(turn.message)
            if turn.stop is StopReason.TRUNCATED:
                return ConversationEnding.TRUNCATED
            uses = turn.message.tool_uses()
            if not uses:
                return ConversationEnding.NATURAL
            # Some servers say "stop" and ask for tools all the same; the tools count.
            results = tuple([await self._use(use) for use in uses])
            self._messages.append(ChatMessage(role=MessageRole.TOOL_RESULT, content=results))
        return ConversationEnding.TURN_LIMIT

    def trace(self, ending: ConversationEnding, duration_ms: int) -> AgentTrace:
        return AgentTrace(
            messages=tuple(self._messages),
            tool_calls=tuple(self._calls),
            tool_call_count=len(self._calls),
            turns=self._turns,
            last_tool_response=self._calls[-1] if self._calls else None,
            natural_stop=ending is ConversationEnding.NATURAL,
            total_input_tokens=self._budget.input_tokens,
            total_output_tokens=self._budget.output_tokens,
            duration_ms=duration_ms,
            ending=ending,
            cost_usd=self._budget.cost_usd,
        )

    async def _use(self, use: ToolUseBlock) -> ToolResultBlock:
        asked = read_call(use)
        if asked.flaw is not None:
            return ToolResultBlock(tool_use_id=use.id, content=asked.flaw, is_error=True)
        done = await self.sandbox.execute(asked.commands, timeout_ms=asked.timeout_ms)
        self._calls.append(done)
        return ToolResultBlock(
            tool_use_id=use.id, content=tool_text(done), is_error=done.exit_code != 0
        )


def read_call(use: ToolUseBlock) -> Asked:
    """What a call asks to run: `commands`, else `script`, else nothing at all."""
    if use.name != BASH.name:
        return Asked("", None, f"no tool is named {use.name!r}; use {BASH.name}")
    if use.flaw is not None:
        return Asked("", None, f'{use.flaw}; send {{"commands": "…"}}')
    commands = use.input.get("commands", use.input.get("script", ""))
    if not isinstance(commands, str):
        return Asked("", None, 'commands must be a text; send {"commands": "…"}')
    return Asked(commands, _milliseconds(use.input.get("timeout_ms")))


def tool_text(done: ToolCallResult) -> str:
    """What the model reads of a call."""
    parts = [done.stdout] if done.stdout else []
    if done.stderr:
        parts.append(f"STDERR: {done.stderr}")
    if done.exit_code != 0:
        parts.append(f"Exit code: {done.exit_code}")
    return "\n".join(parts) or "(no output)"


def _milliseconds(value: Any) -> int | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return int(min(value, 2**31)) if fits else None
