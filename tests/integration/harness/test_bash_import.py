"""Import of a recorded bash evaluation: its attempts become the traces of a run."""

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from mosaico.harness.bash.result_file import json_report
from mosaico.harness.judge import JudgeScore
from mosaico.harness.results import AttemptOutcome, ConversationEnding
from mosaico.traces.files.ndjson import iter_traces
from mosaico.traces.producers import harness_results
from mosaico.traces.producers.harness_results import read_results
from mosaico.traces.types import ToolCall, Trace, TraceOutcome
from tests.support.bash_eval import (
    HAIKU,
    RECORDINGS,
    SONNET,
    call,
    recorded,
    report,
    result,
    task,
    trace,
)
from tests.support.service import Service

# Passed tasks, points and tool calls of the recorded runs, from the recorded summaries.
RECORDED = dict(
    zip(
        RECORDINGS,
        [(32, 174, 150), (29, 160, 198), (23, 147, 108), (23, 104, 93), (18, 86, 103), (3, 8, 4)],
        strict=True,
    )
)


def post_import(service: Service, raw: bytes, **more: Any) -> httpx.Response:
    headers = {"Content-Type": "application/json", **more.pop("headers", {})}
    return service.send(
        "POST",
        "/local-datasets/import",
        content=raw,
        params={"name": "bash", **more},
        headers=headers,
    )


def traces_in(raw: bytes) -> list[Trace]:
    return list(iter_traces(read_results(raw).lines))


def one_attempt_file(**more: Any) -> bytes:
    good = result(task("exit_code:0"), True, calls=[call("x"), call(code=1)], **more)
    return json_report(report(good)).encode()


def test_import__attempt_becomes_trace_with_usage() -> None:
    [produced_traces] = traces_in(one_attempt_file())
    assert produced_traces == Trace(
        trace_id="t#0",
        item_id="t",
        input="Do it.",
        expected_output="exit_code:0",
        tags=("category:file_operations", f"task:{task('exit_code:0').content_hash()}"),
        input_tokens=100,
        output_tokens=10,
        latency_ms=1000.0,
        tool_calls=(
            ToolCall(name="bash", arguments={"commands": "x"}, ok=True),
            ToolCall(name="bash", arguments={"commands": "x"}, ok=False),
        ),
        turns=3,
        scores={
            "TASK_SCORE": 1,
            "TASK_PASSED": 1,
            "TASK_POINTS": 1,
            "TASK_POINTS_MAX": 1,
            "NATURAL_STOP": 1,
        },
    )


def test_import__judge_score_and_usage_are_separate_scores() -> None:
    """Two questions: (0.5 + 1) / 2, and 7 + 3 + 8 + 2 tokens; the cost of one is unknown."""
    scored_result = result(task("llm_judge:kind?", "llm_judge:brief?"), True, True)
    assert scored_result.score is not None
    judge_scores = (
        JudgeScore(score=0.5, reason="r", input_tokens=7, output_tokens=3, cost_usd=0.5),
        JudgeScore(score=1.0, reason="r", input_tokens=8, output_tokens=2),
    )
    judged = tuple(
        replace(attempt_result, judge_score=judge_score)
        for attempt_result, judge_score in zip(
            scored_result.score.results, judge_scores, strict=True
        )
    )
    scored_result = replace(scored_result, score=replace(scored_result.score, results=judged))
    [read] = traces_in(json_report(report(scored_result)).encode())
    assert (read.scores["JUDGE_SCORE"], read.scores["JUDGE_TOKENS"]) == (0.75, 20)
    assert "JUDGE_USD" not in read.scores
    assert read.input_tokens == 100


