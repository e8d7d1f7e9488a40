"""Exports of LangSmith: pairs, trials, errors and scores as it means them."""

from pathlib import Path
from typing import Any

import pytest

from mosaico.traces.files.column_mapping import InvalidMapping
from mosaico.traces.types import TraceOutcome
from tests.support.import_files import read_content, texts
from tests.support.tool_results import csv_file, json_file, json_lines


def test_langsmith__table_pairs_by_example_and_counts_its_trials(tmp_path: Path) -> None:
    row = {
        "id": "run-1",
        "example_id": "e1",
        "inputs.question": "Capital of Peru?",
        "outputs.answer": "Lima",
        "reference.answer": "Lima",
        "feedback.correctness": "1",
        "feedback.tone": "0.25",
        "execution_time": "1.5",
        "error": "",
    }
    again = row | {"id": "run-2", "outputs.answer": "Cusco", "feedback.correctness": "0"}
    failed = row | {
        "id": "run-3",
        "example_id": "e2",
        "outputs.answer": "",
        "feedback.correctness": "",
        "feedback.tone": "",
        "error": "openai.RateLimitError: 429",
    }
    imported = read_content(tmp_path, csv_file(row, again, failed))
    assert imported.format == "langsmith"
    first, second, third = imported.of("e1", 0), imported.of("e1", 1), imported.of("e2")
    assert texts(first) == ("Capital of Peru?", "Lima", "Lima")
    assert (first.trace_id, first.latency_ms) == ("run-1", 1500.0)
    assert first.scores == {"correctness": 1.0, "tone": 0.25}
    assert (second.output, second.scores["correctness"]) == ("Cusco", 0.0)
    assert (third.outcome, third.output, third.scores) == (TraceOutcome.INFRA_ERROR, None, {})


def test_langsmith__table_without_examples_pairs_by_question(tmp_path: Path) -> None:
    row = {
        "id": "run-1",
        "input.question": "1+1?",
        "outputs.answer": "2",
        "execution_time": "1",
        "feedback.note": "fine",
    }
    imported = read_content(
        tmp_path, csv_file(row, row | {"id": "run-2", "input.question": "2+2?"})
    )
    assert [trace.item_id for trace in imported.traces] == ["1+1?", "2+2?"]
    # A feedback of text is no score, and is said.
    assert all(trace.scores == {} for trace in imported.traces)
    assert [line for line in imported.left_out if "'note'" in line]


def test_langsmith__several_outputs_are_a_question(tmp_path: Path) -> None:
    row = {
        "inputs.question": "1+1?",
        "outputs.answer": "2",
        "outputs.response": "Two",
        "execution_time": "1",
    }
    with pytest.raises(InvalidMapping, match=r"outputs\.answer.*outputs\.response"):
        read_content(tmp_path, csv_file(row))
    imported = read_content(tmp_path, csv_file(row), output="outputs.response")
    assert [trace.output for trace in imported.traces] == ["Two"]
    with pytest.raises(InvalidMapping, match=r"no column 'outputs\.reply'"):
        read_content(tmp_path, csv_file(row), output="outputs.reply")


def test_langsmith__rows_of_the_package_and_of_runs(tmp_path: Path) -> None:
    row = {
        "run": {
            "id": "r1",
            "inputs": {"q": "1+1?"},
            "outputs": {
                "messages": [{"role": "user", "content": "1+1?"}, {"type": "ai", "content": "2"}]
            },
            "start_time": "2026-01-01T00:00:00",
            "end_time": "2026-01-01T00:00:02.500000",
            "error": None,
        },
        "example": {"id": "e1", "inputs": {"q": "1+1?"}, "outputs": {"answer": "two"}},
        "evaluation_results": {
            "results": [
                {"key": "correct", "score": None, "value": True},
                {"key": "close", "score": 0.5},
            ]
        },
    }
    trace = read_content(tmp_path, json_file([row])).of("e1")
    assert texts(trace) == ("1+1?", "two", "2")
    assert (trace.scores, trace.latency_ms) == ({"correct": 1.0, "close": 0.5}, 2500.0)
    run: dict[str, Any] = {
        "id": "r1",
        "parent_run_id": None,
        "inputs": {"question": "1+1?"},
        "outputs": {"output": "2"},
        "total_cost": "0.002",
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "feedback_stats": {"helpful": {"n": 2, "avg": 0.75}},
    }
    step = run | {"id": "r2", "parent_run_id": "r1"}
    imported = read_content(tmp_path, json_lines(run, step))
    [trace] = imported.traces
    assert (trace.input_tokens, trace.output_tokens, trace.cost_usd) == (10, 2, 0.002)
    assert trace.scores == {"helpful": 0.75}
    assert any("another run are skipped: line 2" in line for line in imported.left_out)
