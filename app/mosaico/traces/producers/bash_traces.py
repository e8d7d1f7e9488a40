"""Converts the results of a bash evaluation to traces."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import fsum
from statistics import fmean
from typing import Final

from mosaico.core.text import shorten
from mosaico.harness.bash.summary import judge_scores_of
from mosaico.harness.bash.transcript import attempt_transcript
from mosaico.harness.bash.types import AgentTrace, EvalReport, EvalResult
from mosaico.harness.judge import JudgeScore
from mosaico.harness.results import AttemptOutcome, last_answer
from mosaico.traces.types import OUTCOMES, ToolCall, Trace, TraceOutcome

LONGEST_ID: Final = 200  # characters


def traces_of(report: EvalReport) -> Iterator[Trace]:
    """The traces of all attempts except the skipped ones."""
    for result in report.results:
        if result.outcome is not AttemptOutcome.SKIPPED:
            yield trace_of(result)


def trace_of(result: EvalResult) -> Trace:
    """The trace of one attempt.

    The expected output lists the checks, one per line. Scores: TASK_POINTS of TASK_POINTS_MAX,
    their ratio TASK_SCORE, TASK_PASSED and NATURAL_STOP (1 or 0); JUDGE_SCORE is the mean over the
    judge questions, JUDGE_TOKENS and JUDGE_USD their usage. The content hash of the task is a tag:
    only attempts that share it are comparable.
    """
    task, agent_trace = result.task, result.trace
    task_id = shorten(task.id, LONGEST_ID)
    trace = Trace(
        trace_id=f"{task_id}#{result.trial}",
        item_id=task_id,
        trial=result.trial,
        outcome=OUTCOMES.get(result.outcome, TraceOutcome.INFRA_ERROR),
        input=task.prompt,
        expected_output="\n".join(expectation.check for expectation in task.expectations) or None,
        error=result.reason or "\n".join(result.failures()) or None,
        tags=(f"category:{task.category}", f"task:{task.content_hash()}"),
        scores=_scores(result),
        transcript=attempt_transcript(result),
    )
    return trace if agent_trace is None else _with_usage(trace, agent_trace)


def _with_usage(trace: Trace, agent_trace: AgentTrace) -> Trace:
    calls = (
        ToolCall(name="bash", arguments={"commands": call.commands}, ok=call.exit_code == 0)
        for call in agent_trace.tool_calls
    )
    return replace(
        trace,
        output=last_answer(agent_trace.messages),
        input_tokens=agent_trace.total_input_tokens,
        output_tokens=agent_trace.total_output_tokens,
        cost_usd=agent_trace.cost_usd,
        latency_ms=float(agent_trace.duration_ms),
        tool_calls=tuple(calls),
        turns=agent_trace.turns,
    )


def _scores(result: EvalResult) -> dict[str, float]:
    scores: dict[str, float] = {}
    if result.score is not None:
        scores |= {
            "TASK_SCORE": result.score.rate(),
            "TASK_PASSED": float(result.score.all_passed()),
            "TASK_POINTS": result.score.score,
            "TASK_POINTS_MAX": result.score.max_score,
        }
    if result.trace is not None and result.score is not None:
        scores["NATURAL_STOP"] = float(result.trace.natural_stop)
    return scores | _judge_scores(judge_scores_of([result]))


def _judge_scores(judge_scores: Sequence[JudgeScore]) -> dict[str, float]:
    """The mean judge score, and the usage of the judge where all of it is known."""
    if not judge_scores:
        return {}
    scores = {"JUDGE_SCORE": fmean(judge_score.score for judge_score in judge_scores)}
    tokens = [
        count
        for judge_score in judge_scores
        for count in (judge_score.input_tokens, judge_score.output_tokens)
    ]
    if None not in tokens:
        scores["JUDGE_TOKENS"] = float(sum(filter(None, tokens)))
    dollars = [judge_score.cost_usd for judge_score in judge_scores]
    if None not in dollars:
        scores["JUDGE_USD"] = fsum(filter(None, dollars))
    return scores
