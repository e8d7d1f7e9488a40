"""Compares several runs on the same tasks: which model is better, and where the sandbox fails.

Source: spec 013, "Cross-model comparison".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations

from mosaico.core.errors import UnusableInput
from mosaico.harness.bash.summary import (
    TaskTrials,
    TrialSummary,
    count_trials,
    summarize,
    summarize_trials,
)
from mosaico.harness.bash.types import CategorySummary, EvalReport, EvalResult, EvalSummary
from mosaico.harness.results import mean_if_known
from mosaico.statistics.change import PairedPasses, compare_passes
from mosaico.statistics.multiplicity import holm

LONGEST_ERROR = 200  # characters

AttemptsByTask = Mapping[str, list[EvalResult]]


class TaskDiagnosis(StrEnum):
    """The diagnosis of one task from the results of all runs."""

    ALL_PASS = "all pass"  # noqa: S105 - not a password
    FLAKY = "all pass equally often, but not always"
    MODELS_DIFFER = "models differ"
    ALL_FAIL = "all fail"
    ALL_FAIL_ALIKE = "all fail with the same error: check the sandbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedEval:
    """One run over the common tasks. Tokens and turns are means over the tasks that all runs pass.

    `pass_shares` are the shares of passed trials by task, and `pass_rate` is their mean. `trials` is
    None without repeated trials.
    """

    title: str
    timestamp: str
    summary: EvalSummary
    pass_shares: tuple[float, ...]
    pass_rate: float
    trials: TrialSummary | None
    excluded_tasks: int
    tokens_where_all_pass: float | None
    turns_where_all_pass: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedTask:
    """One task: its trials in each run, the diagnosis, and the error that all runs share.

    `passed` says of each run whether every trial passed.
    """

    task_id: str
    category: str
    passed: tuple[bool, ...]
    trials: tuple[TaskTrials, ...]
    diagnosis: TaskDiagnosis
    error: str | None

    @property
    def is_failed_by_all(self) -> bool:
        """Return whether no trial of any run passed."""
        return not any(trials.passed for trials in self.trials)

    @property
    def is_different(self) -> bool:
        """Return whether the runs pass the task unequally often."""
        return len({trials.share for trials in self.trials}) > 1

    @property
    def is_flaky(self) -> bool:
        """Return whether the task passed in some trials of a run and failed in others."""
        return any(trials.is_flaky for trials in self.trials)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPair:
    """Two runs by their index, and the test of their difference.

    `p_adjusted` is the p-value of the paired t test adjusted for the number of pairs (Holm 1979).
    """

    first: int
    second: int
    result: PairedPasses
    p_adjusted: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCategory:
    """The overall rate of each run in one category, its passed attempts, and all its attempts."""

    name: str
    rates: tuple[float, ...]
    passed: tuple[int, ...]
    attempts: tuple[int, ...]

    @property
    def spread(self) -> float:
        return max(self.rates) - min(self.rates)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalComparison:
    """Runs over their common tasks; categories with the largest spread come first."""

    runs: tuple[ComparedEval, ...]
    tasks: tuple[ComparedTask, ...]
    pairs: tuple[ComparedPair, ...]
    categories: tuple[ComparedCategory, ...]


def compare(reports: Sequence[EvalReport]) -> EvalComparison:
    """Compare runs task by task.

    Tasks are common when their content is equal, not only their name. With several trials a task
    counts with the share of its trials that passed. A task that one run did not score is excluded from all.
    Raises: UnusableInput.
    """
    scored = [_scored_by_task(report) for report in reports]
    common = [key for key in scored[0] if all(key in attempts for attempts in scored)]
    if not common:
        raise UnusableInput(
            "the runs have no task with the same content in common",
            hint="compare runs of one dataset; an edited prompt or check makes another task",
        )
    tasks = tuple(_compare_task([attempts[key] for attempts in scored]) for key in common)
    passed_by_all = [key for key, task in zip(common, tasks, strict=True) if all(task.passed)]
    runs = tuple(
        _compare_run(report, attempts, common, passed_by_all)
        for report, attempts in zip(reports, scored, strict=True)
    )
    return EvalComparison(
        runs=runs,
        tasks=tasks,
        pairs=_compare_pairs(runs),
        categories=_compare_categories(runs),
    )


def _compare_pairs(runs: Sequence[ComparedEval]) -> tuple[ComparedPair, ...]:
    pairs = list(combinations(range(len(runs)), 2))
    results = [compare_passes(runs[a].pass_shares, runs[b].pass_shares) for a, b in pairs]
    # Ten runs are 45 tests: two of them would be below 0.05 by chance.
    adjusted = holm(result.p for result in results)
    return tuple(
        ComparedPair(first=a, second=b, result=result, p_adjusted=p)
        for (a, b), result, p in zip(pairs, results, adjusted, strict=True)
    )


def _scored_by_task(report: EvalReport) -> dict[str, list[EvalResult]]:
    """The attempts per task; a task that lost an attempt to an error is missing."""
    attempts: dict[str, list[EvalResult]] = {}
    for result in report.results:
        attempts.setdefault(result.task.content_hash(), []).append(result)
    return {
        key: results
        for key, results in attempts.items()
        if all(result.score is not None for result in results)
    }


def _compare_run(
    report: EvalReport,
    attempts: AttemptsByTask,
    common: Sequence[str],
    passed_by_all: Sequence[str],
) -> ComparedEval:
    common_results = tuple(result for key in common for result in attempts[key])
    all_tasks = {result.task.content_hash() for result in report.results}
    easy = [result for key in passed_by_all for result in attempts[key]]
    common_report = replace(report, results=common_results)
    pass_shares = tuple(count_trials(attempts[key]).share for key in common)
    return ComparedEval(
        title=report.title(),
        timestamp=report.timestamp,
        summary=summarize(common_report),
        pass_shares=pass_shares,
        pass_rate=sum(pass_shares) / len(pass_shares),
        trials=summarize_trials(common_report),
        excluded_tasks=len(all_tasks) - len(common),
        tokens_where_all_pass=mean_if_known(_tokens(result) for result in easy),
        turns_where_all_pass=mean_if_known(
            result.trace.turns if result.trace else None for result in easy
        ),
    )


def _compare_task(attempts: Sequence[list[EvalResult]]) -> ComparedTask:
    task = attempts[0][0].task
    trials = tuple(count_trials(results) for results in attempts)
    shares = {counted.share for counted in trials}
    error = None
    if shares == {1.0}:
        diagnosis = TaskDiagnosis.ALL_PASS
    elif len(shares) > 1:
        diagnosis = TaskDiagnosis.MODELS_DIFFER
    elif shares != {0.0}:
        diagnosis = TaskDiagnosis.FLAKY
    else:
        error = _common_error(attempts)
        diagnosis = TaskDiagnosis.ALL_FAIL if error is None else TaskDiagnosis.ALL_FAIL_ALIKE
    return ComparedTask(
        task_id=task.id,
        category=task.category,
        passed=tuple(counted.share == 1 for counted in trials),
        trials=trials,
        diagnosis=diagnosis,
        error=error,
    )


def _common_error(attempts: Sequence[Sequence[EvalResult]]) -> str | None:
    """A line of standard error that every run printed on the task."""
    first, *other_runs = [_error_lines(results) for results in attempts]
    return next((line for line in first if all(line in lines for lines in other_runs)), None)


def _error_lines(results: Sequence[EvalResult]) -> list[str]:
    calls = (call for result in results if result.trace for call in result.trace.tool_calls)
    lines = (line.strip() for call in calls for line in call.stderr.splitlines())
    return [line[:LONGEST_ERROR] for line in lines if line]


def _compare_categories(runs: Sequence[ComparedEval]) -> tuple[ComparedCategory, ...]:
    categories = [
        _compare_category(name, [run.summary.by_category[name] for run in runs])
        for name in runs[0].summary.by_category
        if all(name in run.summary.by_category for run in runs)
    ]
    return tuple(sorted(categories, key=lambda category: (-category.spread, category.name)))


def _compare_category(name: str, categories: Sequence[CategorySummary]) -> ComparedCategory:
    return ComparedCategory(
        name=name,
        rates=tuple(category.rate for category in categories),
        passed=tuple(category.passed for category in categories),
        attempts=tuple(category.tasks for category in categories),
    )


def _tokens(result: EvalResult) -> int | None:
    return result.trace.total_tokens() if result.trace is not None else None
