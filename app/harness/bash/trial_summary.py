"""Repeated attempts: passes per task, pass@k, pass^k, and tasks that pass only sometimes.

Source: pass@k, the unbiased estimator of Chen et al. 2021, "Evaluating Large Language Models Trained
on Code"; pass^k, Yao et al. 2024, "τ-bench".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from app.harness.bash.types import EvalReport, EvalResult

MAX_K: Final = 10  # nobody reads a longer table


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTrials:
    """The scored trials of one task, and how many of them passed."""

    task_id: str
    category: str
    trials: int
    passed: int

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
    return [
        TaskTrials(
            task_id=trials[0].task.id,
            category=trials[0].task.category,
            trials=len(trials),
            passed=sum(trial.passed() for trial in trials),
        )
        for trials in scored.values()
    ]


def _passes_of(k: int, tasks: Sequence[TaskTrials]) -> PassesOfK:
    # numpy takes long to import; a run without repeated trials does without it.
    from app.statistics.trials import pass_at_k, pass_hat_k

    counted = [task for task in tasks if task.trials >= k]
    at_k = [pass_at_k(task.trials, task.passed, k) or 0.0 for task in counted]
    hat_k = [pass_hat_k(task.trials, task.passed, k) or 0.0 for task in counted]
    return PassesOfK(
        k=k,
        tasks=len(counted),
        pass_at_k=sum(at_k) / len(counted),
        pass_hat_k=sum(hat_k) / len(counted),
    )
