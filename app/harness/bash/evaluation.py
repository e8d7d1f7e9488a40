"""A model at work on tasks, as a benchmark orders it."""

from collections.abc import Callable, Sequence

from app.harness.bash.agent import TaskLimits
from app.harness.bash.judge import Judge
from app.harness.bash.runner import RunLimits, Runner, Tell, Trial
from app.harness.bash.schemas import HarnessSettings
from app.harness.bash.types import EvalResult
from app.harness.limits import Allowance, Spending
from app.harness.llm.conversation import Llm
from app.harness.llm.prices import Price


class GivenUp(Exception):
    """No request would be answered any more; the message says why."""


async def evaluate(
    wanted: HarnessSettings,
    open_model: Callable[[str], Llm],
    trials: Sequence[Trial],
    tell: Tell,
) -> None:
    """Make these attempts and tell each result as it comes. Raises GivenUp."""
    price = _price(wanted)
    llm = open_model(wanted.model)
    judge = Judge(open_model(wanted.judge_model), price) if wanted.judge_model else None

    def keep(result: EvalResult) -> None:
        """Attempts that fail because nothing is answered any more are none."""
        if runner.given_up is None or result.score is not None:
            tell(result)

    runner = Runner(lambda _: llm, _limits(wanted), Spending(price=price), tell=keep, judge=judge)
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


def _price(wanted: HarnessSettings) -> Price | None:
    told = wanted.price
    return Price(input_usd=told.input_usd, output_usd=told.output_usd) if told else None
