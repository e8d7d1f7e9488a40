"""Compares several runs on the same tasks: which model is better, and where the sandbox fails.

Source: spec 013, "Cross-model comparison".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations

from mosaico.core.errors import UnusableInput
from mosaico.harness.bash.summary import summarize
from mosaico.harness.bash.types import CategorySummary, EvalReport, EvalResult, EvalSummary
from mosaico.harness.results import mean_if_known
from mosaico.statistics.change import PairedPasses, compare_passes
from mosaico.statistics.multiplicity import holm

LONGEST_ERROR = 200  # characters

AttemptsByTask = Mapping[str, list[EvalResult]]


class TaskDiagnosis(StrEnum):
    """The diagnosis of one task from the results of all runs."""

    ALL_PASS = "all pass"  # noqa: S105 - not a password
    MODELS_DIFFER = "models differ"
    ALL_FAIL = "all fail"
    ALL_FAIL_ALIKE = "all fail with the same error: check the sandbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedEval:
    """One run over the common tasks. Tokens and turns are means over the tasks that all runs pass."""

    title: str
    timestamp: str
    summary: EvalSummary
    passed: tuple[bool, ...]
    excluded_tasks: int
    tokens_where_all_pass: float | None
    turns_where_all_pass: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedTask:
    """One task: which runs passed it, the diagnosis, and the error that all runs share."""

    task_id: str
    category: str
    passed: tuple[bool, ...]
    diagnosis: TaskDiagnosis
    error: str | None


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
    is passed when every trial passed. A task that one run did not score is excluded from all.
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
    results = [compare_passes(runs[a].passed, runs[b].passed) for a, b in pairs]
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
    return ComparedEval(
        title=report.title(),
        timestamp=report.timestamp,
        summary=summarize(replace(report, results=common_results)),
        passed=tuple(_all_trials_passed(attempts[key]) for key in common),
        excluded_tasks=len(all_tasks) - len(common),
        tokens_where_all_pass=mean_if_known(_tokens(result) for result in easy),
        turns_where_all_pass=mean_if_known(
            result.trace.turns if result.trace else None for result in easy
        ),
    )


def _compare_task(attempts: Sequence[list[EvalResult]]) -> ComparedTask:
    task = attempts[0][0].task
    passed = tuple(_all_trials_passed(results) for results in attempts)
    error = None
    if all(passed):
        diagnosis = TaskDiagnosis.ALL_PASS
    elif any(passed):
        diagnosis = TaskDiagnosis.MODELS_DIFFER
    else:
        error = _common_error(attempts)
        diagnosis = TaskDiagnosis.ALL_FAIL if error is None else TaskDiagnosis.ALL_FAIL_ALIKE
    return ComparedTask(
        task_id=task.id, category=task.category, passed=passed, diagnosis=diagnosis, error=error
    )


def _all_trials_passed(results: Sequence[EvalResult]) -> bool:
    return all(result.passed() for result in results)


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
