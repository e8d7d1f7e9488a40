"""The transcript of an attempt at a bash task."""

from mosaico.harness.bash.types import EvalResult, ToolCallResult
from mosaico.harness.transcript import Transcript, TranscriptToolCall, build_transcript


def attempt_transcript(result: EvalResult) -> Transcript | None:
    """The conversation with every bash call; None when no request was sent to the model."""
    trace = result.trace
    if trace is None:
        return None
    return build_transcript(
        trace.messages,
        [_call(call) for call in trace.tool_calls],
        system=trace.system if trace.system is not None else result.task.system,
        requests=trace.requests,
    )


def _call(call: ToolCallResult) -> TranscriptToolCall:
    return TranscriptToolCall(
        tool="bash",
        arguments={"commands": call.commands},
        stdout=call.stdout,
        stderr=call.stderr,
        exit_code=call.exit_code,
        is_error=call.exit_code != 0,
        duration_ms=call.duration_ms,
    )
