"""What came of a task of ot-bench, as a trace: figures by hand."""

from typing import Any

import pytest

from app.harness.mcp.config import TaskType
from app.harness.mcp.types import AttemptError, ErrorKind, Evaluation, TaskResult
from app.harness.results import AttemptOutcome, ConversationEnding
from app.llm.conversation import ChatMessage, MessageRole, TextBlock, user_message
from app.traces.mcp_traces import stem_of, trace_of, traces_of
from app.traces.types import ToolCall, Trace, TraceOutcome
from tests.support.mcp_results import FAILED, PASSED, llm_calls, mcp_report, result, tool_call


def direct(**given: Any) -> TaskResult:
    return result(type=TaskType.DIRECT, model="", servers=("one",), **given)


def test_an_attempt_of_a_model_is_a_trace_with_all_that_it_took() -> None:
    """Inputs 100, 160 and 260: 520 in all, base 100, growth (260 - 100) / 2; one of two met."""
    said = ChatMessage(role=MessageRole.ASSISTANT, content=(TextBlock(text="a"),))
    found = trace_of(
        result(
            tags=("compare",),
            servers=("one", "two"),
            ending=ConversationEnding.NATURAL,
            evaluations=(PASSED, FAILED),
            llm_calls=llm_calls(100, 160, 260),
            tool_calls=(tool_call("one", "echo"), tool_call("two", "echo", is_error=True)),
            messages=(user_message("First."), said, user_message("Second."), said),
            duration_ms=1500.0,
            cost_usd=0.25,
        )
    )
    assert found == Trace(
        trace_id="s/compare:base#0",
        item_id="s/compare:base",
        input="First.\n\nSecond.",
        expected_output="a\nb",
        output="a",
        error="contains b: not found in the answer",
        tags=("compare", f"task:{'0' * 16}"),
        input_tokens=520,
        output_tokens=30,
        cost_usd=0.25,
        latency_ms=1500.0,
        tool_calls=(
            ToolCall(name="one__echo", arguments={}, ok=True, latency_ms=1.0),
            ToolCall(name="two__echo", arguments={}, ok=False, latency_ms=1.0),
        ),
        turns=3,
        scores={
            "TASK_PASSED": 0,
            "TASK_SCORE": 1 / 2,
            "NATURAL_STOP": 1,
            "BASE_CONTEXT": 100,
            "CONTEXT_GROWTH_AVG": 80,
        },
    )


def test_a_direct_call_asks_no_model() -> None:
    found = trace_of(direct(tool_calls=(tool_call("one", "echo"),)))
    assert found.input == '{"tool": "echo", "arguments": {}}'
    assert (found.input_tokens, found.output_tokens, found.turns) == (None, None, None)
    assert found.scores == {"TASK_PASSED": 1, "TASK_SCORE": 1}


@pytest.mark.parametrize(
    ("outcome", "kind", "passed"),
    [
        (AttemptOutcome.AGENT_ERROR, ErrorKind.TOOL, 0),
        (AttemptOutcome.TIMEOUT, ErrorKind.TIMEOUT, 0),
        (AttemptOutcome.INFRA_ERROR, ErrorKind.SERVER_START, None),
        (AttemptOutcome.JUDGE_ERROR, ErrorKind.JUDGE, None),
    ],
)
def test_what_ended_an_attempt_is_its_outcome(
    outcome: AttemptOutcome, kind: ErrorKind, passed: float | None
) -> None:
    error = AttemptError(kind=kind, detail="told")
    found = trace_of(direct(outcome=outcome, error=error, evaluations=()))
    assert found.outcome == TraceOutcome(outcome.value)
    assert found.scores.get("TASK_PASSED") == passed
    assert found.error is not None
    assert found.error.endswith(": told")


def test_a_score_without_a_threshold_is_no_verdict() -> None:
    judged = Evaluation(type="judge", passed=None, reason="", score=0.7)
    found = trace_of(direct(evaluations=(judged,)))
    assert found.scores == {"TASK_SCORE": 0.7}
    assert trace_of(direct(evaluations=())).scores == {}


def test_items_of_several_models_and_files_have_names_of_their_own() -> None:
    report = mcp_report(
        result("alone"),
        result(),
        result(model="n"),
        result(model="n", trial=1),
        result("lost", outcome=AttemptOutcome.SKIPPED),
    )
    assert [each.trace_id for each in traces_of(report)] == [
        "s/alone#0",
        "s/compare:base · m · bench.yaml#0",
        "s/compare:base · n · bench.yaml#0",
        "s/compare:base · n · bench.yaml#1",
    ]
    assert stem_of(report) == "bench-2-models-2026-11-22-093000"
    assert stem_of(mcp_report(result(model="a/b"))) == "bench-a-b-2026-11-22-093000"
    assert stem_of(mcp_report(direct())) == "bench-direct-2026-11-22-093000"


def test_a_name_that_is_too_long_is_cut_and_still_its_own() -> None:
    names = [trace_of(result("t" * 200 + end)).item_id for end in ("a", "b")]
    assert names[0] != names[1]
    assert [len(name) for name in names] == [200, 200]
