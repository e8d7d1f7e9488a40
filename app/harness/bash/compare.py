"""Several models on the same tasks: who is better, and whether the sandbox is to blame.

Source: spec 013, "Cross-model comparison".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations

from app.core.errors import AppError
from app.harness.bash.summary import summarize
from app.harness.bash.types import EvalReport, EvalResult, EvalSummary
from app.statistics.hypothesis_tests import PairedPasses, compare_passes

LONGEST_ERROR = 200  # characters


class NothingInCommon(AppError):
    """The runs share no task with the same content; compare runs of one dataset."""

    code = "nothing-in-common"
    status = 422
    exit_code = 2


class Diagnosis(StrEnum):
    """What the outcomes of all models on one task hint at."""

    ALL_PASS = "all pass"  # noqa: S105 - nobody's password
    MODELS_DIFFER = "models differ"
    ALL_FAIL = "all fail"
    ALL_FAIL_ALIKE = "all fail with the same error: look at the sandbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """One run over the tasks that all runs scored; figures per task are of those all passed."""

    title: str
    timestamp: str
    summary: EvalSummary
    passed: tuple[bool, ...]
    left_out: int
    tokens_where_all_pass: float | None
    turns_where_all_pass: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedTask:
    """One task: which runs passed it, and what that hints at."""

    task_id: str
    category: str
    passed: tuple[bool, ...]
    diagnosis: Diagnosis
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPair:
    """Two runs, by their place in the list, and how sure a difference is."""

    first: int
    second: int
    result: PairedPasses


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCategory:
    """How far the runs lie apart in one category, by overall rate."""

    name: str
    rates: tuple[float, ...]

    @property
    def spread(self) -> float:
        return max(self.rates) - min(self.rates)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Runs over the tasks that they share; categories that tell them apart come first."""

    runs: tuple[ComparedRun, ...]
    tasks: tuple[ComparedTask, ...]
    pairs: tuple[ComparedPair, ...]
    categories: tuple[ComparedCategory, ...]


def compare(reports: Sequence[EvalReport]) -> Comparison:
    """Compare runs task by task.

    Tasks are the same when their content is, not their name alone. With several trials a task is
    passed when every one of them passed. Tasks that a run did not score are left out for all.
    Raises: NothingInCommon.
    """
    scored = [_by_content(report) for report in reports]
    shared = [key for key in scored[0] if all(key in each for each in scored)]
    if not shared:
        raise NothingInCommon(
            "the runs share no task with the same content",
            hint="compare runs of one dataset; a task whose prompt or checks changed is another",
        )
    tasks = tuple(_task([each[key] for each in scored]) for key in shared)
    easy = [key for key, task in zip(shared, tasks, strict=True) if all(task.passed)]
    runs = tuple(
        _run(report, each, shared, easy) for report, each in zip(reports, scored, strict=True)
    )
    return Comparison(
        runs=runs,
        tasks=tasks,
        pairs=tuple(
            ComparedPair(first=a, second=b, result=compare_passes(runs[a].passed, runs[b].passed))
            for a, b in combinations(range(len(runs)), 2)
        ),
        categories=_categories(runs),
    )


def _by_content(report: EvalReport) -> dict[str, list[EvalResult]]:
    """The scored attempts at each task; one that lost an attempt to an error is not there."""
    found: dict[str, list[EvalResult]] = {}
    for each in report.results:
        found.setdefault(each.task.content_hash(), []).append(each)
    return {
        key: results
        for key, results in found.items()
        if all(each.score is not None for each in results)
    }


def _run(
    report: EvalReport,
    scored: Mapping[str, list[EvalResult]],
    shared: Sequence[str],
    easy: Sequence[str],
) -> ComparedRun:
    kept = tuple(each for key in shared for each in scored[key])
    there = {each.task.content_hash() for each in report.results}
    passed_by_all = [each for key in easy for each in scored[key]]
    return ComparedRun(
        title=report.title(),
        timestamp=report.timestamp,
        summary=summarize(replace(report, results=kept)),
        passed=tuple(_passed(scored[key]) for key in shared),
        left_out=len(there) - len(shared),
        tokens_where_all_pass=_mean([_tokens(each) for each in passed_by_all]),
        turns_where_all_pass=_mean(
            [each.trace.turns if each.trace else None for each in passed_by_all]
        ),
    )


def _task(attempts: Sequence[list[EvalResult]]) -> ComparedTask:
    task = attempts[0][0].task
    passed = tuple(_passed(each) for each in attempts)
    error = None
    if all(passed):
        diagnosis = Diagnosis.ALL_PASS
    elif any(passed):
        diagnosis = Diagnosis.MODELS_DIFFER
    else:
        error = _shared_error(attempts)
        diagnosis = Diagnosis.ALL_FAIL if error is None else Diagnosis.ALL_FAIL_ALIKE
    return ComparedTask(
        task_id=task.id, category=task.category, passed=passed, diagnosis=diagnosis, error=error
    )


def _passed(results: Sequence[EvalResult]) -> bool:
    return all(each.passed() for each in results)


def _shared_error(attempts: Sequence[Sequence[EvalResult]]) -> str | None:
    """A line of standard error that every run met on the task; None when there is none."""
    said = [_error_lines(results) for results in attempts]
    return next((line for line in said[0] if all(line in other for other in said[1:])), None)


def _error_lines(results: Sequence[EvalResult]) -> list[str]:
    calls = (call for each in results if each.trace for call in each.trace.tool_calls)
    lines = (line.strip() for call in calls for line in call.stderr.splitlines())
    return [line[:LONGEST_ERROR] for line in lines if line]


def _categories(runs: Sequence[ComparedRun]) -> tuple[ComparedCategory, ...]:
    found = [
        ComparedCategory(name=name, rates=tuple(run.summary.by_category[name].rate for run in runs))
        for name in runs[0].summary.by_category
        if all(name in run.summary.by_category for run in runs)
    ]
    return tuple(sorted(found, key=lambda each: (-each.spread, each.name)))


def _tokens(result: EvalResult) -> int | None:
    trace = result.trace
    if trace is None or trace.total_input_tokens is None or trace.total_output_tokens is None:
        return None
    return trace.total_input_tokens + trace.total_output_tokens


def _mean(values: Sequence[int | None]) -> float | None:
    """The mean; None when there is nothing, or when part of it is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
