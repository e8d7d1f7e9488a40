"""Costs of an evaluation: the model and its judge each have their own price."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import ValidationError

from mosaico.harness.bash.attempt_runner import evaluate, open_budget, plan_trials
from mosaico.harness.bash.check_registry import load_checks
from mosaico.harness.bash.types import EvalResult
from mosaico.harness.budget import Budget, BudgetKind, UsedBudget
from mosaico.harness.harness_config import BashHarnessSettings, validate_harness
from mosaico.llm.conversation import (
    ChatMessage,
    MessageRole,
    ReasoningEffort,
    StopReason,
    TextBlock,
    Tool,
    Turn,
    TurnSettings,
    Usage,
)
from mosaico.run_store.plan import RunPlan
from tests.support.bash_eval import task

CHEAP = {"inputUsd": 1.0, "outputUsd": 10.0}
EXPENSIVE = {"inputUsd": 100.0, "outputUsd": 1000.0}
MODEL_USD = (100 * 1 + 10 * 10) / 1e6  # a turn of 100 input tokens and 10 output tokens
JUDGE_USD = 100 * MODEL_USD


@pytest.fixture(autouse=True, scope="module")
def _loaded_checks() -> None:
    load_checks()


@dataclass(frozen=True, slots=True)
class LenientJudge:
    """A judge that always gives the score 1, with 100 input tokens and 10 output tokens."""

    model: str
    provider: str = "lenient"

    async def turn(self, _: str, __: Sequence[ChatMessage], ___: Sequence[Tool], /) -> Turn:
        block = TextBlock(text='{"score": 1, "reason": "perfect"}')
        return Turn(
            message=ChatMessage(role=MessageRole.ASSISTANT, content=(block,)),
            stop=StopReason.END,
            usage=Usage(input_tokens=100, output_tokens=10),
        )

    async def close(self) -> None:
        """No connection is open."""


def harness_settings(**more: Any) -> BashHarnessSettings:
    fields = {"provider": "openai", "model": "m", "judgeModel": "j", "price": CHEAP, **more}
    return BashHarnessSettings.model_validate(fields)


def judge_attempt(settings: BashHarnessSettings) -> tuple[float | None, Budget]:
    """The cost of the judge for one attempt, and the budget of the run."""
    results: list[EvalResult] = []
    run = open_budget(settings, UsedBudget())
    trials = plan_trials([task("llm_judge:perfect?")], 1)
    asyncio.run(
        evaluate(settings, lambda model, _: LenientJudge(model), trials, results.append, run)
    )
    [attempt_result] = results
    assert attempt_result.score is not None
    assert attempt_result.score.results[0].judge_score is not None
    return attempt_result.score.results[0].judge_score.cost_usd, run


def test_judge_price__is_used_for_judge() -> None:
    cost, run = judge_attempt(harness_settings(judgePrice=EXPENSIVE))
    assert cost == pytest.approx(JUDGE_USD)
    assert run.known_usd == pytest.approx(MODEL_USD + JUDGE_USD)


def test_judge_price__missing_price_leaves_cost_unknown() -> None:
    cost, run = judge_attempt(harness_settings())
    assert cost is None
    assert run.known_usd == pytest.approx(MODEL_USD)


def test_judge_price__same_model_has_same_price() -> None:
    cost, run = judge_attempt(harness_settings(judgeModel="m", runUsd=1.0))
    assert cost == pytest.approx(MODEL_USD)
    # The judge is the same model: its turn costs as much as the one of the attempt.
    assert run.known_usd == pytest.approx(2 * MODEL_USD)


def test_run_usd__needs_price_of_model_and_judge() -> None:
    assert harness_settings(runUsd=1.0, judgePrice=EXPENSIVE).run_usd == 1.0
    with pytest.raises(ValidationError, match="set judgePrice"):
        harness_settings(runUsd=1.0)


def test_open_budget__counts_earlier_usage() -> None:
    """The token counts do not separate the model from the judge, so the cost is taken over as is."""
    paid = open_budget(harness_settings(runUsd=1.0, judgePrice=EXPENSIVE), UsedBudget(100, 10, 1.0))
    assert (paid.exhausted(), paid.known_input_tokens, paid.known_output_tokens) == (
        BudgetKind.COST,
        100,
        10,
    )


def test_harness_settings__model_options_are_turn_settings() -> None:
    settings = harness_settings(reasoningEffort="high", seed=11, temperature=0)
    assert settings.turn_settings() == TurnSettings(
        reasoning_effort=ReasoningEffort.HIGH, seed=11, temperature=0.0
    )
    # Stored settings stay readable when a model changes; a benchmark or a run with them is refused.
    reason = validate_harness("tasks.jsonl", harness_settings(thinkingTokens=2048))
    assert "does not take the option thinking tokens" in str(reason)


def test_evaluate__judge_has_settings_of_its_own() -> None:
    opened: dict[str, TurnSettings] = {}

    def open_model(model: str, settings: TurnSettings) -> LenientJudge:
        opened[model] = settings
        return LenientJudge(model)

    trials = plan_trials([task("llm_judge:perfect?")], 1)
    settings = harness_settings(temperature=0.5, seed=3)
    budget = open_budget(settings, UsedBudget())
    asyncio.run(evaluate(settings, open_model, trials, lambda _: None, budget))
    assert opened == {"m": TurnSettings(temperature=0.5, seed=3), "j": TurnSettings()}


def test_evaluate__cancelled_while_it_closes_a_model_closes_the_other_one_too() -> None:
    """The reader of the results cancels the evaluation when it has the last one."""
    closed: list[str] = []

    class ClosingModel(LenientJudge):
        async def close(self) -> None:
            is_first = not closed
            closed.append(self.model)
            if is_first:
                running = asyncio.current_task()
                assert running is not None
                running.cancel()
                await asyncio.sleep(0)

    settings = harness_settings()
    trials = plan_trials([task("llm_judge:perfect?")], 1)
    budget = open_budget(settings, UsedBudget())
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(
            evaluate(settings, lambda model, _: ClosingModel(model), trials, lambda _: None, budget)
        )
    assert sorted(closed) == ["j", "m"]


@pytest.mark.parametrize("changed", [{"reasoningEffort": "low"}, {"seed": 2}, {"temperature": 0.1}])
def test_fingerprint__depends_on_model_options(changed: dict[str, Any]) -> None:
    assert (
        plan_of(harness_settings(**changed)).fingerprint()
        != plan_of(harness_settings()).fingerprint()
    )


def plan_of(settings: BashHarnessSettings) -> RunPlan:
    return RunPlan(
        benchmark_id="b",
        benchmark_revision=1,
        agent_id="a",
        agent_revision=1,
        source="harness",
        dataset_ref="tasks.jsonl",
        run_name=None,
        metrics=(),
        kpis=(),
        min_coverage=0.9,
        max_error_share=0.05,
        harness=settings,
    )
