"""Exports of tools that trace: Phoenix, Langfuse, MLflow, TruLens, Weave and Opik."""

import json
from pathlib import Path
from typing import Any

from mosaico.traces.types import TraceOutcome
from tests.support.import_files import read_content, texts
from tests.support.tool_results import csv_file, json_file, json_lines


def phoenix_row(**fields: Any) -> dict[str, Any]:
    return {
        "example_id": "RXg6MQ==",
        "repetition_number": 1,
        "input": {"question": "Color?"},
        "reference_output": {"answer": "red"},
        "output": {"answer": "red"},
        "error": None,
        "latency_ms": 12.5,
        "prompt_token_count": 30,
        "completion_token_count": 2,
        "annotations": [
            {"name": "correct", "score": 1.0, "label": "yes", "error": None},
            {"name": "close", "score": None, "label": None, "error": "judge timed out"},
        ],
        **fields,
    }


def test_phoenix__repetitions_are_trials_and_annotations_scores(tmp_path: Path) -> None:
    again = phoenix_row(repetition_number=2, output="blue", annotations=[])
    failed = phoenix_row(
        example_id="RXg6Mg==", output=None, error="KeyError('sku')", annotations=[]
    )
    imported = read_content(tmp_path, json_file([phoenix_row(), again, failed]))
    first = imported.of("RXg6MQ==", 0)
    assert texts(first) == ("Color?", "red", "red")
    assert (first.scores, first.latency_ms, first.input_tokens) == ({"correct": 1.0}, 12.5, 30)
    assert imported.of("RXg6MQ==", 1).output == "blue"
    assert imported.of("RXg6Mg==").outcome is TraceOutcome.AGENT_ERROR
    assert any("evaluator failed: close 1" in note for note in imported.notes)


def langfuse_row(**fields: Any) -> dict[str, Any]:
    return {
        "id": "t1",
        "timestamp": "2026-04-01T08:00:00.000Z",
        "name": "support",
        "environment": "production",
        "bookmarked": False,
        "tags": ["de"],
        "input": {"messages": [{"role": "user", "content": "Where?"}]},
        "output": {"role": "assistant", "content": "There."},
        "latency": 2.5,
        "totalCost": "0.0006",
        "inputTokens": 40,
        "outputTokens": 4,
        "helpful": [0.5, 1.0],
        "tone": ["polite"],
        "rating": None,
        **fields,
    }


def test_langfuse_export__goes_on_after_rows_without_texts(tmp_path: Path) -> None:
    empty = langfuse_row(id="t2", input=None, output=None)
    unknown = langfuse_row(id="t3", totalCost="0", inputTokens=0, outputTokens=0, helpful=[0.25])
    imported = read_content(tmp_path, json_file([empty, langfuse_row(), unknown]))
    assert imported.format == "langfuse-export"
    first, second = imported.traces
    assert (first.item_id, first.input, first.output) == ("Where?", "Where?", "There.")
    assert (first.latency_ms, first.cost_usd, first.input_tokens) == (2500.0, 0.0006, 40)
    # The mean of the values of a score; a text is none.
    assert (first.scores, first.tags) == ({"helpful": 0.75}, ("de",))
    assert (second.cost_usd, second.input_tokens, second.scores) == (None, None, {"helpful": 0.25})
    assert any("are skipped: row 1" in line for line in imported.left_out)
    assert any("tone" in note and "not used" in note for note in imported.notes)


def test_langfuse_export__csv_and_observations(tmp_path: Path) -> None:
    cells = {
        name: json.dumps(cell) if isinstance(cell, dict | list) else cell
        for name, cell in langfuse_row().items()
    }
    [trace] = read_content(tmp_path, csv_file(cells)).traces
    assert (trace.input, trace.output, trace.scores) == ("Where?", "There.", {"helpful": 0.75})
    observation = {
        "id": "o1",
        "traceId": "t1",
        "level": "ERROR",
        "statusMessage": "openai.APIConnectionError: Connection error.",
        "input": "1+1?",
        "output": None,
        "latencyMs": 300,
        "usageDetails": {"input": 5, "output": 1},
        "costDetails": {"total": 0.01},
        "providedModelName": "m-1",
    }
    [failed] = read_content(tmp_path, json_file([observation])).traces
    assert (failed.outcome, failed.output) == (TraceOutcome.INFRA_ERROR, None)
    assert (failed.latency_ms, failed.input_tokens, failed.cost_usd) == (300.0, 5, 0.01)


