"""Small results of ot-bench for tests."""

from typing import Any

from mosaico.harness.mcp.config import TaskType
from mosaico.harness.mcp.types import (
    Evaluation,
    LlmCall,
    McpReport,
    McpToolCall,
    ServerFacts,
    TaskResult,
    ToolFacts,
)
from mosaico.harness.results import AttemptOutcome

PASSED = Evaluation(type="contains", passed=True, reason="found", expected="a", actual="a")
FAILED = Evaluation(type="contains", passed=False, reason="not found in the answer", expected="b")


def result(task: str = "compare:base", **fields: Any) -> TaskResult:
    """An attempt that passed."""
    values: dict[str, Any] = {
        "file": "bench.yaml",
        "scenario": "s",
        "task": task,
        "type": TaskType.HARNESS,
        "model": "m",
        "servers": (),
        "trial": 0,
        "outcome": AttemptOutcome.SCORED,
        "content_hash": "0" * 16,
        "response": "a",
        "evaluations": (PASSED,),
    }
    return TaskResult(**{**values, **fields})


def llm_calls(*inputs: int | None) -> tuple[LlmCall, ...]:
    """Requests with these input tokens and ten output tokens each."""
    read: int | None = 0
    calls = []
    for tokens in inputs:
        # One unknown count makes every later sum unknown: missing is not zero.
        read = None if read is None or tokens is None else read + tokens
        calls.append(
            LlmCall(
                input_tokens=tokens,
                output_tokens=10,
                latency_ms=5.0,
                cumulative_input=read,
                tool_calls_made=1,
            )
        )
    return tuple(calls)


def tool_call(server: str, tool: str, *, is_error: bool = False) -> McpToolCall:
    return McpToolCall(
        server=server, tool=tool, arguments={}, text="x", is_error=is_error, duration_ms=1.0
    )


def server(name: str, **tools: int) -> ServerFacts:
    """A server with tools of these token counts."""
    listed = tuple(
        ToolFacts(name=tool, description="", input_schema={}, tokens=tokens)
        for tool, tokens in tools.items()
    )
    return ServerFacts(file="bench.yaml", name=name, version=None, instructions=None, tools=listed)


def mcp_report(*results: TaskResult, **fields: Any) -> McpReport:
    values = {"timestamp": "2026-11-22T09:30:00Z", "planned": len(results), "results": results}
    return McpReport(**{**values, **fields})
