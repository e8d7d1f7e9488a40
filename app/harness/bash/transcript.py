"""The transcript of an attempt at a bash task."""

from app.harness.bash.types import EvalResult, ToolCallResult
from app.harness.transcript import Transcript, TranscriptToolCall, build_transcript


def attempt_transcript(result: EvalResult) -> Transcript | None:
    """The conversation with every bash call; None when the model was never asked."""
    trace = result.trace
    if trace is None:
        return None
    return build_transcript(
        trace.messages, [_call(call) for call in trace.tool_calls], system=result.task.system
    )


def _call(call: ToolCallResult) -> TranscriptToolCall:
    arguments = {"commands": call.commands, "timeout_ms": call.timeout_ms}
    return TranscriptToolCall(
        tool="bash",
        arguments={name: argument for name, argument in arguments.items() if argument is not None},
        stdout=call.stdout,
        stderr=call.stderr,
        exit_code=call.exit_code,
        is_error=call.exit_code != 0,
    )
