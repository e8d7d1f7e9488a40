"""The agent loop of one bash task: the model calls bash until it stops or a limit is reached.

Source: spec 013, which defines turns, calls and natural stops.
"""

import asyncio
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from mosaico.core.text import cut_middle
from mosaico.harness.bash.sandbox import DEFAULT_LIMITS, Sandbox, SandboxLimits, sandbox_prompt
from mosaico.harness.bash.types import AgentTrace, EvalTask, ToolCallResult
from mosaico.harness.budget import (
    AttemptBudgetExhausted,
    Budget,
    RunBudgetExhausted,
    turn_within_budget,
)
from mosaico.harness.limits import DEFAULT_TOOL_CHARS
from mosaico.harness.results import (
    ConversationEnding,
    NamedEnding,
    ending_of_error,
    ending_of_turn,
)
from mosaico.harness.running_attempts import announce_model
from mosaico.harness.watched_llm import WatchedLlm
from mosaico.llm.conversation import (
    ChatMessage,
    Llm,
    MessageRole,
    Tool,
    ToolResultBlock,
    ToolUseBlock,
    user_message,
)
from mosaico.llm.errors import LlmError

BASH: Final = Tool(
    name="bash",
    description=(
        "Run bash commands in a sandbox. Files, variables and the working directory persist between"
        " calls."
    ),
    schema={
        "type": "object",
        "properties": {
            "commands": {"type": "string", "description": "Bash commands to run."},
            "timeout_ms": {
                "type": ["integer", "null"],
                "minimum": 0,
                "description": "Stop this call after this number of milliseconds.",
            },
        },
        "required": ["commands"],
    },
)
LONGEST_TIMEOUT_MS: Final = 2**31
# The exit code of bash for a wrong use of a command: a call that could not be run is an error of
# the model.
NOT_RUN_EXIT_CODE: Final = 2

