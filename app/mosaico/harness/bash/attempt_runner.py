"""Runs the attempts of a bash evaluation concurrently and scores them."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

from mosaico.harness.bash.agent import AgentAttempt, AttemptLimits, attempt_task
from mosaico.harness.bash.check_registry import CheckEvidence, score_attempt
from mosaico.harness.bash.judge import BashJudge
from mosaico.harness.bash.types import BashAttemptKey, EvalResult, EvalTask
from mosaico.harness.budget import Budget, RunBudgetExhausted, UsedBudget
from mosaico.harness.harness_config import BashHarnessSettings, ModelPrice
from mosaico.harness.judge import JudgeError
from mosaico.harness.limits import BudgetLimits
from mosaico.harness.results import AttemptOutcome, attempt_name
from mosaico.harness.running_attempts import running_attempt
from mosaico.llm.conversation import Llm, TurnSettings
from mosaico.llm.errors import LlmError
from mosaico.llm.prices import Price


class ProviderRejected(Exception):
    """The provider rejects all further requests; the message contains the reason."""


class Rejection(NamedTuple):
    """The final error of a model or judge, and the task at which it occurred."""

    role: str
    task_id: str
    reason: str

    def reason_not_asked(self) -> str:
        """Return the reason why an attempt was not made; the error occurred in another task."""
        return (
            f"no request was sent: the {self.role} failed permanently at {self.task_id}: "
            f"{self.reason}"
        )


class Trial(NamedTuple):
    """One planned attempt."""

    task: EvalTask
    number: int

    @property
    def key(self) -> BashAttemptKey:
        return BashAttemptKey(self.task.content_hash(), self.number)

    @property
    def label(self) -> str:
        return attempt_name(self.task.id, self.number)

    def skipped(self, reason: str) -> EvalResult:
        """The result of an attempt that was not made."""
        return EvalResult(
            task=self.task, trial=self.number, outcome=AttemptOutcome.SKIPPED, reason=reason
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Limits of a run and of each attempt."""

    concurrency: int = 4
    time_s: float | None = None
    task: AttemptLimits = field(default_factory=AttemptLimits)
    task_budget: BudgetLimits = field(default_factory=BudgetLimits)


OnResult = Callable[[EvalResult], None]


class Runner:
    """Makes attempts and reports each result at once. A final failure skips the remaining attempts.

    `llm_for` gives the model of a trial number; `budget` is the budget of the whole run.
    """

    def __init__(
        self,
        llm_for: Callable[[int], Llm],
        limits: RunLimits,
        budget: Budget,
        *,
        on_result: OnResult,
        judge: BashJudge | None = None,
    ) -> None:
        self._llm_for = llm_for
        self._limits = limits
        self._budget = budget
        self._on_result = on_result
        self._judge = judge
        self._rejection: Rejection | None = None

    @property
    def rejection(self) -> Rejection | None:
        """Return the reason why no model would answer further requests; None while models
        answer.
        """
        return self._rejection

    async def run(self, trials: Sequence[Trial]) -> None:
        """Start every attempt in order; results may arrive in another order.

        A cancellation ends all attempts at once; the results reported until then stay valid.
        """
        queue = iter(trials)
        worker_count = min(self._limits.concurrency, len(trials))
        try:
            async with asyncio.timeout(self._limits.time_s), asyncio.TaskGroup() as group:
                for _ in range(worker_count):
                    group.create_task(self._work(queue))
        except TimeoutError:
            return

    async def _work(self, queue: Iterable[Trial]) -> None:
        for trial in queue:
            with running_attempt(trial.label):
                result = await self._attempt(trial)
            self._on_result(result)

    async def _attempt(self, trial: Trial) -> EvalResult:
        if self._rejection is not None:
            return trial.skipped(self._rejection.reason_not_asked())
        exhausted = self._budget.exhausted()
        if exhausted is not None:
            return trial.skipped(str(RunBudgetExhausted(exhausted)))
        attempt = await attempt_task(
            trial.task,
            self._llm_for(trial.number),
            self._limits.task,
            Budget(
                limits=self._limits.task_budget,
                price=self._budget.price,
                parent=self._budget,
                max_output_tokens=self._budget.max_output_tokens,
            ),
        )
        if attempt.failure is not None and not attempt.trace.turns and self._budget.exhausted():
            return trial.skipped(attempt.failure.reason)
        if attempt.failure is not None:
            return self._failed(trial, attempt, attempt.failure)
        return await self._scored(trial, attempt)

    def _failed(self, trial: Trial, attempt: AgentAttempt, failure: LlmError) -> EvalResult:
        if failure.final:
            self._give_up("model", trial, failure.reason)
        return _unscored(trial, attempt, AttemptOutcome.INFRA_ERROR, failure.reason)

    async def _scored(self, trial: Trial, attempt: AgentAttempt) -> EvalResult:
        try:
            judge_scores = (
                await self._judge.judge(
                    trial.task, attempt.trace, self._budget, timeout_s=self._limits.task.time_s
                )
                if self._judge
                else {}
            )
        except JudgeError as error:
            if error.is_final:
                self._give_up("judge", trial, str(error))
            return _unscored(trial, attempt, AttemptOutcome.JUDGE_ERROR, str(error))
        evidence = CheckEvidence(
            calls=attempt.trace.tool_calls, files=attempt.sandbox, judge_scores=judge_scores
        )
        unscored = EvalResult(task=trial.task, trial=trial.number, trace=attempt.trace)
        return score_attempt(unscored, evidence)

    def _give_up(self, role: str, trial: Trial, reason: str) -> None:
        """Skip the attempts that have not begun; the first rejection explains them."""
        self._rejection = self._rejection or Rejection(role, trial.task.id, reason)