def test_import__outcome_of_attempt() -> None:
    late = result(
        task(), False, trace=trace(natural_stop=False, ending=ConversationEnding.TIME_LIMIT)
    )
    errored = result(
        task(task_id="u"), True, outcome=AttemptOutcome.INFRA_ERROR, reason="no answer"
    )
    unjudged = result(task(task_id="v"), True, outcome=AttemptOutcome.JUDGE_ERROR)
    never = result(task(task_id="w"), True, outcome=AttemptOutcome.SKIPPED)
    produced_traces = traces_in(json_report(report(late, errored, unjudged, never)).encode())
    assert [entry.outcome for entry in produced_traces] == [
        TraceOutcome.SCORED,  # at its time limit it is scored like at any other limit
        TraceOutcome.INFRA_ERROR,
        TraceOutcome.JUDGE_ERROR,
    ]
    assert [entry.error for entry in produced_traces] == ["exit_code:0: d", "no answer", None]
    assert (
        produced_traces[0].scores["TASK_PASSED"] == produced_traces[0].scores["NATURAL_STOP"] == 0
    )


@pytest.mark.parametrize("name", RECORDINGS)
def test_import__traces_have_recorded_figures(name: str) -> None:
    traces = traces_in(recorded(name).read_bytes())
    passed, points = (
        sum(produced.scores[of] for produced in traces) for of in ("TASK_PASSED", "TASK_POINTS")
    )
    calls = sum(len(produced.tool_calls or ()) for produced in traces)
    assert (passed, points, calls) == RECORDED[name]


def test_import__recorded_runs_have_recorded_metrics(service: Service) -> None:
    service.create_agent()
    points = {"key": "SCORE", "options": {"name": "TASK_POINTS"}}
    calls = ["TOOL_CALL_SUCCESS_RATE", "TOOL_CALLS_OK", "TOOL_CALLS_ERROR"]
    service.create_benchmark(
        datasetRef="bash", metrics=["TASK_PASSED", points, "TOOL_CALLS", *calls]
    )
    runs = {}
    for name in (HAIKU, SONNET):
        stored = post_import(service, recorded(name).read_bytes())
        assert stored.status_code == 201, stored.text
        assert stored.json()["runName"] == name.removesuffix(".json")
        runs[name] = service.start_run(runName=stored.json()["runName"])["id"]
    service.work()
    for name, run_id in runs.items():
        metrics = service.list_items(f"/benchmark-runs/{run_id}/metrics")
        assert tuple(metric["sum"] for metric in metrics[:3]) == RECORDED[name], name
    rate, successful, failed = service.list_items(f"/benchmark-runs/{runs[HAIKU]}/metrics")[3:]
    assert (successful["sum"], failed["sum"], rate["mean"]) == (121, 29, 121 / 150)
    # By hand: 0.807 ± 2.03 standard errors of the ratio over 37 tasks (0.058, delta method).
    low, high = rate["intervalLow"], rate["intervalHigh"]
    assert (low, high) == (pytest.approx(0.688, abs=0.03), pytest.approx(0.925, abs=0.03))


def test_import__same_file_is_imported_once(service: Service) -> None:
    once = {"headers": {"Idempotency-Key": "a"}}
    first = post_import(service, one_attempt_file(), **once)
    assert post_import(service, one_attempt_file(), **once).json() == first.json()
    again = post_import(service, one_attempt_file())
    assert (again.status_code, again.json()["type"]) == (409, "/problems/dataset-exists")
    assert post_import(service, one_attempt_file(), replace="true").status_code == 201
    assert len(service.list_items("/local-datasets")) == 1


def test_import__invalid_file_is_refused(service: Service) -> None:
    for raw in (
        b"",
        b"[]",
        b"{",
        b'{"results": []}',
        b"\xff",
        # Deeper than a parser may recurse.
        b"[" * 100_000,
        # Infinite as a float.
        one_attempt_file().replace(b'"turns": 3', b'"turns": 1e999'),
        one_attempt_file().replace(b'"duration_ms": 1000', b'"duration_ms": -5'),
        json.dumps({**json.loads(one_attempt_file()), "results": []}).encode(),
    ):
        answer = post_import(service, raw)
        assert answer.status_code == 422, answer.text
    assert service.list_items("/local-datasets") == []


def test_import__file_of_very_many_values_is_refused_unread(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Millions of empty lists would take thirty times the memory of the file."""
    monkeypatch.setattr(harness_results, "MAX_VALUES", 1000)
    answer = post_import(service, b"[" + b"[]," * 999 + b"[]]")
    assert (answer.status_code, answer.json()["detail"]) == (
        422,
        "the body has more than 1,000 JSON values; import a part of the results",
    )
