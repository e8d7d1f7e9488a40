"""Results of OpenAI's evals, of its API and its package, and of batches: pairs, errors and graders."""

from pathlib import Path
from typing import Any

from mosaico.traces.types import TraceOutcome
from tests.support.import_files import read_content, texts
from tests.support.tool_results import json_file, json_lines


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
        imported = read_content(tmp_path, content)
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
    assert texts(read_content(tmp_path, json_file([row])).of("1+1?")) == ("1+1?", "2", "3")


def test_openai_evals_log__events_of_a_sample_are_one_result(tmp_path: Path) -> None:
    def event(number: int, sample: str, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        return {"event_id": number, "sample_id": sample, "type": kind, "data": data}

    prompt = [{"role": "user", "content": "1+1?"}]
    imported = read_content(
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


def test_batch__requests_that_did_not_run_are_missing(tmp_path: Path) -> None:
    def openai(item: str, response: Any, error: Any = None) -> dict[str, Any]:
        return {"id": f"batch_{item}", "custom_id": item, "response": response, "error": error}

    usage = {"prompt_tokens": 21, "completion_tokens": 2}
    choice = {"index": 0, "message": {"role": "assistant", "content": "Oslo"}}
    body = {"model": "m-1", "choices": [choice], "usage": usage}
    limit = {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}
    expired = {"code": "batch_expired", "message": "The request did not run."}
    imported = read_content(
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
    imported = read_content(
        tmp_path,
        json_lines(
            {"custom_id": "q1", "result": {"type": "succeeded", "message": message}},
            {"custom_id": "q2", "result": {"type": "expired"}},
        ),
    )
    assert (imported.of("q1").output, imported.of("q1").input_tokens) == ("Oslo", 105)
    assert imported.of("q2").outcome is TraceOutcome.INFRA_ERROR
