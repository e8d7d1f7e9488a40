"""The conversation of a model about one task: turns and tool calls until an ending or a limit."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from mosaico.harness.budget import AttemptBudgetExhausted, Budget, turn_within_budget
from mosaico.harness.mcp.agent_loop.attempt_record import AttemptRecord
from mosaico.harness.mcp.agent_loop.toolbox import (
    Toolbox,
    ToolServer,
    rejected_call,
    system_message,
)
from mosaico.harness.mcp.plan import PlannedTask
from mosaico.harness.mcp.tool_content import images_for_model, truncate
from mosaico.harness.mcp.types import LlmCall
from mosaico.harness.results import ConversationEnding, NamedEnding, ending_of_turn
from mosaico.harness.watched_llm import WatchedLlm
from mosaico.llm.conversation import (
    ChatMessage,
    MessageRole,
    ToolResultBlock,
    ToolUseBlock,
    Turn,
    user_message,
)
from mosaico.llm.model_families import takes_images


class Conversation:
    """The conversation of one task. `record` holds all steps, even when an error ends it."""

    def __init__(
        self,
        task: PlannedTask,
        llm: WatchedLlm,
        servers: Sequence[ToolServer],
        record: AttemptRecord,
        budget: Budget,
    ) -> None:
        self._prompts = task.prompts
        self._max_turns = task.max_turns
        self._tool_chars = task.tool_chars
        self._takes_images = takes_images(task.endpoint.provider, task.model, task.turn_settings)
        self._llm = llm
        self._servers = servers
        self._toolbox = Toolbox(servers)
        record.system = system_message(task.system_prompt, [server.facts for server in servers])
        self._record = record
        self._budget = budget

    async def run(self) -> NamedEnding:
        """Send every prompt and let the model answer it.

        Raises: LlmError, ServerError, RunBudgetExhausted.
        """
        ended = NamedEnding(ConversationEnding.NATURAL)
        for prompt in self._prompts:
            self._record.messages.append(user_message(prompt))
            ended = await self._run_prompt()
            if ended.ending is not ConversationEnding.NATURAL:
                break
        return ended

    async def _run_prompt(self) -> NamedEnding:
        while len(self._record.llm_calls) < self._max_turns:
            try:
                turn = await self._run_turn()
            except AttemptBudgetExhausted as exhausted:
                return exhausted.ended
            ended = ending_of_turn(turn)
            if ended is not None:
                return ended
            uses = turn.message.tool_uses()
            if not uses:
                return NamedEnding(ConversationEnding.NATURAL)
            # Some model servers report "stop" with tool calls; the tool calls count.
            results = await self._use_tools(uses)
            self._record.messages.append(ChatMessage(role=MessageRole.TOOL_RESULT, content=results))
        return NamedEnding(ConversationEnding.TURN_LIMIT)

    async def _run_turn(self) -> Turn:
        record = self._record
        await self._follow_changed_tools()
        record.trace(f"-> {len(record.messages)} messages, {len(self._toolbox.tools)} tools")
        start_time = time.monotonic()
        turn = await turn_within_budget(
            self._llm, self._budget, record.system, record.messages, self._toolbox.tools
        )
        latency_ms = 1000 * (time.monotonic() - start_time)
        request = self._llm.requests[-1]
        record.messages.append(turn.message)
        record.llm_calls.append(
            LlmCall(
                input_tokens=request.input_tokens,
                output_tokens=request.output_tokens,
                cached_tokens=request.cached_tokens or 0,
                cache_write_tokens=request.cache_write_tokens or 0,
                latency_ms=latency_ms,
                cumulative_input=self._budget.input_tokens,
                tool_calls_made=len(turn.message.tool_uses()),
                retries=request.retries or 0,
                waited_ms=request.waited_ms or 0.0,
            )
        )
        record.trace(f"<- {turn.stop} after {latency_ms:.0f} ms: {turn.message.text()}")
        return turn

    async def _follow_changed_tools(self) -> None:
        """Offer the tools that servers list now, when one said that its list has changed."""
        changed = [await server.list_changed_tools() for server in self._servers]
        if any(changed):
            self._toolbox = Toolbox(self._servers)

    async def _use_tools(self, uses: Sequence[ToolUseBlock]) -> tuple[ToolResultBlock, ...]:
        """Run the calls of one turn concurrently: the model requested all of them at once."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._use_tool(use)) for use in uses]
        except ExceptionGroup as failures:
            # The first lost server ends the attempt, as it does without concurrency.
            raise failures.exceptions[0] from None
        return tuple(task.result() for task in tasks)

    async def _use_tool(self, use: ToolUseBlock) -> ToolResultBlock:
        route = self._toolbox.find(use.name)
        server, tool = (route.server.name, route.tool) if route is not None else ("", use.name)
        number = self._record.begin_call(server, tool, use.input)
        if route is None:
            reason = self._toolbox.describe_unknown(use.name)
            call = rejected_call(server, tool, use.input, reason)
        elif use.flaw is not None:
            call = rejected_call(server, tool, use.input, use.flaw)
        else:
            call = await route.server.call(tool, use.input)
            call = replace(call, text=truncate(call.text, self._tool_chars))
        self._record.finish_call(number, call)
        return ToolResultBlock(
            tool_use_id=use.id,
            content=call.text,
            is_error=call.is_error,
            images=images_for_model(call.content) if self._takes_images else (),
        )
