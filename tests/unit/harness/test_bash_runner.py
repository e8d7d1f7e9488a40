"""The runner of `bashkit-eval`: tasks, budgets, trials and judges."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mosaico.harness.bash.attempt_runner import Trial, plan_trials
from mosaico.harness.bash.check_registry import CHECKS, Check, CheckResult
from mosaico.harness.bash.judge import BashJudge
from mosaico.harness.bash.replay import rescore
from mosaico.harness.bash.types import EvalResult
from mosaico.harness.budget import Budget
from mosaico.harness.limits import BudgetLimits
from mosaico.harness.results import AttemptOutcome
from mosaico.llm.conversation import (
    Turn,
)
from mosaico.llm.errors import LlmError, LlmErrorKind
from mosaico.llm.prices import Price
from tests.support.bash_eval import report, task
from tests.support.bash_turns import ScriptedTurns, TimedModel, run_all, turn
from tests.support.texts import assert_names

pytestmark = pytest.mark.usefixtures("loaded_checks")


def test_runner__scores_each_task() -> None:
    results = run_all(
        ScriptedTurns([turn("echo x"), turn(text="Done.")]), task("stdout_contains:x")
    )
    assert [entry.passed() for entry in results] == [True]


def test_runner__errored_task_does_not_stop_run() -> None:
    model = ScriptedTurns([LlmError("overloaded"), turn("true"), turn(text="Done.")])
    first, second = run_all(model, task(task_id="a"), task(task_id="b"))
    assert (first.outcome, first.reason) == (AttemptOutcome.INFRA_ERROR, "overloaded")
    assert second.passed()


def test_runner__final_error_skips_remaining_tasks() -> None:
    model = ScriptedTurns([LlmError("no such key", kind=LlmErrorKind.AUTH)])
    first, second = run_all(model, task(task_id="a"), task(task_id="b"))
    assert first.outcome is AttemptOutcome.INFRA_ERROR
    assert (second.outcome, second.reason) == (
        AttemptOutcome.SKIPPED,
        "no request was sent: the model failed permanently at a: no such key",
    )
    assert len(model.received) == 1


def test_run_budget__is_shared_by_all_tasks() -> None:
    model = ScriptedTurns([turn(text="Done.")])
    budget = Budget(limits=BudgetLimits(tokens=10))
    first, second = run_all(model, task(task_id="a"), task(task_id="b"), budget=budget)
    assert first.outcome is AttemptOutcome.SCORED
    assert (second.outcome, second.reason) == (
        AttemptOutcome.SKIPPED,
        "the run reached its limit of tokens",
    )


def test_run_time_limit__keeps_finished_attempts(expire_time_limit: Callable[[], None]) -> None:
    # The limit of the run expires after the second reply, in the command of task b.
    model = TimedModel([turn(text="Done."), turn("sleep 600")], expire=expire_time_limit)
    results = run_all(model, task(task_id="a"), task(task_id="b"), time_s=600.0)
    assert [entry.task.id for entry in results] == ["a"]


def test_runner__concurrency_is_limited() -> None:
    active_counts: list[int] = []
    active = 0

    class Busy(ScriptedTurns):
        async def turn(self, *_: Any) -> Turn:
            nonlocal active
            active += 1
            active_counts.append(active)
            await asyncio.sleep(0.01)
            active -= 1
            return turn(text="Done.")

    # Twice as many tasks as may run at once.
    run_all(Busy([]), *(task(task_id=str(n)) for n in range(6)), concurrency=3)
    assert max(active_counts) == 3


def test_plan_trials__repeats_whole_dataset() -> None:
    first_task, second_task = task(task_id="a"), task(task_id="b")
    assert plan_trials([first_task, second_task], 2) == [
        Trial(first_task, 0),
        Trial(second_task, 0),
        Trial(first_task, 1),
        Trial(second_task, 1),
    ]


JUDGED = task("llm_judge:kind?", "llm_judge:kind?", "exit_code:0")


def judge_with_answer(answer: str) -> EvalResult:
    judge = BashJudge(ScriptedTurns([turn(text=answer)]), Price(input_usd=1.0, output_usd=1.0))
    [scored] = run_all(ScriptedTurns([turn("true"), turn(text="Done.")]), JUDGED, judge=judge)
    return scored


def test_judge__repeated_question_is_asked_once() -> None:
    judged_result = judge_with_answer('I think: {"score": 0.75, "reason": "mostly"} – so there.')
    assert judged_result.score is not None
    # The question occurs twice in the task, and the usage below is that of one request.
    first = judged_result.score.results[0]
    assert (first.passed, first.weight, first.detail) == (True, 1.0, "judged 0.75: mostly")
    assert first.judge_score is not None
    assert (first.judge_score.input_tokens, first.judge_score.cost_usd) == (8, 10e-6)
    assert judged_result.trace is not None
    assert judged_result.trace.total_input_tokens == 16


def test_judge__cost_counts_in_run_budget_at_own_price() -> None:
    """Each turn has 10 tokens: two turns of the model at 1 $ per token, one of the judge at 3 $."""
    run = Budget(price=Price(input_usd=1e6, output_usd=1e6))
    judge = BashJudge(
        ScriptedTurns([turn(text='{"score": 1}')]), Price(input_usd=3e6, output_usd=3e6)
    )
    run_all(ScriptedTurns([turn("true"), turn(text="Done.")]), JUDGED, judge=judge, budget=run)
    assert (run.known_usd, run.known_input_tokens + run.known_output_tokens) == (
        2 * 10 * 1 + 10 * 3,
        30,
    )


@pytest.mark.parametrize(
    "answer",
    ["yes", "", '{"score": 2}', '{"score": true}', '{"score": NaN}', '{"reason": "x"}', "[1]"],
)
def test_judge__invalid_answer_is_judge_error(answer: str) -> None:
    judged_result = judge_with_answer(answer)
    assert (judged_result.outcome, judged_result.score) == (AttemptOutcome.JUDGE_ERROR, None)
    assert judged_result.reason


def test_judge__final_error_stops_run() -> None:
    """The judge could not score any attempt at the remaining tasks."""
    judge = BashJudge(ScriptedTurns([LlmError("401: wrong key", kind=LlmErrorKind.AUTH)]))
    model = ScriptedTurns([turn(text="Done.")])
    results = run_all(model, JUDGED, replace(JUDGED, id="next"), judge=judge)
    assert [entry.outcome for entry in results] == [
        AttemptOutcome.JUDGE_ERROR,
        AttemptOutcome.SKIPPED,
    ]
    assert results[1].reason is not None
    assert_names(results[1].reason, "no request was sent", "at t:", "401: wrong key")
    assert len(model.received) == 1


def test_runner__raising_check_is_judge_error_of_its_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = Check(summary="divides by zero", evaluate=lambda _, __: CheckResult(1 // 0 > 0, ""))
    find = CHECKS.find
    monkeypatch.setattr(CHECKS, "find", lambda name: broken if name == "broken" else find(name))
    results = run_all(
        ScriptedTurns([turn(text="Done.")]), task("broken:x"), task("tool_calls_max:0")
    )
    assert [entry.outcome for entry in results] == [
        AttemptOutcome.JUDGE_ERROR,
        AttemptOutcome.SCORED,
    ]
    assert (results[0].reason or "").startswith("the check broken raised ZeroDivisionError")
    assert rescore(report(replace(results[1], task=task("broken:x")))).agreement.checks.total == 0
