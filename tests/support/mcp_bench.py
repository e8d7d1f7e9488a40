"""Runs of ot-bench without files: tasks, a scripted model, events."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mosaico.harness.budget import Budget
from mosaico.harness.limits import BudgetLimits
from mosaico.harness.mcp.agent_loop.run import run_plan
from mosaico.harness.mcp.config import TaskType
from mosaico.harness.mcp.plan import LlmEndpoint, McpRunPlan, PlannedServer, PlannedTask
from mosaico.harness.mcp.servers.server import ServerEnvironment
from mosaico.harness.mcp.types import Event, McpReport, TaskResult
from mosaico.llm.conversation import (
    ChatMessage,
    Llm,
    MessageRole,
    Provider,
    StopReason,
    TextBlock,
    Tool,
    ToolUseBlock,
    Turn,
    Usage,
)

# Nothing listens on port 1: a test that misses its scripted model fails instead of calling one.
ENDPOINT = LlmEndpoint(provider=Provider.OPENAI, base_url="http://127.0.0.1:1/v1")


def calls(
    *uses: tuple[str, dict[str, Any]], text: str = "", tokens: tuple[int, int] | None = None
) -> Turn:
    """A turn with tool calls, or with text only."""
    blocks: list[TextBlock | ToolUseBlock] = [TextBlock(text=text)] if text else []
    blocks += [
        ToolUseBlock(id=f"call_{n}", name=name, input=arguments)
        for n, (name, arguments) in enumerate(uses)
    ]
    return Turn(
        message=ChatMessage(role=MessageRole.ASSISTANT, content=tuple(blocks)),
        stop=StopReason.TOOL_USE if uses else StopReason.END,
        usage=Usage(input_tokens=tokens[0], output_tokens=tokens[1]) if tokens else None,
    )


def says(text: str, tokens: tuple[int, int] | None = None) -> Turn:
    return calls(text=text, tokens=tokens)


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the model."""

    system: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[Tool, ...]


Play = Callable[[Request], Turn]


@dataclass(slots=True)
class ScriptedModel:
    """Answers with a function of the request."""

    play: Play
    model: str = "m"
    provider: str = "scripted"
    requests: list[Request] = field(default_factory=list)

    async def turn(
        self, system: str, messages: Sequence[ChatMessage], tools: Sequence[Tool]
    ) -> Turn:
        request = Request(system, tuple(messages), tuple(tools))
        self.requests.append(request)
        return self.play(request)

    async def close(self) -> None:
        """There is nothing to close."""


def scripted(*turns: Turn) -> ScriptedModel:
    """A model that answers with these turns in order; the last one repeats."""
    remaining_turns = list(turns)
    return ScriptedModel(
        lambda _: remaining_turns.pop(0) if len(remaining_turns) > 1 else remaining_turns[0]
    )


def harness_task(*servers: PlannedServer, prompt: str = "Do it.", **more: Any) -> PlannedTask:
    fields: dict[str, Any] = {
        "file": "bench.yaml",
        "scenario": "s",
        "name": "t",
        "type": TaskType.HARNESS,
        "model": "m",
        "servers": servers,
        "timeout_s": 60.0,
        "endpoint": ENDPOINT,
        "prompts": (prompt,),
        **more,
    }
    return PlannedTask(**fields)


def direct_task(server: PlannedServer, tool: str, **more: Any) -> PlannedTask:
    fields: dict[str, Any] = {"prompts": (), "type": TaskType.DIRECT, "model": "", **more}
    return harness_task(server, tool=tool, **fields)


@dataclass(slots=True)
class Ran:
    """A report and the events of its run."""

    report: McpReport
    events: list[Event]

    @property
    def result(self) -> TaskResult:
        [only] = self.report.results
        return only


def run(
    *tasks: PlannedTask,
    model: Llm | None = None,
    budget_limits: BudgetLimits | None = None,
    server_environment: ServerEnvironment | None = None,
    **more: Any,
) -> Ran:
    """Run tasks; `model` answers for every model name."""
    scripted_model = model or scripted(says("Done."))
    events: list[Event] = []
    plan = McpRunPlan(tasks=tasks, **more)
    run_budget = Budget(limits=budget_limits or BudgetLimits())
    report = asyncio.run(
        run_plan(
            plan,
            events.append,
            server_environment=server_environment,
            open_llm_model=lambda *_: scripted_model,
            budget=run_budget,
        )
    )
    return Ran(report, events)