def test_mlflow__traces_with_assessments(tmp_path: Path) -> None:
    def assessment(name: str, kind: str, **value: Any) -> dict[str, Any]:
        return {"assessment_name": name, kind: value}

    row = {
        "trace_id": "tr-1",
        "state": "OK",
        "request": {"question": "Capital of Peru?"},
        "response": "Lima",
        "execution_duration": 250,
        "trace_metadata": {"mlflow.trace.tokenUsage": '{"input_tokens": 9, "output_tokens": 2}'},
        "tags": {"mlflow.user": "root"},
        # The agent handled the exception of a step.
        "spans": [{"events": [{"attributes": {"exception.type": "E", "exception.message": "m"}}]}],
        "assessments": [
            assessment("expected_response", "expectation", value="Lima"),
            assessment("correct", "feedback", value="yes"),
            assessment("length", "feedback", value=0.5),
            assessment("broken", "feedback", value=None, error={"error_code": "SCORER_ERROR"}),
        ],
    }
    exception = {"exception.type": "KeyError", "exception.message": "'chad'"}
    failed = row | {
        "trace_id": "tr-2",
        "state": "ERROR",
        "request": {"question": "Capital of Chad?"},
        "response": None,
        "assessments": [],
        "spans": [{"events": [{"name": "exception", "attributes": exception}]}],
    }
    imported = read_content(tmp_path, json_file([row, failed]))
    assert imported.format == "mlflow"
    trace, error = imported.of("Capital of Peru?"), imported.of("Capital of Chad?")
    assert texts(trace) == ("Capital of Peru?", "Lima", "Lima")
    assert (trace.outcome, trace.error) == (TraceOutcome.SCORED, None)
    assert trace.scores == {"correct": 1.0, "length": 0.5}
    assert (trace.latency_ms, trace.input_tokens, trace.output_tokens) == (250.0, 9, 2)
    assert (error.outcome, error.output, error.error) == (
        TraceOutcome.AGENT_ERROR,
        None,
        "KeyError: 'chad'",
    )
    assert any("evaluator failed: broken 1" in note for note in imported.notes)


def test_mlflow__evaluation_in_columns(tmp_path: Path) -> None:
    row = {
        "trace_id": "tr-1",
        "correct/value": "no",
        "correct/rationale": "other city",
        "broken/value": "",
        "broken/error_message": "judge is down",
        "expected_response/value": "Rome",
        "inputs": "{'question': 'Capital of Italy?'}",
        "outputs": "Milan",
        "expectations": "{'expected_response': 'Rome'}",
    }
    imported = read_content(tmp_path, csv_file(row))
    trace = imported.of("Capital of Italy?")
    assert (texts(trace), trace.scores) == (
        ("Capital of Italy?", "Rome", "Milan"),
        {"correct": 0.0},
    )


def test_trulens__feedback_has_a_column_of_calls(tmp_path: Path) -> None:
    row = {
        "record_id": "r1",
        "app_name": "a",
        "input": "1+1?",
        "output": "2",
        "latency": 1.5,
        "total_cost": 0.01,
        "eval_cost": 0.5,
        "Relevance": 0.25,
        "Relevance_calls": "[]",
    }
    imported = read_content(tmp_path, csv_file(row, row | {"record_id": "r2", "Relevance": ""}))
    first, second = imported.of("1+1?", 0), imported.of("1+1?", 1)
    assert (first.scores, first.latency_ms, first.cost_usd) == ({"Relevance": 0.25}, 1500.0, 0.01)
    assert second.scores == {}


def test_weave__calls_of_an_evaluation(tmp_path: Path) -> None:
    call = {
        "id": "c1",
        "inputs": {"example": {"question": "1+1?", "expected": "2"}},
        "output": {
            "model_output": "3",
            "scores": {"exact": {"correct": False, "note": "off by one"}, "length": 0.25},
            "model_latency": 0.5,
        },
        "exception": None,
    }
    crashed = call | {
        "id": "c2",
        "inputs": {"example": "weave:///e/p/object/row:abc"},
        "output": {"output": None, "scores": {}},
        "exception": "openai.APITimeoutError: Request timed out.",
    }
    imported = read_content(tmp_path, json_lines(call, crashed))
    trace = imported.of("1+1?")
    assert texts(trace) == ("1+1?", "2", "3")
    assert (trace.scores, trace.latency_ms) == ({"exact.correct": 0.0, "length": 0.25}, 500.0)
    failed = imported.of("weave:///e/p/object/row:abc")
    assert (failed.output, failed.outcome.is_missing) == (None, True)


def test_opik__pairs_by_item_of_the_dataset(tmp_path: Path) -> None:
    item = {
        "dataset_item_id": "d1",
        "trace_id": "t1",
        "dataset_item_data": {"id": "d1", "input": "1+1?", "expected_output": "2"},
        "evaluation_task_output": {"output": "3", "context": ["c"]},
        "feedback_scores": [{"name": "hallucination", "value": 1.0, "reason": "r"}],
    }
    imported = read_content(tmp_path, json_file({"experiment": {"name": "e"}, "items": [item]}))
    assert (texts(imported.of("d1")), imported.of("d1").scores) == (
        ("1+1?", "2", "3"),
        {"hallucination": 1.0},
    )
