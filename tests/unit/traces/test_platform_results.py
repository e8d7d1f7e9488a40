"""Exports of evaluation platforms without a family: pairs, texts, errors and scores as the platform means them."""

import json
from pathlib import Path
from typing import Any

import pytest

from mosaico.traces.files.limited_file import InvalidImport
from mosaico.traces.files.read_options import ReadOptions
from tests.support.import_files import import_path, read_content, texts
from tests.support.tool_results import csv_file, json_file


def test_braintrust__pairs_by_input_and_skips_steps(tmp_path: Path) -> None:
    row = {
        "id": "r1",
        "span_id": "s1",
        "root_span_id": "s1",
        "input": {"question": "1+1?"},
        "output": "2",
        "expected": "2",
        "scores": {"Factuality": 1, "Skipped": None},
        "metrics": {"start": 10.0, "end": 11.5, "prompt_tokens": 8, "estimated_cost": 0.01},
        "metadata": {"topic": "sums", "model": "m-1"},
        "tags": ["smoke"],
        "error": None,
    }
    step = row | {"id": "r2", "span_id": "s2", "output": "thinking"}
    imported = read_content(tmp_path, json_file([row, step]))
    [trace] = imported.traces
    assert (trace.item_id, *texts(trace)) == ("1+1?", "1+1?", "2", "2")
    assert (trace.scores, trace.latency_ms, trace.cost_usd) == ({"Factuality": 1.0}, 1500.0, 0.01)
    assert {"smoke", "category:sums", "model:m-1"} == {*trace.tags}
    assert any("another span are skipped: row 2" in line for line in imported.left_out)


def test_deepeval_cache__texts_are_in_the_keys(tmp_path: Path) -> None:
    def key(question: str, answer: str) -> str:
        return json.dumps({"input": question, "actual_output": answer, "expected_output": "2"})

    def metric(name: str, score: float | None, **others: Any) -> dict[str, Any]:
        data = {"name": name, "score": score, "success": score == 1.0, **others}
        return {"metric_data": data}

    entries = {
        key("1+1?", "2"): {"cached_metrics_data": [metric("Exact", 1.0), metric("Bias", 1.0)]},
        key("3-1?", "1"): {"cached_metrics_data": [metric("Exact", 0.0)]},
        key("0+2?", "2"): {"cached_metrics_data": [metric("Exact", None, error="no judge")]},
    }
    imported = read_content(tmp_path, json_file({"test_cases_lookup_map": entries}))
    assert imported.format == "deepeval-cache"
    passed, failed, unjudged = (imported.of(q) for q in ("1+1?", "3-1?", "0+2?"))
    assert passed.scores == {"TASK_PASSED": 1.0, "Exact": 1.0, "Bias": 1.0}
    assert texts(failed) == ("3-1?", "2", "1")
    assert (failed.scores["TASK_PASSED"], unjudged.scores) == (0.0, {})
    assert imported.directions == {"Exact": "higher", "Bias": "lower"}
    assert any("older runs" in note for note in imported.notes)
    nothing: dict[str, Any] = {"test_cases_lookup_map": {json.dumps({"input": "1+1?"}): {}}}
    with pytest.raises(InvalidImport, match="without an answer"):
        read_content(tmp_path, json_file(nothing))


def test_tool_table__labels_and_scores_of_the_user(tmp_path: Path) -> None:
    rows = [
        {
            "inputs.question": f"{number}?",
            "outputs.answer": "x",
            "execution_time": "1",
            "feedback.grade": grade,
            "extra": "0.5",
        }
        for number, grade in enumerate("AB")
    ]
    path = tmp_path / "results.csv"
    path.write_bytes(csv_file(*rows))
    labels = {"feedback.grade": {"A": 1.0, "B": 0.0}}
    options = ReadOptions(labels=labels, mapping={"scores[more]": "extra"})
    imported = import_path(path, None, options)
    assert [trace.scores for trace in imported.traces] == [
        {"grade": 1.0, "more": 0.5},
        {"grade": 0.0, "more": 0.5},
    ]