def _unscored(
    trial: Trial, attempt: AgentAttempt, outcome: AttemptOutcome, reason: str
) -> EvalResult:
    return EvalResult(
        task=trial.task, trial=trial.number, trace=attempt.trace, outcome=outcome, reason=reason
    )


def plan_trials(tasks: Iterable[EvalTask], trials: int) -> list[Trial]:
    """All attempts: every task once, then every task a second time, and so on."""
    listed = list(tasks)
    return [Trial(task, number) for number in range(trials) for task in listed]


async def evaluate(
    settings: BashHarnessSettings,
    open_model: Callable[[str, TurnSettings], Llm],
    trials: Sequence[Trial],
    send: OnResult,
    budget: Budget,
) -> None:
    """Make these attempts for a benchmark and send each result at once.

    `budget` is that of the whole run.

    Raises: ProviderRejected.
    """
    llm = open_model(settings.model, settings.turn_settings())
    judge_price = _price(settings.price_of_judge())
    judge = None
    if settings.judge_model:
        judge = BashJudge(open_model(settings.judge_model, TurnSettings()), judge_price)

    def send_unless_rejected(result: EvalResult) -> None:
        """Drop the results without a score after a rejection: these attempts were not made."""
        if runner.rejection is None or result.score is not None:
            send(result)

    runner = Runner(
        lambda _: llm, _limits(settings), budget, on_result=send_unless_rejected, judge=judge
    )
    await run_and_close(runner, trials, llm, judge)
    if runner.rejection is not None:
        raise ProviderRejected(runner.rejection.reason)


async def run_and_close(
    runner: Runner, trials: Sequence[Trial], llm: Llm, judge: BashJudge | None
) -> None:
    """Make the attempts, and close the models in any case."""
    async with AsyncExitStack() as models:
        models.push_async_callback(llm.close)
        if judge is not None:
            models.push_async_callback(judge.close)
        await runner.run(trials)


def open_budget(settings: BashHarnessSettings, used_budget: UsedBudget) -> Budget:
    """The budget of a run, with the usage of earlier workers counted."""
    return used_budget.resume(
        settings.run_limits(), _price(settings.price), settings.max_output_tokens
    )


def _limits(settings: BashHarnessSettings) -> RunLimits:
    return RunLimits(
        concurrency=settings.concurrency,
        task=AttemptLimits(
            max_turns=settings.max_turns,
            tool_chars=settings.tool_chars,
            time_s=settings.task_seconds,
        ),
        task_budget=BudgetLimits(tokens=settings.task_tokens),
    )


def _price(price: ModelPrice | None) -> Price | None:
    return price.price() if price else None
