"""What an attempt was asked, and its figures by name, for those who keep them elsewhere."""

import json
from typing import Final

from app.harness.mcp.config import TaskType
from app.harness.mcp.types import Evaluation, TaskResult
from app.harness.results import AttemptOutcome
from app.llm.conversation import MessageRole

FAILURES: Final = (AttemptOutcome.AGENT_ERROR, AttemptOutcome.TIMEOUT)
_OF_THE_ANSWER: Final = ("contains", "fields", "literal", "number", "regex")


def asked_of(result: TaskResult) -> str | None:
    """The prompts, or the call of a direct task; None when nothing was asked."""
    if result.type is TaskType.DIRECT:
        called = [{"tool": each.tool, "arguments": each.arguments} for each in result.tool_calls]
        return json.dumps(called[0], ensure_ascii=False) if called else None
    said = (each.text() for each in result.messages if each.role is MessageRole.USER)
    return "\n\n".join(text for text in said if text) or None


def expected_of(result: TaskResult) -> str | None:
    """What the answer was to hold, one on each line; None when nothing was expected of it.

    What a judge was asked and which tools were to be called is no text that an answer is like.
    """
    held = (each for each in result.evaluations if each.type in _OF_THE_ANSWER)
    return "\n".join(each.expected for each in held if each.expected) or None


def task_scores(result: TaskResult) -> dict[str, float]:
    """None of an attempt that is nobody's failure and has no answer.

    TASK_PASSED is 1 or 0, and absent when there was nothing to be met; TASK_SCORE the mean of what
    the evaluators say; NATURAL_STOP, BASE_CONTEXT and CONTEXT_GROWTH_AVG where a model was asked.
    """
    failed = result.outcome in FAILURES
    if result.outcome is not AttemptOutcome.SCORED and not failed:
        return {}
    found = {
        "TASK_PASSED": 0.0 if failed else result.passed,
        "TASK_SCORE": 0.0 if failed else _share_met(result.evaluations),
        "NATURAL_STOP": result.natural_stop if result.type is TaskType.HARNESS else None,
        "BASE_CONTEXT": result.base_context,
        "CONTEXT_GROWTH_AVG": result.context_growth_avg,
    }
    return {name: float(value) for name, value in found.items() if value is not None}


def _share_met(evaluations: tuple[Evaluation, ...]) -> float | None:
    """The mean of what was said, a verdict as 1 or 0; None when nothing was."""
    said = [each.passed if each.score is None else each.score for each in evaluations]
    known = [float(value) for value in said if value is not None]
    return sum(known) / len(known) if known else None
