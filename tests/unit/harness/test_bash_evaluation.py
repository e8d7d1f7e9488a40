"""Costs of an evaluation: the model and its judge each have their own price."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import ValidationError

from mosaico.harness.bash.attempt_runner import evaluate, open_budget, plan_trials
from mosaico.harness.bash.check_registry import load_checks
from mosaico.harness.budget import BudgetKind, UsedBudget
from mosaico.harness.harness_config import BashHarnessSettings
from mosaico.llm.conversation import (
    ChatMessage,
    MessageRole,
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