_ENDING_REASONS: Final = {
    ConversationEnding.TRUNCATED: "the response was truncated, so the call may be incomplete",
    ConversationEnding.CONTEXT_WINDOW: "the context was full, so the call may be incomplete",
    ConversationEnding.REFUSAL: "the model refused to continue",
    ConversationEnding.CONTENT_FILTER: "a filter of the provider ended the response",
    ConversationEnding.TIME_LIMIT: "the time limit of the task was reached",
    ConversationEnding.ERROR: "the provider stopped answering",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLimits:
    """Limits of one attempt. `tool_chars` is the longest text of one call that the model reads. Its tokens and dollars are limited by a `Budget`."""

    max_turns: int = 10
    tool_chars: int = DEFAULT_TOOL_CHARS
    time_s: float = 600.0
    sandbox: SandboxLimits = DEFAULT_LIMITS


class AgentAttempt(NamedTuple):
    """The trace of an attempt, its sandbox, and the provider error that ended it."""

    trace: AgentTrace
    sandbox: Sandbox
    failure: LlmError | None


class BashCall(NamedTuple):
    """The arguments of a tool call; `error` is the reason why the call cannot run."""

    commands: str
    timeout_ms: int | None
    error: str | None = None


async def attempt_task(
    task: EvalTask,
    llm: Llm,
    limits: AttemptLimits,
    budget: Budget,
) -> AgentAttempt:
    """Let a model work on a task.

    A provider error keeps the trace of the turns before it. Running out of time is a provider error
    too when the attempt was waiting for the provider.
    """
    started = time.monotonic()
    loop = _AgentLoop(task, llm, limits, budget)
    failure: LlmError | None = None
    ended = NamedEnding(ConversationEnding.ERROR)
    try:
        async with asyncio.timeout(limits.time_s):
            ended = await loop.run()
    except TimeoutError:
        failure = loop.llm.timeout_error(limits.time_s)
        if failure is None:
            ended = NamedEnding(ConversationEnding.TIME_LIMIT)
    except LlmError as error:
        # A conversation that is too long, or that a filter refuses, is the result of the model.
        caused = ending_of_error(error)
        failure = error if caused is None else None
        ended = caused or ended
    loop.close_open_calls(f"not run: {_ENDING_REASONS.get(ended.ending, ended.ending)}")
    duration_ms = round(1000 * (time.monotonic() - started))
    return AgentAttempt(loop.trace(ended, duration_ms), loop.sandbox, failure)


class _AgentLoop:
    """The conversation about one task, its model and its sandbox."""

    def __init__(self, task: EvalTask, llm: Llm, limits: AttemptLimits, budget: Budget) -> None:
        self.sandbox = Sandbox(task.files, limits.sandbox)
        self._system = task.system if task.system is not None else sandbox_prompt()
        self.llm = WatchedLlm(llm)
        announce_model(self.llm)
        self._max_turns = limits.max_turns
        self._tool_chars = limits.tool_chars
        self._budget = budget
        self._messages = [user_message(task.prompt)]
        self._calls: list[ToolCallResult] = []
        self._open_calls: deque[ToolUseBlock] = deque()
        self._results: list[ToolResultBlock] = []
        self._turns = 0

    async def run(self) -> NamedEnding:
        """Continue until the model stops or a limit of the task is reached.

        Raises: LlmError, also when the budget of the run is exhausted: the model did not fail.
        """
        while self._turns < self._max_turns:
            try:
                turn = await turn_within_budget(
                    self.llm, self._budget, self._system, self._messages, [BASH]
                )
            except AttemptBudgetExhausted as exhausted:
                return exhausted.ended
            except RunBudgetExhausted as exhausted:
                raise LlmError(str(exhausted)) from None
            self._turns += 1
            self._messages.append(turn.message)
            self._open_calls = deque(turn.message.tool_uses())
            ended = ending_of_turn(turn)
            if ended is not None:
                return ended
            if not self._open_calls:
                return NamedEnding(ConversationEnding.NATURAL)
            # Some compatible servers report "stop" although the message has tool calls; run them.
            while self._open_calls:
                await self._execute(self._open_calls[0])
            self._append_results()
        return NamedEnding(ConversationEnding.TURN_LIMIT)

    def close_open_calls(self, reason: str) -> None:
        """Record the calls that the end of the conversation left open as errors.

        Every tool call of the model is one recorded call, so that calls are counted like the
        transcript shows them.
        """
        while self._open_calls:
            self._record(self._open_calls[0], _not_run(reason), reason)
        self._append_results()

    def trace(self, ended: NamedEnding, duration_ms: int) -> AgentTrace:
        return AgentTrace(
            messages=tuple(self._messages),
            tool_calls=tuple(self._calls),
            tool_call_count=len(self._calls),
            turns=self._turns,
            last_tool_response=self._calls[-1] if self._calls else None,
            natural_stop=ended.ending is ConversationEnding.NATURAL,
            total_input_tokens=self._budget.input_tokens,
            total_output_tokens=self._budget.output_tokens,
            total_cached_tokens=self._budget.known_cached_tokens,
            total_cache_write_tokens=self._budget.known_cache_write_tokens,
            duration_ms=duration_ms,
            ending=ended.ending,
            ending_detail=ended.detail,
            cost_usd=self._budget.cost_usd,
            requests=tuple(self.llm.requests),
            system=self._system,
            retries=self.llm.retries(),
        )

    async def _execute(self, use: ToolUseBlock) -> None:
        call = parse_call(use)
        if call.error is not None:
            self._record(use, _not_run(call.error), call.error)
            return
        started = time.perf_counter()
        result = await self.sandbox.execute(call.commands, timeout_ms=call.timeout_ms)
        duration_ms = 1000 * (time.perf_counter() - started)
        self._record(
            use, replace(result, duration_ms=duration_ms), tool_text(result, self._tool_chars)
        )

    def _record(self, use: ToolUseBlock, call: ToolCallResult, text: str) -> None:
        """Record the first open call and what the model reads about it."""
        self._open_calls.popleft()
        self._calls.append(call)
        self._results.append(
            ToolResultBlock(tool_use_id=use.id, content=text, is_error=call.exit_code != 0)
        )

    def _append_results(self) -> None:
        """Append one message with the results of all calls of a turn."""
        if self._results:
            results = tuple(self._results)
            self._messages.append(ChatMessage(role=MessageRole.TOOL_RESULT, content=results))
            self._results = []


def _not_run(reason: str) -> ToolCallResult:
    return ToolCallResult(
        commands="", stdout="", stderr=reason, exit_code=NOT_RUN_EXIT_CODE, ran=False
    )


def parse_call(use: ToolUseBlock) -> BashCall:
    """The commands of a tool call: `commands`, else `script`; without either the call is an error."""
    if use.name != BASH.name:
        return BashCall("", None, f"there is no tool {use.name!r}; use {BASH.name}")
    if use.flaw is not None:
        return BashCall("", None, f'{use.flaw}; send {{"commands": "…"}}')
    commands = use.input.get("commands", use.input.get("script"))
    if commands is None:
        keys = ", ".join(use.input) or "no argument"
        return BashCall("", None, f'commands is missing ({keys} given); send {{"commands": "…"}}')
    if not isinstance(commands, str):
        return BashCall("", None, 'commands must be a text; send {"commands": "…"}')
    return BashCall(commands, _timeout_ms(use.input.get("timeout_ms")))


def tool_text(result: ToolCallResult, limit: int = DEFAULT_TOOL_CHARS) -> str:
    """The text of a call that the model reads; a mark replaces the middle of one above `limit`
    characters, because the exit code is at the end.
    """
    parts = [result.stdout] if result.stdout else []
    if result.stderr:
        parts.append(f"STDERR: {result.stderr}")
    if result.exit_code != 0:
        parts.append(f"Exit code: {result.exit_code}")
    return cut_middle("\n".join(parts), limit) or "(no output)"


def _timeout_ms(argument: Any) -> int | None:
    """The timeout of a call; an invalid one is ignored."""
    is_number = isinstance(argument, int | float) and not isinstance(argument, bool)
    # Bounded, because a model may send any number, and the sandbox takes 64 bits.
    return int(min(argument, LONGEST_TIMEOUT_MS)) if is_number and argument >= 0 else None
