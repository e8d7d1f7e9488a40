"""What a benchmark orders of a model and of its judge, each at its price."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import ValidationError

from app.harness.bash.check_registry import load_checks
from app.harness.bash.runner import evaluate, open_budget, plan_trials
from app.harness.bash.schemas import BashHarnessSettings
from app.harness.bash.types import EvalResult
from app.harness.budget import Budget, BudgetKind, UsedBudget
from app.llm.conversation import ChatMessage, MessageRole, StopReason, TextBlock, Tool, Turn, Usage
from tests.support.bash_eval import task

CHEAP = {"inputUsd": 1.0, "outputUsd": 10.0}
DEAR = {"inputUsd": 100.0, "outputUsd": 1000.0}
MODEL_USD = (100 * 1 + 10 * 10) / 1e6  # a turn of 100 tokens read and 10 written
JUDGE_USD = 100 * MODEL_USD


@pytest.fixture(autouse=True, scope="module")
def _checks() -> None:
    load_checks()


@dataclass(frozen=True, slots=True)
class Content:
    """Finds everything perfect, in 100 tokens read and 10 written."""

    model: str
    provider: str = "content"

    async def turn(self, _: str, __: Sequence[ChatMessage], ___: Sequence[Tool], /) -> Turn:
        block = TextBlock(text='{"score": 1, "reason": "perfect"}')
        return Turn(
            message=ChatMessage(role=MessageRole.ASSISTANT, content=(block,)),
            stop=StopReason.END,
            usage=Usage(input_tokens=100, output_tokens=10),
        )

    async def close(self) -> None:
        """Nothing is open."""


def ordered(**more: Any) -> BashHarnessSettings:
    fields = {"provider": "openai", "model": "m", "judgeModel": "j", "price": CHEAP, **more}
    return BashHarnessSettings.model_validate(fields)


def judged(wanted: BashHarnessSettings) -> tuple[float | None, Budget]:
    """What the judge of one attempt took, and what the run did."""
    results: list[EvalResult] = []
    run = open_budget(wanted, UsedBudget())
    trials = plan_trials([task("llm_judge:perfect?")], 1)
    asyncio.run(evaluate(wanted, Content, trials, results.append, run))
    [found] = results
    assert found.score is not None
    assert found.score.results[0].judgement is not None
    return found.score.results[0].judgement.cost_usd, run


def test_judge_price__is_used_for_judge() -> None:
    cost, run = judged(ordered(judgePrice=DEAR))
    assert cost == pytest.approx(JUDGE_USD)
    assert run.known_usd == pytest.approx(MODEL_USD + JUDGE_USD)


def test_judge_price__missing_price_leaves_cost_unknown() -> None:
    cost, run = judged(ordered())
    assert cost is None
    assert run.known_usd == pytest.approx(MODEL_USD)


def test_judge_price__same_model_has_same_price() -> None:
    cost, run = judged(ordered(judgeModel="m", runUsd=1.0))
    assert cost == pytest.approx(MODEL_USD)
    assert run.known_usd == pytest.approx(2 * MODEL_USD)


def test_run_usd__needs_price_of_model_and_judge() -> None:
    assert ordered(runUsd=1.0, judgePrice=DEAR).run_usd == 1.0
    with pytest.raises(ValidationError, match="set judgePrice"):
        ordered(runUsd=1.0)


def test_open_budget__counts_earlier_usage() -> None:
    """Its tokens alone do not tell whether the model or the judge took them."""
    paid = open_budget(ordered(runUsd=1.0, judgePrice=DEAR), UsedBudget(100, 10, 1.0))
    assert (paid.exhausted(), paid.known_input_tokens, paid.known_output_tokens) == (
        BudgetKind.COST,
        100,
        10,
    )
