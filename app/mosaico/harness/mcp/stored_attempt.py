"""An attempt as traces, reports and Langfuse store it: its transcript, its input, expected output and scores."""

import json
from typing import Final

from mosaico.harness.mcp.config import TaskType
from mosaico.harness.mcp.types import Evaluation, LlmCall, McpToolCall, TaskResult
from mosaico.harness.results import AttemptOutcome
from mosaico.harness.transcript import (
    Transcript,
    TranscriptRequest,
    TranscriptToolCall,
    build_transcript,
)
from mosaico.llm.conversation import MessageRole

_ANSWER_EVALUATORS: Final = ("contains", "fields", "literal", "number", "regex")


def input_text(result: TaskResult) -> str | None:
    """The prompts, or the tool call of a direct task; None when there was no request."""
    if result.type is TaskType.DIRECT:
        calls = [{"tool": call.tool, "arguments": call.arguments} for call in result.tool_calls]
        return json.dumps(calls[0], ensure_ascii=False) if calls else None
    prompts = (message.text() for message in result.messages if message.role is MessageRole.USER)
    return "\n\n".join(text for text in prompts if text) or None


def expected_output(result: TaskResult) -> str | None:
    """The expected parts of the answer, one per line; None when the answer is not compared.

    Judge questions and expected tool calls are left out: an answer does not resemble them.
    """
    compared = (
        evaluation.expected
        for evaluation in result.evaluations
        if evaluation.type in _ANSWER_EVALUATORS
    )
    return "\n".join(text for text in compared if text) or None


def task_scores(result: TaskResult) -> dict[str, float]:
    """The scores of an attempt; none when an infrastructure or judge error left it unscored.

    TASK_PASSED is 1 or 0, and missing without an expectation; TASK_SCORE is the mean of the
    evaluators; NATURAL_STOP, BASE_CONTEXT and CONTEXT_GROWTH_AVG exist only where a model ran.
    """
    has_failed = result.outcome.is_agent_failure
    if result.outcome is not AttemptOutcome.SCORED and not has_failed:
        return {}
    scores = {
        "TASK_PASSED": result.passed,
        "TASK_SCORE": 0.0 if has_failed else _mean_score(result.evaluations),
        "NATURAL_STOP": result.natural_stop if result.type is TaskType.HARNESS else None,
        "BASE_CONTEXT": result.base_context,
        "CONTEXT_GROWTH_AVG": result.context_growth_avg,
    }
    return {name: float(score) for name, score in scores.items() if score is not None}


def _mean_score(evaluations: tuple[Evaluation, ...]) -> float | None:
    """The mean of the scores, a pass counted as 1 and a fail as 0; None without any."""
    scores = [
        evaluation.passed if evaluation.score is None else evaluation.score
        for evaluation in evaluations
    ]
    known_scores = [float(score) for score in scores if score is not None]
    return sum(known_scores) / len(known_scores) if known_scores else None


def attempt_transcript(result: TaskResult) -> Transcript | None:
    """The conversation with every tool call, or the calls of a direct task; None without any."""
    if not result.messages and not result.tool_calls:
        return None
    calls = [_call(result.tool_name(call), call) for call in result.tool_calls]
    return build_transcript(
        result.messages,
        calls,
        system=result.system,
        requests=map(_request, result.llm_calls),
    )


def _call(name: str, call: McpToolCall) -> TranscriptToolCall:
    return TranscriptToolCall(
        tool=name,
        arguments=call.arguments,
        output=call.text,
        is_error=call.is_error,
        duration_ms=call.duration_ms,
    )


def _request(call: LlmCall) -> TranscriptRequest:
    return TranscriptRequest(
        input_tokens=call.input_tokens,
        output_tokens=call.output_tokens,
        latency_ms=call.latency_ms,
        waited_ms=call.waited_ms,
        retries=call.retries,
    )
