"""What a model did on a task in a sandboxed bash, as a trace like any other."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import fsum
from statistics import fmean
from typing import Final

from app.harness.bash.summary import judgements_of
from app.harness.bash.types import AgentTrace, EvalReport, EvalResult, Judgement
from app.harness.results import AttemptOutcome as BashOutcome
from app.harness.results import ConversationEnding
from app.llm.conversation import ChatMessage, MessageRole
from app.traces.types import ToolCall, Trace, TraceOutcome

LONGEST_ID: Final = 200

_OUTCOMES: Final = {
    BashOutcome.SCORED: TraceOutcome.SCORED,
    BashOutcome.INFRA_ERROR: TraceOutcome.INFRA_ERROR,
    BashOutcome.JUDGE_ERROR: TraceOutcome.JUDGE_ERROR,
}


def traces_of(report: EvalReport) -> Iterator[Trace]:
    """The attempts of a run; those that were skipped were none."""
    for result in report.results:
        if result.outcome is not BashOutcome.SKIPPED:
            yield trace_of(result)


def trace_of(result: EvalResult) -> Trace:
    """One attempt at one task.

    The checks of the task stand for the expected output, one on each line. Scores: TASK_SCORE is
    the share of TASK_POINTS_MAX that TASK_POINTS are, TASK_PASSED and NATURAL_STOP are 1 or 0. What
    a judge said is JUDGE_SCORE, the mean over its questions; what that took are JUDGE_TOKENS and
    JUDGE_USD. The hash of what was asked is a tag: only attempts that share it can be compared.
    """
    task, done = result.task, result.trace
    task_id = task.id if len(task.id) <= LONGEST_ID else f"{task.id[:LONGEST_ID]}…"
    trace = Trace(
        trace_id=f"{task_id}#{result.trial}",
        item_id=task_id,
        trial=result.trial,
        outcome=_outcome(result),
        input=task.prompt,
        expected_output="\n".join(each.check for each in task.expectations) or None,
        error=result.reason or _unmet(result),
        tags=(task.category, f"task:{task.content_hash()}"),
        scores=_scores(result),
    )
    return trace if done is None else _with_figures(trace, done)


def _outcome(result: EvalResult) -> TraceOutcome:
    """A task that ran out of time was scored all the same, and is the agent's failure."""
    if result.outcome is BashOutcome.SCORED and result.trace is not None:
        return (
            TraceOutcome.TIMEOUT
            if result.trace.ending is ConversationEnding.TIME_LIMIT
            else TraceOutcome.SCORED
        )
    return _OUTCOMES.get(result.outcome, TraceOutcome.INFRA_ERROR)


def _unmet(result: EvalResult) -> str | None:
    """Which checks were not met, one on each line."""
    results = result.score.results if result.score else ()
    return "\n".join(f"{each.check}: {each.detail}" for each in results if not each.passed) or None


def _with_figures(trace: Trace, done: AgentTrace) -> Trace:
    calls = (
        ToolCall(name="bash", arguments={"commands": call.commands}, ok=call.exit_code == 0)
        for call in done.tool_calls
    )
    return replace(
        trace,
        output=_last_words(done.messages),
        input_tokens=done.total_input_tokens,
        output_tokens=done.total_output_tokens,
        cost_usd=done.cost_usd,
        latency_ms=float(done.duration_ms),
        tool_calls=tuple(calls),
        turns=done.turns,
    )


def _last_words(messages: tuple[ChatMessage, ...]) -> str | None:
    said = (each.text() for each in reversed(messages) if each.role is MessageRole.ASSISTANT)
    return next(said, None)


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
    return scores | _judged(judgements_of([result]))


def _judged(said: Sequence[Judgement]) -> dict[str, float]:
    """What a judge said and took, as far as it is known."""
    if not said:
        return {}
    found = {"JUDGE_SCORE": fmean(each.score for each in said)}
    tokens = [n for each in said for n in (each.input_tokens, each.output_tokens)]
    if None not in tokens:
        found["JUDGE_TOKENS"] = float(sum(filter(None, tokens)))
    dollars = [each.cost_usd for each in said]
    if None not in dollars:
        found["JUDGE_USD"] = fsum(filter(None, dollars))
    return found
