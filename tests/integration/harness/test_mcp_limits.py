"""The budget of a whole ot-bench run."""

from dataclasses import replace

import pytest

from mosaico.harness.limits import BudgetLimits
from mosaico.harness.mcp.config import EvaluatorConfig
from mosaico.harness.mcp.evaluator_registry import load_evaluators
from mosaico.harness.mcp.plan_builder import models_without_price
from mosaico.harness.mcp.summary import gate_figures
from mosaico.harness.mcp.types import ErrorKind
from mosaico.harness.results import AttemptOutcome, HarnessExit, decide_exit
from mosaico.llm.conversation import Turn
from mosaico.llm.prices import Price
from tests.support.mcp_bench import (
    Request,
    ScriptedModel,
    calls,
    direct_task,
    harness_task,
    run,
    says,
    scripted,
)
from tests.support.mcp_servers import faults, stdio

PRICES = {"m": Price(input_usd=1.0, output_usd=10.0)}
BOTH_SKIPPED = [AttemptOutcome.SCORED, AttemptOutcome.SKIPPED, AttemptOutcome.SKIPPED]


@pytest.fixture(autouse=True, scope="module")
def _evaluators() -> None:
    load_evaluators()


@pytest.mark.parametrize(
    ("budget_limits", "message"),
    [
        (BudgetLimits(tokens=110), "the run reached its limit of tokens"),
        (BudgetLimits(cost_usd=0.0002), "the run reached its limit of cost"),
    ],
)
def test_run_budget__exhausted_budget_skips_remaining_tasks(
    budget_limits: BudgetLimits, message: str
) -> None:
    """One answer takes 100 + 10 tokens, or 200 millionths of a dollar. Nor does a server start that
    could not, and the limit is not the error that a task expects.
    """
    any_error = EvaluatorConfig(expect_error=True, regex=".")
    tasks = [
        harness_task(name="first"),
        harness_task(name="second"),
        direct_task(stdio("s", "no-such-program"), "echo", name="third", evaluator=any_error),
    ]
    model = scripted(says("Done.", (100, 10)))
    report = run(
        *tasks, model=model, budget_limits=budget_limits, prices=PRICES, concurrency=1
    ).report
    assert [attempt_result.outcome for attempt_result in report.results] == BOTH_SKIPPED
    assert {
        attempt_result.error.detail for attempt_result in report.results if attempt_result.error
    } == {message}
    assert len(model.requests) == 1
    assert decide_exit(gate_figures(report), 0.0) is HarnessExit.ERRORS


def test_run_budget__exhausted_during_task_is_skipped_with_cost() -> None:
    model = scripted(calls(("count", {}), tokens=(100, 10)))
    # 110 tokens are less than 200, and 220 are not.
    result = run(harness_task(faults()), model=model, budget_limits=BudgetLimits(tokens=200)).result
    assert (result.outcome, result.passed) == (AttemptOutcome.SKIPPED, None)
    assert result.error is not None
    assert result.error.kind is ErrorKind.RUN_LIMIT
    assert (len(model.requests), result.input_tokens, len(result.tool_calls)) == (2, 200, 2)


def test_run_budget__includes_judge() -> None:
    """55 tokens of the model and as many of the judge."""

    def play(request: Request) -> Turn:
        return says('{"score": 90}' if "judge" in request.system else "Blue.", (50, 5))

    judged = EvaluatorConfig(prompt="Is {response} blue?", model="m")
    tasks = [harness_task(name=name, evaluator=judged) for name in ("a", "b")]
    model = ScriptedModel(play)
    report = run(*tasks, model=model, budget_limits=BudgetLimits(tokens=110), concurrency=1).report
    assert [attempt_result.outcome for attempt_result in report.results] == [
        AttemptOutcome.SCORED,
        AttemptOutcome.SKIPPED,
    ]
    assert len(model.requests) == 2


def test_cost_limit__needs_price_of_every_model() -> None:
    judge = EvaluatorConfig(prompt="{response}", model="judge")
    task = harness_task(evaluator=judge)
    bounded = replace(task, budget_limits=BudgetLimits(cost_usd=1.0))
    assert models_without_price([task], {}, BudgetLimits(tokens=1)) == []
    assert models_without_price([bounded], {}, BudgetLimits()) == ["m"]
    assert models_without_price([bounded], PRICES, BudgetLimits()) == []
    assert models_without_price([task, bounded], PRICES, BudgetLimits(cost_usd=1.0)) == ["judge"]
