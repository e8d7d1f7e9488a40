"""The figures of a bash evaluation, computed from its results alone; of repeated attempts pass@k and pass^k, and the tasks
that pass only sometimes.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from mosaico.harness.bash.types import (
    AgentTrace,
    CategorySummary,
    EvalReport,
    EvalResult,
    EvalSummary,
)
from mosaico.harness.judge import JudgeScore
from mosaico.harness.results import AttemptOutcome, GateFigures, pass_rate, sum_of_known


def gate_figures(report: EvalReport) -> GateFigures:
    """The figures that the gate reads."""
    summary = summarize(report)
    return GateFigures(summary.tasks_errored, summary.tasks_skipped, summary.pass_rate)


def summarize(report: EvalReport) -> EvalSummary:
    """All figures of a run, computed from its results.

    The rates, turns, tool calls and natural stops are those of the scored attempts: an attempt that
    errored is not evidence about the model and is counted separately. Tokens, cost and duration are
    those of all attempts. Skipped attempts count only as skipped.
    """
    results = report.results
    attempted = [result for result in results if result.outcome is not AttemptOutcome.SKIPPED]
    skipped = [result for result in results if result.outcome is AttemptOutcome.SKIPPED]
    scored = [result for result in attempted if result.score is not None]
    errored = [result for result in attempted if result.score is None]
    traces = [result.trace for result in attempted if result.trace is not None]
    work = [result.trace for result in scored if result.trace is not None]
    calls = sum(trace.tool_call_count for trace in work)
    calls_ok = sum(trace.calls_ok() for trace in work)
    judge_scores = judge_scores_of(scored)
    score, max_score = _score(scored), _max_score(scored)
    passed = sum(result.passed() for result in scored)
    natural_stops = sum(trace.natural_stop for trace in work)
    return EvalSummary(
        total_tasks=len(attempted),
        total_passed=passed,
        total_score=score,
        total_max_score=max_score,
        pass_rate=pass_rate(passed, len(scored)),
        overall_rate=_rate(score, max_score) if scored else None,
        tasks_scored=len(scored),
        tasks_errored=len(errored),
        tasks_skipped=len(skipped),
        error_reasons=_reasons(errored),
        skip_reasons=_reasons(skipped),
        natural_stops=natural_stops,
        natural_stop_rate=natural_stops / len(work) if work else None,
        total_turns=sum(trace.turns for trace in work),
        total_tool_calls=calls,
        tool_calls_ok=calls_ok,
        tool_calls_error=calls - calls_ok,
        tool_call_success_rate=calls_ok / calls if calls else 1.0,
        errors_adapted=sum(map(count_adapted, work)),
        errors_repeated=sum(map(count_repeated, work)),
        total_input_tokens=sum(trace.total_input_tokens or 0 for trace in traces),
        total_output_tokens=sum(trace.total_output_tokens or 0 for trace in traces),
        total_cached_tokens=sum(trace.total_cached_tokens for trace in traces),
        total_cache_write_tokens=sum(trace.total_cache_write_tokens for trace in traces),
        tasks_without_usage=sum(trace.total_tokens() is None for trace in traces),
        total_cost_usd=sum_of_known([trace.cost_usd for trace in traces]),
        tasks_without_cost=sum(trace.cost_usd is None for trace in traces),
        judge_input_tokens=sum(judge_score.input_tokens or 0 for judge_score in judge_scores),
        judge_output_tokens=sum(judge_score.output_tokens or 0 for judge_score in judge_scores),
        judge_cost_usd=sum_of_known([judge_score.cost_usd for judge_score in judge_scores]),
        total_duration_ms=sum(trace.duration_ms for trace in traces),
        avg_turns_per_task=_average([trace.turns for trace in work]),
        avg_tool_calls_per_task=_average([trace.tool_call_count for trace in work]),
        avg_duration_ms=_average([trace.duration_ms for trace in traces]),
        by_category=_by_category(scored),
    )


def count_adapted(trace: AgentTrace) -> int:
    """Return how often the model followed a failed command by a different one."""
    return sum(
        call.exit_code != 0 and call.commands != following.commands
        for call, following in pairwise(trace.tool_calls)
    )


def count_repeated(trace: AgentTrace) -> int:
    """Return how often the model repeated a failed command unchanged."""
    return sum(
        call.exit_code != 0 and call.commands == following.commands
        for call, following in pairwise(trace.tool_calls)
    )


def judge_scores_of(scored: Iterable[EvalResult]) -> list[JudgeScore]:
    """The judge scores of these attempts; a repeated question of a task was sent only once."""
    return [
        judge_score
        for result in scored
        if result.score is not None
        for judge_score in {
            check.check: check.judge_score for check in result.score.results
        }.values()
        if judge_score is not None
    ]


def _reasons(results: Iterable[EvalResult]) -> dict[str, int]:
    return dict(Counter(result.reason or "unknown" for result in results))


def _by_category(scored: Iterable[EvalResult]) -> dict[str, CategorySummary]:
    groups: dict[str, list[EvalResult]] = {}
    for result in scored:
        groups.setdefault(result.task.category, []).append(result)
    return {name: _summarize_category(groups[name]) for name in sorted(groups)}


def _summarize_category(results: Sequence[EvalResult]) -> CategorySummary:
    score, max_score = _score(results), _max_score(results)
    return CategorySummary(
        tasks=len(results),
        passed=sum(result.passed() for result in results),
        score=score,
        max_score=max_score,
        rate=_rate(score, max_score),
    )


def _score(results: Iterable[EvalResult]) -> float:
    return sum((result.score.score for result in results if result.score is not None), 0.0)


def _max_score(results: Iterable[EvalResult]) -> float:
    # Not that of the task: a check may change its own weight.
    return sum((result.score.max_score for result in results if result.score is not None), 0.0)


def _rate(score: float, max_score: float) -> float:
    return score / max_score if max_score > 0 else 1.0


def _average(numbers: Sequence[int]) -> float:
    return sum(numbers) / max(len(numbers), 1)


MAX_K: Final = 10  # nobody reads a longer table


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTrials:
    """The scored trials of one task, and how many of them passed."""

    task_id: str
    category: str
    trials: int
    passed: int

    @property
    def share(self) -> float:
        """The share of the trials that passed."""
        return self.passed / self.trials

    @property
    def is_flaky(self) -> bool:
        """Return whether the task passed in some trials and failed in others."""
        return 0 < self.passed < self.trials


@dataclass(frozen=True, slots=True, kw_only=True)
class PassesOfK:
    """Means over the tasks with at least k scored trials: that one of k trials passes, that all do."""

    k: int
    tasks: int
    pass_at_k: float
    pass_hat_k: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSummary:
    """The trials of a run by task in the order of the dataset, and their pass@k statistics."""

    tasks: tuple[TaskTrials, ...]
    passes: tuple[PassesOfK, ...]
    flaky: tuple[str, ...]


def summarize_trials(report: EvalReport) -> TrialSummary | None:
    """The trials of a run; None when no task has a second scored trial."""
    tasks = _task_trials(report.results)
    most = max((task.trials for task in tasks), default=0)
    if most < 2:  # noqa: PLR2004 - repeated trials
        return None
    return TrialSummary(
        tasks=tuple(tasks),
        passes=tuple(_passes_of(k, tasks) for k in range(1, min(most, MAX_K) + 1)),
        flaky=tuple(task.task_id for task in tasks if task.is_flaky),
    )


def _task_trials(results: Iterable[EvalResult]) -> list[TaskTrials]:
    scored: dict[str, list[EvalResult]] = {}
    for result in results:
        if result.score is not None:
            scored.setdefault(result.task.content_hash(), []).append(result)
    return [count_trials(trials) for trials in scored.values()]


def count_trials(trials: Sequence[EvalResult]) -> TaskTrials:
    """The trials of one task, at least one."""
    return TaskTrials(
        task_id=trials[0].task.id,
        category=trials[0].task.category,
        trials=len(trials),
        passed=sum(trial.passed() for trial in trials),
    )


def _passes_of(k: int, tasks: Sequence[TaskTrials]) -> PassesOfK:
    # numpy takes long to import; a run without repeated trials does without it.
    from mosaico.statistics.passes import pass_at_k, pass_hat_k

    counted = [task for task in tasks if task.trials >= k]
    at_k = [pass_at_k(task.trials, task.passed, k) or 0.0 for task in counted]
    hat_k = [pass_hat_k(task.trials, task.passed, k) or 0.0 for task in counted]
    return PassesOfK(
        k=k,
        tasks=len(counted),
        pass_at_k=sum(at_k) / len(counted),
        pass_hat_k=sum(hat_k) / len(counted),
    )
