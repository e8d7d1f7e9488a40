"""Exports of evaluation platforms: pairs, texts, errors and scores as the platform means them."""

import json
from pathlib import Path
from typing import Any

import pytest

from mosaico.traces.files.column_mapping import InvalidMapping
from mosaico.traces.files.import_file import InvalidImport
from mosaico.traces.files.read_options import ReadOptions
from mosaico.traces.types import Trace, TraceOutcome
from tests.support.import_files import Imported, import_path
from tests.support.tool_results import csv_file, json_file, json_lines


def read(folder: Path, content: bytes, **mapping: str) -> Imported:
    path = folder / "results"
    path.write_bytes(content)
    return import_path(path, None, ReadOptions(mapping=mapping))


def texts(trace: Trace) -> tuple[str | None, str | None, str | None]:
    return trace.input, trace.expected_output, trace.output


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
    imported = read(tmp_path, csv_file(row, again, failed))
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
    imported = read(tmp_path, csv_file(row, row | {"id": "run-2", "input.question": "2+2?"}))
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
        read(tmp_path, csv_file(row))
    imported = read(tmp_path, csv_file(row), output="outputs.response")
    assert [trace.output for trace in imported.traces] == ["Two"]
    with pytest.raises(InvalidMapping, match=r"no column 'outputs\.reply'"):
        read(tmp_path, csv_file(row), output="outputs.reply")


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
    trace = read(tmp_path, json_file([row])).of("e1")
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
    imported = read(tmp_path, json_lines(run, step))
    [trace] = imported.traces
    assert (trace.input_tokens, trace.output_tokens, trace.cost_usd) == (10, 2, 0.002)
    assert trace.scores == {"helpful": 0.75}
    assert any("another run are skipped: line 2" in line for line in imported.left_out)


def test_openai_evals_api__pairs_by_question_and_names_graders(tmp_path: Path) -> None:
    item = {
        "object": "eval.run.output_item",
        "id": "out_9",
        "status": "pass",
        "datasource_item_id": 0,
        "datasource_item": {"question": "1+1?", "ground_truth": "2"},
        "results": [
            {
                "name": "String check-0b6e8c1a-3f4d-4c2b-9a1d-7e5f60718293",
                "score": 1.0,
                "passed": True,
            },
            {"name": "style", "score": 5.5, "passed": True},
        ],
        "sample": {
            "input": [{"role": "system", "content": "s"}, {"role": "user", "content": "1+1?"}],
            "output": [{"role": "assistant", "content": "2"}],
            "model": "m-1",
            "usage": {"prompt_tokens": 16, "completion_tokens": 3},
            "error": None,
        },
    }
    failed = {
        **item,
        "id": "out_10",
        "status": "error",
        "results": [],
        "datasource_item": {"id": "k2", "question": "2+2?", "ground_truth": "4"},
        "sample": {
            "input": [],
            "output": [],
            "error": {"code": "server_error", "message": "try again"},
        },
    }
    for content in (
        json_lines(item, failed),
        json_file({"object": "list", "data": [item, failed]}),
    ):
        imported = read(tmp_path, content)
        assert imported.format == "openai-evals-api"
        trace = imported.of("1+1?")
        assert texts(trace) == ("1+1?", "2", "2")
        assert trace.scores == {"TASK_PASSED": 1.0, "String check": 1.0, "style": 5.5}
        assert (trace.input_tokens, trace.output_tokens, trace.tags) == (16, 3, ("model:m-1",))
        error = imported.of("k2")
        assert (error.outcome, error.output) == (TraceOutcome.INFRA_ERROR, None)


def test_openai_evals_api__uploaded_answers_are_in_the_data(tmp_path: Path) -> None:
    row = {
        "object": "eval.run.output_item",
        "status": "fail",
        "datasource_item": {"question": "1+1?", "answer_of_model": "3", "expected": "2"},
        "results": [],
        "sample": {"input": [], "output": []},
    }
    assert texts(read(tmp_path, json_file([row])).of("1+1?")) == ("1+1?", "2", "3")


