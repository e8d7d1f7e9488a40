"""Mapping of ot-bench results to traces, with figures computed by hand."""

from typing import Any

import pytest

from mosaico.harness.mcp.config import TaskType
from mosaico.harness.mcp.types import AttemptError, ErrorKind, Evaluation, TaskResult
from mosaico.harness.results import AttemptOutcome
from mosaico.traces.producers.mcp_traces import stem_of, trace_of, traces_of
from mosaico.traces.types import TraceOutcome
from tests.support.mcp_results import mcp_report, result, tool_call


def direct(**changes: Any) -> TaskResult:
    return result(type=TaskType.DIRECT, model="", servers=("one",), **changes)


def test_trace_of__direct_call_has_no_model_usage() -> None:
    trace = trace_of(direct(tool_calls=(tool_call("one", "echo"),)))
    assert trace.input == '{"tool": "echo", "arguments": {}}'
    assert (trace.input_tokens, trace.output_tokens, trace.turns) == (None, None, None)
    assert trace.scores == {"TASK_PASSED": 1, "TASK_SCORE": 1}


@pytest.mark.parametrize(
    ("outcome", "kind", "passed"),
    [
        (AttemptOutcome.AGENT_ERROR, ErrorKind.TOOL, 0),
        (AttemptOutcome.TIMEOUT, ErrorKind.TIMEOUT, 0),
        (AttemptOutcome.INFRA_ERROR, ErrorKind.SERVER_START, None),
        (AttemptOutcome.JUDGE_ERROR, ErrorKind.JUDGE, None),
    ],
)
def test_trace_of__end_of_an_attempt_gives_the_outcome(
    outcome: AttemptOutcome, kind: ErrorKind, passed: float | None
) -> None:
    error = AttemptError(kind=kind, detail="told")
    trace = trace_of(direct(outcome=outcome, error=error, evaluations=()))
    assert trace.outcome == TraceOutcome(outcome.value)
    assert trace.scores.get("TASK_PASSED") == passed
    assert trace.error is not None
    assert trace.error.endswith(": told")


def test_trace_of__score_without_threshold_is_not_a_verdict() -> None:
    judged = Evaluation(type="judge", passed=None, reason="", score=0.7)
    trace = trace_of(direct(evaluations=(judged,)))
    assert trace.scores == {"TASK_SCORE": 0.7}
    assert trace_of(direct(evaluations=())).scores == {}


def test_traces_of__items_of_several_models_and_files_have_unique_ids() -> None:
    report = mcp_report(
        result("alone"),
        result(),
        result(model="n"),
        result(model="n", trial=1),
        result("lost", outcome=AttemptOutcome.SKIPPED),
    )
    assert [trace.trace_id for trace in traces_of(report)] == [
        "s/alone#0",
        "s/compare:base · m · bench.yaml#0",
        "s/compare:base · n · bench.yaml#0",
        "s/compare:base · n · bench.yaml#1",
    ]
    assert stem_of(report) == "bench-2-models-2026-11-22-093000"
    assert stem_of(mcp_report(result(model="a/b"))) == "bench-a-b-2026-11-22-093000"
    assert stem_of(mcp_report(direct())) == "bench-direct-2026-11-22-093000"


def test_traces_of__long_name_is_truncated_and_stays_unique() -> None:
    # They differ only behind the 200 characters that an item ID may have.
    names = [trace_of(result("t" * 200 + end)).item_id for end in ("a", "b")]
    assert names[0] != names[1]
    assert [len(name) for name in names] == [200, 200]
