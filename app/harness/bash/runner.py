"""A whole run: every task, so many at once, with what is left of it saved at any moment."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from app.harness.bash.agent import AgentAttempt, TaskLimits, attempt_task
from app.harness.bash.checking import CheckEvidence
from app.harness.bash.judge import Judge, JudgeFailed
from app.harness.bash.scoring import scored
from app.harness.bash.types import EvalResult, EvalTask
from app.harness.budget import Budget, BudgetLimits, RunBudgetExhausted
from app.harness.results import AttemptOutcome
from app.llm.conversation import Llm
from app.llm.errors import LlmError


class Trial(NamedTuple):
    """One attempt that is to be made."""

    task: EvalTask
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """What a run may use, all tasks together, and each of them."""

    concurrency: int = 4
    time_s: float | None = None
    task: TaskLimits = field(default_factory=TaskLimits)
    task_limits: BudgetLimits = field(default_factory=BudgetLimits)


Tell = Callable[[EvalResult], None]


class Runner:
    """Makes attempts and tells each result as it comes; a final failure skips what is left.

    `llm_for` gives the model of a trial number. `budget` is that of the whole run.
    """

    def __init__(
        self,
        llm_for: Callable[[int], Llm],
        limits: RunLimits,
        budget: Budget,
        *,
        tell: Tell,
        judge: Judge | None = None,
    ) -> None:
        self._llm_for = llm_for
        self._limits = limits
        self._budget = budget
        self._tell = tell
        self._judge = judge
        self._stopped: str | None = None

    @property
    def given_up(self) -> str | None:
        """Why no model answers any more; None while it does."""
        return self._stopped

    async def run(self, trials: Sequence[Trial]) -> None:
        """Make every attempt, in order; told results may come in another.

        A cancel ends all of them at once; whoever asked knows what was told until then.
        """
        waiting = iter(trials)
        places = range(min(self._limits.concurrency, len(trials)))
        try:
            async with asyncio.timeout(self._limits.time_s), asyncio.TaskGroup() as group:
                for _ in places:
                    group.create_task(self._work(waiting))
        except TimeoutError:
            return

    async def _work(self, waiting: Iterable[Trial]) -> None:
        for trial in waiting:
            self._tell(await self._attempt(trial))

    async def _attempt(self, trial: Trial) -> EvalResult:
        limit = self._budget.exhausted()
        reason = self._stopped or (str(RunBudgetExhausted(limit)) if limit else None)
        if reason is not None:
            return skipped(trial, reason)
        made = await attempt_task(
            trial.task,
            self._llm_for(trial.number),
            self._limits.task,
            Budget(
                limits=self._limits.task_limits,
                price=self._budget.price,
                parent=self._budget,
            ),
        )
        if made.failure is not None:
            return self._failed(trial, made, made.failure)
        return await self._scored(trial, made)

    def _failed(self, trial: Trial, made: AgentAttempt, failure: LlmError) -> EvalResult:
        if failure.final:
            self._stopped = f"given up: {failure.reason}"
        return _unscored(trial, made, AttemptOutcome.INFRA_ERROR, failure.reason)

    async def _scored(self, trial: Trial, made: AgentAttempt) -> EvalResult:
        try:
            judge = self._judge
            said = await judge.judge(trial.task, made.trace, self._budget) if judge else {}
        except JudgeFailed as error:
            if error.final:
                self._stopped = f"given up: {error}"
            return _unscored(trial, made, AttemptOutcome.JUDGE_ERROR, str(error))
        evidence = CheckEvidence(calls=made.trace.tool_calls, files=made.sandbox, judgements=said)
        return scored(EvalResult(task=trial.task, trial=trial.number, trace=made.trace), evidence)


def _unscored(trial: Trial, made: AgentAttempt, outcome: AttemptOutcome, reason: str) -> EvalResult:
    return EvalResult(
        task=trial.task, trial=trial.number, trace=made.trace, outcome=outcome, reason=reason
    )


def skipped(trial: Trial, reason: str) -> EvalResult:
    """An attempt that was not made."""
    return EvalResult(
        task=trial.task, trial=trial.number, outcome=AttemptOutcome.SKIPPED, reason=reason
    )


def plan_trials(tasks: Iterable[EvalTask], trials: int) -> list[Trial]:
    """Every task once before any of them a second time."""
    every = list(tasks)
    return [Trial(task, number) for number in range(trials) for task in every]