def test_openai_evals_log__events_of_a_sample_are_one_result(tmp_path: Path) -> None:
    def event(number: int, sample: str, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        return {"event_id": number, "sample_id": sample, "type": kind, "data": data}

    prompt = [{"role": "user", "content": "1+1?"}]
    imported = read(
        tmp_path,
        json_lines(
            {"spec": {"completion_fns": ["m-1"]}},
            event(0, "sums.test.0", "sampling", {"prompt": prompt, "sampled": ["2"]}),
            # The judge answers after the model.
            event(1, "sums.test.0", "sampling", {"prompt": "Is it right?", "sampled": ["Y"]}),
            event(2, "sums.test.0", "match", {"correct": True, "expected": ["2", "two"]}),
            event(3, "sums.test.1", "sampling", {"prompt": "2+2?", "sampled": ["3"]}),
            event(4, "sums.test.1", "match", {"correct": False, "expected": "2"}),
            event(5, "sums.test.1", "metrics", {"f1": 0.25, "choice": "B"}),
            {"final_report": {"accuracy": 0.5}},
        ),
    )
    first, second = imported.of("1+1?"), imported.of("2+2?")
    assert texts(first) == ("1+1?", "2", "2")
    assert (first.expected_any, first.scores, first.tags) == (
        ("2", "two"),
        {"TASK_PASSED": 1.0},
        ("model:m-1",),
    )
    assert second.scores == {"TASK_PASSED": 0.0, "f1": 0.25}


def azure_row(**cells: Any) -> dict[str, Any]:
    return {
        "inputs.query": "Open on Sunday?",
        "inputs.ground_truth": "No",
        "outputs.response": "No.",
        "outputs.coherence.coherence": 4,
        "outputs.coherence.coherence_score": 4,
        "outputs.coherence.gpt_coherence": 4,
        "outputs.coherence.coherence_threshold": 3,
        "outputs.coherence.coherence_result": "pass",
        "outputs.coherence.coherence_prompt_tokens": 900,
        "outputs.violence.violence": "Low",
        "outputs.violence.violence_score": 2,
        "outputs.f1.f1_score": 0.5,
        **cells,
    }


def test_azure__one_score_for_each_metric(tmp_path: Path) -> None:
    judged = azure_row(**{"inputs.id": "k1"})
    unjudged = azure_row(
        **{"inputs.id": "k2", "outputs.coherence.coherence": None}
        | {f"outputs.coherence.{name}_coherence": None for name in ("gpt",)}
        | {"outputs.coherence.coherence_score": None}
        | {"outputs.coherence.coherence_result": "not_applicable"}
    )
    imported = read(tmp_path, json_file({"rows": [judged, unjudged], "metrics": {"x": 1}}))
    assert imported.format == "azure-evaluation"
    assert texts(imported.of("k1")) == ("Open on Sunday?", "No", "No.")
    assert imported.of("k1").scores == {"coherence": 4.0, "violence": 2.0, "f1_score": 0.5}
    assert imported.of("k2").scores == {"violence": 2.0, "f1_score": 0.5}
    # A severity: lower is better. The tokens are those of the judge.
    assert imported.directions == {"violence": "low"}
    assert imported.of("k1").input_tokens is None


def test_azure__metrics_of_one_name_keep_their_evaluator(tmp_path: Path) -> None:
    row = azure_row(**{"outputs.strict.f1_score": 0.25, "outputs.strict.f1_score_score": 0.25})
    scores = read(tmp_path, json_file({"rows": [row]})).of("Open on Sunday?").scores
    assert scores == {
        "coherence": 4.0,
        "violence": 2.0,
        "f1.f1_score": 0.5,
        "strict.f1_score": 0.25,
    }


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
    imported = read(tmp_path, json_file([phoenix_row(), again, failed]))
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
    imported = read(tmp_path, json_file([empty, langfuse_row(), unknown]))
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
    [trace] = read(tmp_path, csv_file(cells)).traces
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
    [failed] = read(tmp_path, json_file([observation])).traces
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
    imported = read(tmp_path, json_file([row, failed]))
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
    imported = read(tmp_path, csv_file(row))
    trace = imported.of("Capital of Italy?")
    assert (texts(trace), trace.scores) == (
        ("Capital of Italy?", "Rome", "Milan"),
        {"correct": 0.0},
    )


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
    imported = read(tmp_path, json_file([row, step]))
    [trace] = imported.traces
    assert (trace.item_id, *texts(trace)) == ("1+1?", "1+1?", "2", "2")
    assert (trace.scores, trace.latency_ms, trace.cost_usd) == ({"Factuality": 1.0}, 1500.0, 0.01)
    assert {"smoke", "category:sums", "model:m-1"} == {*trace.tags}
    assert any("another span are skipped: row 2" in line for line in imported.left_out)


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
    imported = read(tmp_path, csv_file(row, row | {"record_id": "r2", "Relevance": ""}))
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
    imported = read(tmp_path, json_lines(call, crashed))
    trace = imported.of("1+1?")
    assert texts(trace) == ("1+1?", "2", "3")
    assert (trace.scores, trace.latency_ms) == ({"exact.correct": 0.0, "length": 0.25}, 500.0)
    failed = imported.of("weave:///e/p/object/row:abc")
    assert (failed.output, failed.outcome.is_missing) == (None, True)


def test_batch__requests_that_did_not_run_are_missing(tmp_path: Path) -> None:
    def openai(item: str, response: Any, error: Any = None) -> dict[str, Any]:
        return {"id": f"batch_{item}", "custom_id": item, "response": response, "error": error}

    usage = {"prompt_tokens": 21, "completion_tokens": 2}
    choice = {"index": 0, "message": {"role": "assistant", "content": "Oslo"}}
    body = {"model": "m-1", "choices": [choice], "usage": usage}
    limit = {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}
    expired = {"code": "batch_expired", "message": "The request did not run."}
    imported = read(
        tmp_path,
        json_lines(
            openai("q1", {"status_code": 200, "body": body}),
            openai("q2", {"status_code": 429, "body": limit}),
            openai("q3", None, expired),
        ),
    )
    first = imported.of("q1")
    assert (first.output, first.input_tokens, first.output_tokens) == ("Oslo", 21, 2)
    assert {imported.of(item).outcome for item in ("q2", "q3")} == {TraceOutcome.INFRA_ERROR}
    message = {
        "role": "assistant",
        "model": "m-2",
        "content": [{"type": "thinking", "thinking": "north"}, {"type": "text", "text": "Oslo"}],
        "usage": {"input_tokens": 5, "cache_read_input_tokens": 100, "output_tokens": 2},
    }
    imported = read(
        tmp_path,
        json_lines(
            {"custom_id": "q1", "result": {"type": "succeeded", "message": message}},
            {"custom_id": "q2", "result": {"type": "expired"}},
        ),
    )
    assert (imported.of("q1").output, imported.of("q1").input_tokens) == ("Oslo", 105)
    assert imported.of("q2").outcome is TraceOutcome.INFRA_ERROR


def test_bedrock__two_models_are_a_question(tmp_path: Path) -> None:
    def score(name: str, result: Any) -> dict[str, Any]:
        return {"metricName": name, "result": result}

    row = {
        "automatedEvaluationResult": {
            "scores": [score("Builtin.Toxicity", 0.1), score("Builtin.Accuracy", None)]
        },
        "inputRecord": {"prompt": "1+1?", "referenceResponse": "2", "category": "sums"},
        "modelResponses": [{"response": "2", "modelIdentifier": "m-1"}],
    }
    imported = read(tmp_path, json_lines(row, row))
    trace = imported.of("1+1?")
    assert (texts(trace), trace.scores) == (("1+1?", "2", "2"), {"Toxicity": 0.1})
    assert imported.directions == {"Toxicity": "low"}
    row["modelResponses"] = [{"response": "2"}, {"response": "3"}]
    with pytest.raises(InvalidMapping, match="2 models"):
        read(tmp_path, json_lines(row, row))
    chosen = read(tmp_path, json_lines(row, row), output="modelResponses[1].response")
    assert chosen.of("1+1?").output == "3"


def test_opik__pairs_by_item_of_the_dataset(tmp_path: Path) -> None:
    item = {
        "dataset_item_id": "d1",
        "trace_id": "t1",
        "dataset_item_data": {"id": "d1", "input": "1+1?", "expected_output": "2"},
        "evaluation_task_output": {"output": "3", "context": ["c"]},
        "feedback_scores": [{"name": "hallucination", "value": 1.0, "reason": "r"}],
    }
    imported = read(tmp_path, json_file({"experiment": {"name": "e"}, "items": [item]}))
    assert (texts(imported.of("d1")), imported.of("d1").scores) == (
        ("1+1?", "2", "3"),
        {"hallucination": 1.0},
    )


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
    imported = read(tmp_path, json_file({"test_cases_lookup_map": entries}))
    assert imported.format == "deepeval-cache"
    passed, failed, unjudged = (imported.of(q) for q in ("1+1?", "3-1?", "0+2?"))
    assert passed.scores == {"TASK_PASSED": 1.0, "Exact": 1.0, "Bias": 1.0}
    assert texts(failed) == ("3-1?", "2", "1")
    assert (failed.scores["TASK_PASSED"], unjudged.scores) == (0.0, {})
    assert imported.directions == {"Exact": "high", "Bias": "low"}
    assert any("older runs" in note for note in imported.notes)
    nothing: dict[str, Any] = {"test_cases_lookup_map": {json.dumps({"input": "1+1?"}): {}}}
    with pytest.raises(InvalidImport, match="without an answer"):
        read(tmp_path, json_file(nothing))


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
