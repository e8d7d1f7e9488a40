"""A model at work on tasks, as a benchmark orders it."""

from collections.abc import Callable, Sequence

from app.harness.bash.agent import TaskLimits
from app.harness.bash.judge import Judge
from app.harness.bash.runner import RunLimits, Runner, Tell, Trial
from app.harness.bash.schemas import HarnessSettings, ModelPrice
from app.harness.bash.types import EvalResult
from app.harness.limits import Allowance, Spending, Spent
from app.harness.llm.conversation import Llm
from app.harness.llm.prices import Price


class GivenUp(Exception):
    """No request would be answered any more; the message says why."""


async def evaluate(
    wanted: HarnessSettings,
    open_model: Callable[[str], Llm],
    trials: Sequence[Trial],
    tell: Tell,
    spending: Spending,
) -> None:
    """Make these attempts and tell each result as it comes; `spending` is that of the whole run.
    Raises GivenUp.
    """
    llm = open_model(wanted.model)
    judge_price = price_of(wanted.price_of_judge())
    judge = Judge(open_model(wanted.judge_model), judge_price) if wanted.judge_model else None

    def keep(result: EvalResult) -> None:
        """Attempts that fail because nothing is answered any more are none."""
        if runner.given_up is None or result.score is not None:
            tell(result)

    runner = Runner(lambda _: llm, _limits(wanted), spending, tell=keep, judge=judge)
    try:
        await runner.run(trials)
    finally:
        await llm.close()
        if judge is not None:
            await judge.close()
    if runner.given_up is not None:
        raise GivenUp(runner.given_up)


def _limits(wanted: HarnessSettings) -> RunLimits:
    return RunLimits(
        concurrency=wanted.concurrency,
        task=TaskLimits(max_turns=wanted.max_turns, time_s=wanted.task_seconds),
        task_allowance=Allowance(tokens=wanted.task_tokens),
    )


def spending_of(wanted: HarnessSettings, spent: Spent) -> Spending:
    """What a run may use, of which so much is used already."""
    return Spending(
        allowance=Allowance(tokens=wanted.run_tokens, cost_usd=wanted.run_usd),
        price=price_of(wanted.price),
        told_input=spent.input_tokens,
        told_output=spent.output_tokens,
        told_usd=spent.usd,
    )


def price_of(price: ModelPrice | None) -> Price | None:
    """The price that a benchmark names."""
    return Price(input_usd=price.input_usd, output_usd=price.output_usd) if price else None
