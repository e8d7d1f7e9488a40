"""A model at work on tasks, as a benchmark orders it."""

from collections.abc import Callable, Sequence

from app.harness.bash.agent import TaskLimits
from app.harness.bash.judge import Judge
from app.harness.bash.runner import RunLimits, Runner, Tell, Trial
from app.harness.bash.schemas import BashHarnessSettings
from app.harness.bash.types import EvalResult
from app.harness.budget import Budget, BudgetLimits, UsedBudget
from app.harness.schemas import ModelPrice
from app.llm.conversation import Llm
from app.llm.prices import Price


class GivenUp(Exception):
    """No request would be answered any more; the message says why."""


async def evaluate(
    wanted: BashHarnessSettings,
    open_model: Callable[[str], Llm],
    trials: Sequence[Trial],
    tell: Tell,
    budget: Budget,
) -> None:
    """Make these attempts and tell each result as it comes; `budget` is that of the whole run.
    Raises GivenUp.
    """
    llm = open_model(wanted.model)
    judge_price = price_of(wanted.price_of_judge())
    judge = Judge(open_model(wanted.judge_model), judge_price) if wanted.judge_model else None

    def keep(result: EvalResult) -> None:
        """Attempts that fail because nothing is answered any more are none."""
        if runner.given_up is None or result.score is not None:
            tell(result)

    runner = Runner(lambda _: llm, _limits(wanted), budget, tell=keep, judge=judge)
    try:
        await runner.run(trials)
    finally:
        await llm.close()
        if judge is not None:
            await judge.close()
    if runner.given_up is not None:
        raise GivenUp(runner.given_up)


def _limits(wanted: BashHarnessSettings) -> RunLimits:
    return RunLimits(
        concurrency=wanted.concurrency,
        task=TaskLimits(max_turns=wanted.max_turns, time_s=wanted.task_seconds),
        task_limits=BudgetLimits(tokens=wanted.task_tokens),
    )


def open_budget(wanted: BashHarnessSettings, spent: UsedBudget) -> Budget:
    """What a run may use, of which so much is used already."""
    return spent.resume(wanted.run_limits(), price_of(wanted.price))


def price_of(price: ModelPrice | None) -> Price | None:
    """The price that a benchmark names."""
    return price.price() if price else None
