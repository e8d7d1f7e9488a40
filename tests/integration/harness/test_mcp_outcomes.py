"""Timeouts, expected errors and judges of `ot-bench`."""

from typing import Any

import pytest

from mosaico.harness.mcp.config import EvaluatorConfig
from mosaico.harness.mcp.types import (
    ErrorKind,
)
from mosaico.harness.results import AttemptOutcome, ConversationEnding
from mosaico.llm.conversation import (
    Turn,
)
from mosaico.llm.errors import LlmError, LlmErrorKind
from tests.support.mcp_bench import (
    calls,
    direct_task,
    harness_task,
    run,
    says,
    scripted,
)
from tests.support.mcp_models import Asleep, failing
from tests.support.mcp_servers import faults, stdio

pytestmark = pytest.mark.usefixtures("loaded_evaluators")


def test_timeout__cancels_request_and_sends_no_more() -> None:
    model = Asleep(lambda _: says(""))
    result = run(harness_task(timeout_s=0.05), model=model).result
    assert (result.outcome, result.ending) == (AttemptOutcome.INFRA_ERROR, ConversationEnding.ERROR)
    assert result.error is not None
    assert result.error.detail.startswith(
        "the model did not answer: m: timed out after 0.05 s: no response to request 1 for "
    )
    assert model.is_cancelled


def test_timeout__provider_is_never_the_expected_error() -> None:
    """Errors of tools are expected here; an outage is none of them."""
    task = harness_task(timeout_s=0.05, evaluator=EvaluatorConfig(expect_error=True))
    result = run(task, model=Asleep(lambda _: says(""))).result
    assert (result.outcome, result.passed) == (AttemptOutcome.INFRA_ERROR, None)


def test_timeout__hanging_tool_of_a_model_is_that_of_the_agent() -> None:
    task = harness_task(faults(), timeout_s=0.3)
    result = run(task, model=scripted(calls(("hang", {})), says("Never."))).result
    assert (result.outcome, result.passed) == (AttemptOutcome.TIMEOUT, False)
    assert result.error is not None
    assert result.error.detail.endswith("; it was waiting for hang of faults")


def test_expect_error__missing_error_fails() -> None:
    evaluator = EvaluatorConfig(expect_error=True, expected="fine")
    task = direct_task(faults(), "echo", arguments={"text": "fine"}, evaluator=evaluator)
    assert run(task).result.passed is False


@pytest.mark.parametrize(
    ("named", "passed"),
    [
        ({"expected": "not completed within its timeout"}, True),
        ({"regex": "no such zone"}, False),
    ],
)
def test_expect_error__timeout_of_a_tool_is_evaluated_like_an_answer(
    named: dict[str, Any], passed: bool
) -> None:
    evaluator = EvaluatorConfig(expect_error=True, **named)
    task = direct_task(faults(), "hang", evaluator=evaluator, timeout_s=0.2)
    result = run(task).result
    assert (result.outcome, result.passed) == (AttemptOutcome.SCORED, passed)
    assert result.response == (
        "not completed within its timeout of 0.2 s; it was waiting for hang of faults"
    )


@pytest.mark.parametrize(
    ("named", "passed"),
    [
        ({}, None),
        ({"expected": "No such file"}, None),  # why it did not start, as a tool might say
        ({"expected": "does not start"}, None),
        ({"regex": ".", "prompt": "{response}", "model": "m", "min_score": 1}, None),
        ({"expected": "server 's' does not start"}, True),
        ({"expected": "server 's' does not start: 'no-such-program' cannot be started"}, True),
        ({"expected": ["server 's' does not start", "no answer"]}, None),
    ],
)
def test_expect_error__failed_start_passes_only_when_named(
    named: dict[str, Any], passed: bool | None
) -> None:
    evaluator = EvaluatorConfig(expect_error=True, **named)
    result = run(direct_task(stdio("s", "no-such-program"), "echo", evaluator=evaluator)).result
    assert result.passed is passed
    assert result.outcome is (AttemptOutcome.SCORED if passed else AttemptOutcome.INFRA_ERROR)


def test_expect_error__rejected_key_is_not_a_tool_error() -> None:
    model = failing(LlmError("401: wrong key", kind=LlmErrorKind.AUTH))
    evaluator = EvaluatorConfig(expect_error=True, expected=401)
    result = run(harness_task(faults(), evaluator=evaluator), model=model).result
    assert (result.outcome, result.passed) == (AttemptOutcome.INFRA_ERROR, None)


class SleepingJudge(Asleep):
    """Answers tasks at once, but never answers as a judge."""

    async def turn(self, *arguments: object) -> Turn:
        return await super().turn() if "judge" in str(arguments[0]) else says("Blue.")


def test_judge__timeout_is_that_of_the_task() -> None:
    evaluator = EvaluatorConfig(prompt="{response}", model="m")
    judge = SleepingJudge(lambda _: says(""))
    result = run(harness_task(evaluator=evaluator, timeout_s=0.2), model=judge).result
    assert result.error is not None
    assert result.error.kind is ErrorKind.JUDGE
    assert "timed out after 0.2 s" in result.error.detail
    assert judge.is_cancelled
