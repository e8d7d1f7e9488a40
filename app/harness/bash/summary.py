"""A run in figures, computed from its results alone."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from app.harness.bash.types import (
    AgentTrace,
    CategorySummary,
    EvalReport,
    EvalResult,
    EvalSummary,
    Judgement,
)
from app.harness.gate import GateFigures
from app.harness.results import AttemptOutcome


def figures(report: EvalReport) -> GateFigures:
    """What the gate looks at."""
    found = summarize(report)
    return GateFigures(found.tasks_errored, found.tasks_skipped, found.pass_rate)


def summarize(report: EvalReport) -> EvalSummary:
    """The figures of a run: completion, tool execution, efficiency, tokens, latency, categories.

    A task that errored was attempted, has no score, and keeps what it could have had in the
    total, so that a run with errors is never at 100 %. Skipped tasks count nowhere else.
    """
    attempted = [each for each in report.results if each.outcome is not AttemptOutcome.SKIPPED]
    skipped = [each for each in report.results if each.outcome is AttemptOutcome.SKIPPED]
    scored = [each for each in attempted if each.score is not None]
    errored = [each for each in attempted if each.score is None]
    traces = [each.trace for each in attempted if each.trace is not None]
    calls, ok = sum(trace.tool_call_count for trace in traces), sum(t.calls_ok() for t in traces)
    judgements = judgements_of(scored)
    score, max_score = _score(attempted), _max_score(attempted)
    passed = sum(each.passed() for each in scored)
    stops = sum(trace.natural_stop for trace in traces)
    return EvalSummary(
        total_tasks=len(attempted),
        total_passed=passed,
        total_score=score,
        total_max_score=max_score,
        pass_rate=passed / len(attempted) if attempted else None,
        overall_rate=_rate(score, max_score) if attempted else None,
        tasks_scored=len(scored),
        tasks_errored=len(errored),
        tasks_skipped=len(skipped),
        error_reasons=_reasons(errored),
        skip_reasons=_reasons(skipped),
        natural_stops=stops,
        natural_stop_rate=stops / len(traces) if traces else None,
        total_turns=sum(trace.turns for trace in traces),
        total_tool_calls=calls,
        tool_calls_ok=ok,
        tool_calls_error=calls - ok,
        tool_call_success_rate=ok / calls if calls else 1.0,
        errors_adapted=sum(map(count_adapted, traces)),
        errors_repeated=sum(map(count_repeated, traces)),
        total_input_tokens=sum(trace.total_input_tokens or 0 for trace in traces),
        total_output_tokens=sum(trace.total_output_tokens or 0 for trace in traces),
        tasks_without_usage=sum(not _has_usage(trace) for trace in traces),
        total_cost_usd=_known_sum(trace.cost_usd for trace in traces),
        tasks_without_cost=sum(trace.cost_usd is None for trace in traces),
        judge_input_tokens=sum(each.input_tokens or 0 for each in judgements),
        judge_output_tokens=sum(each.output_tokens or 0 for each in judgements),
        judge_cost_usd=_known_sum(each.cost_usd for each in judgements),
        total_duration_ms=sum(trace.duration_ms for trace in traces),
        avg_turns_per_task=_average([trace.turns for trace in traces]),
        avg_tool_calls_per_task=_average([trace.tool_call_count for trace in traces]),
        avg_duration_ms=_average([trace.duration_ms for trace in traces]),
        by_category=_by_category(attempted),
    )


def count_adapted(trace: AgentTrace) -> int:
    """How often a failing command was followed by another one."""
    return sum(
        before.exit_code != 0 and before.commands != after.commands
        for before, after in pairwise(trace.tool_calls)
    )


def count_repeated(trace: AgentTrace) -> int:
    """How often a failing command was tried again unchanged."""
    return sum(
        before.exit_code != 0 and before.commands == after.commands
        for before, after in pairwise(trace.tool_calls)
    )


def _reasons(results: Iterable[EvalResult]) -> dict[str, int]:
    return dict(Counter(each.reason or "unknown" for each in results))


def _by_category(attempted: Sequence[EvalResult]) -> dict[str, CategorySummary]:
    grouped: dict[str, list[EvalResult]] = {}
    for each in attempted:
        grouped.setdefault(each.task.category, []).append(each)
    return {name: _category(grouped[name]) for name in sorted(grouped)}


def _category(results: Sequence[EvalResult]) -> CategorySummary:
    score, max_score = _score(results), _max_score(results)
    return CategorySummary(
        tasks=len(results),
        passed=sum(each.passed() for each in results),
        score=score,
        max_score=max_score,
        rate=_rate(score, max_score),
    )


def _score(results: Iterable[EvalResult]) -> float:
    return sum((each.score.score for each in results if each.score is not None), 0.0)


def _max_score(results: Iterable[EvalResult]) -> float:
    return sum(
        (each.score.max_score if each.score else each.task.max_score() for each in results), 0.0
    )


def _rate(score: float, max_score: float) -> float:
    return score / max_score if max_score > 0 else 1.0


def judgements_of(scored: Iterable[EvalResult]) -> list[Judgement]:
    """What was asked of the judge: a question that a task has twice is asked once."""
    return [
        judgement
        for each in scored
        if each.score is not None
        for judgement in {one.check: one.judgement for one in each.score.results}.values()
        if judgement is not None
    ]


def _has_usage(trace: AgentTrace) -> bool:
    return trace.total_input_tokens is not None and trace.total_output_tokens is not None


def _known_sum(amounts: Iterable[float | None]) -> float | None:
    """The sum of what is known; None when nothing is."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def _average(values: Sequence[int]) -> float:
    return sum(values) / max(len(values), 1)
