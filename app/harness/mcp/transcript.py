"""The transcript of an attempt at an ot-bench task."""

from app.harness.mcp.types import LlmCall, McpToolCall, TaskResult
from app.harness.transcript import (
    ModelRequest,
    Transcript,
    TranscriptToolCall,
    build_transcript,
)


def attempt_transcript(result: TaskResult) -> Transcript | None:
    """The conversation with every tool call, or the calls of a direct task; None without any."""
    if not result.messages and not result.tool_calls:
        return None
    has_many_servers = len(result.servers) > 1
    calls = [_call(call, name_server=has_many_servers) for call in result.tool_calls]
    return build_transcript(
        result.messages,
        calls,
        system=result.system,
        requests=map(_request, result.llm_calls),
    )


def _call(call: McpToolCall, *, name_server: bool) -> TranscriptToolCall:
    return TranscriptToolCall(
        tool=f"{call.server}__{call.tool}" if name_server and call.server else call.tool,
        arguments=call.arguments,
        output=call.text,
        is_error=call.is_error,
        duration_ms=call.duration_ms,
    )


def _request(call: LlmCall) -> ModelRequest:
    return ModelRequest(
        input_tokens=call.input_tokens,
        output_tokens=call.output_tokens,
        latency_ms=call.latency_ms,
        waited_ms=call.waited_ms,
        retries=call.retries,
    )
