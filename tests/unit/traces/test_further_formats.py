"""Formats of platforms and benchmarks in one small file each: what is read, and what an error says instead."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from mosaico.core.errors import AppError
from tests.support.tool_results import csv_file, json_file, json_lines
from tests.unit.traces.test_result_variants import Facts, facts, read


def content(text: str) -> dict[str, Any]:
    """A text in the form of Gemini."""
    return {"role": "user", "parts": [{"text": text}]}


CASES: Final = {
    "eval_case_results": [
        {
            "eval_case_index": 0,
            "response_candidate_results": [
                {
                    "metric_results": {
                        "quality": {"score": 0.5},
                        "safety": {"error_message": "no judge"},
                    }
                }
            ],
        }
    ],
    "evaluation_dataset": [
        {
            "eval_cases": [
                {
                    "eval_case_id": "c1",
                    "prompt": content("q?"),
                    "responses": [{"response": content("a")}],
                    "reference": {"response": content("g")},
                }
            ]
        }
    ],
}
RESPONSE: Final = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "a"}]}}],
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2},
}
OLD_SWE: Final = {
    "generated": ["a", "b", "c"], "no_generation": ["d"], "applied": ["a", "b"], "resolved": ["a"],
    "install_fail": ["e"],
}  # fmt: skip


def turn(question: str, results: list[dict[str, Any]], **output: Any) -> dict[str, Any]:
    """A turn of a RAG evaluation of Amazon Bedrock."""
    record = {
        "prompt": {"content": [{"text": question}]},
        "referenceResponses": [{"content": [{"text": "g"}]}],
    }
    return {"inputRecord": record, "output": output, "results": results}


def judgment(number: int, first: str, second: str) -> dict[str, Any]:
    """A judgment of a pair of MT-bench."""
    models = {"model_1": "mine", "model_2": "base", "turn": 1}
    return {"question_id": number, **models, "g1_winner": first, "g2_winner": second}


def promptfoo(number: int, **fields: Any) -> dict[str, Any]:
    """A result of promptfoo whose assertion failed."""
    return {
        "promptIdx": 0, "testCase": {}, "vars": {"q": str(number)}, "provider": "openai:m",
        "prompt": {"raw": "p", "label": "p"}, "response": {"output": "x"}, "success": False, "score": 0,
        "failureReason": 1, **fields,
    }  # fmt: skip


def failed(reason: str, **metadata: Any) -> dict[str, Any]:
    """A failed assertion of promptfoo."""
    return {"pass": False, "reason": reason, "metadata": metadata}


BROKEN: Final = "Could not extract JSON from llm-rubric response"
SAMPLE: Final = {
    "doc_id": 0, "doc": {}, "target": "g", "arguments": [["q", {}]], "resps": [["a"]], "filtered_resps": ["a"],
    "metrics": ["em"], "em": 1.0,
}  # fmt: skip
PYTHON_CASE: Final = {
    "name": "test_case_0", "input": "q", "actual_output": "a", "expected_output": "g", "success": True,
    "metrics_data": [{"name": "Faithfulness", "score": 0.7, "success": True}],
}  # fmt: skip
CORRECT: Final = {"metricName": "Builtin.Correctness", "result": 0.5}
NULL: Final = {"metricName": "own", "result": None}
# A file, the importer that reads it, and its results or the error.
FILES: Final[Mapping[str, tuple[bytes, str, list[Facts] | str]]] = {
    "Vertex AI with its cases": (
        json_file(CASES),
        "vertex-evaluation",
        [{"item": "c1", "in": "q?", "out": "a", "gold": "g", "scores": {"quality": 0.5}}],
    ),
    "Vertex AI without its cases": (
        json_file({"eval_case_results": CASES["eval_case_results"]}), "", "without their evaluation_dataset",
    ),
    "means of Vertex AI": (json_file({"summary_metrics": []}), "", "means of Vertex AI"),
    "predictions of Vertex AI": (
        json_file({"instances": [{"prompt": "q"}], "predictions": [{"content": "a", "safetyAttributes": {}}]}),
        "vertex-document",
        [{"item": "q", "out": "a"}],
    ),
    "a batch of Gemini": (
        json_lines(
            {"key": "k1", "response": RESPONSE},
            {"key": "k2", "error": {"code": 503, "message": "overloaded"}},
        ),
        "vertex",
        [{"item": "k1", "out": "a"}, {"item": "k2", "out": None, "end": "infra_error"}],
    ),
    "RAG of Bedrock": (
        json_lines(
            {"conversationTurns": [turn("q", [CORRECT, NULL], text="a")]},
            {"conversationTurns": [turn("q", [], text="x"), turn("r", [CORRECT], text="b")]},
            {"conversationTurns": [turn("s", [CORRECT])]},
        ),
        "bedrock-rag",
        [
            {"item": "q", "in": "q", "out": "a", "gold": "g", "scores": {"Correctness": 0.5}},
            {"item": "q → r", "in": "r", "out": "b"},
            {"item": "s", "out": None, "scores": {"Correctness": 0.5}},
        ],
    ),
    "pairs of MT-bench": (
        json_lines(
            judgment(1, "model_1", "model_1"), judgment(2, "model_1", "model_2"), judgment(3, "model_2", "model_2"),
            judgment(4, "tie", "error"),
        ),
        "mt-bench-pairs",
        [
            {"item": "1 turn 1", "scores": {"win": 1.0}},
            {"scores": {"win": 0.5}},
            {"scores": {"win": 0.0}},
            {"scores": {}, "end": "judge_error"},
        ],
    ),
    "several pairs of MT-bench": (
        json_lines(judgment(1, "tie", "tie"), {**judgment(1, "tie", "tie"), "model_1": "other"}), "", "2 pairs",
    ),
    "answers of MT-bench": (
        json_lines(*[{"question_id": n, "answer_id": "x", "choices": [{"turns": ["a"]}]} for n in (1, 2)]),
        "",
        "without a judgment",
    ),
    "statistics of HELM": (
        json_file(
            [
                {
                    "instance_id": "id1", "perturbation": None, "train_trial_index": 1,
                    "stats": [
                        {"name": {"name": "exact_match"}, "count": 2, "sum": 1.0},
                        {"name": {"name": "f1"}, "count": 0, "sum": 0.0},
                        {"name": {"name": "num_prompt_tokens"}, "count": 1, "sum": 30},
                    ],
                },
                {"instance_id": "id1", "perturbation": {"name": "typos"}, "train_trial_index": 1, "stats": []},
            ]
        ),
        "helm-stats",
        [{"item": "id1", "trial": 1, "scores": {"exact_match": 0.5}}],
    ),
    "requests of HELM": (
        json_file(
            {
                "adapter_spec": {},
                "request_states": [
                    {
                        "instance": {
                            "id": "id1", "input": {"text": "q"},
                            "references": [
                                {"output": {"text": "Paris"}, "tags": ["correct"]},
                                {"output": {"text": "Rome"}, "tags": []},
                            ],
                        },
                        "output_mapping": {"A": "Rome", "B": "Paris"},
                        "result": {"success": True, "completions": [{"text": " B"}]},
                    }
                ],
            }
        ),
        "helm-state",
        [{"item": "id1", "in": "q", "out": "Paris", "gold": "Paris"}],
    ),
    "details of the leaderboard": (
        json_file(
            [{"full_prompt": "q", "choices": ["x", "y"], "predictions": [-5.0, -1.0], "gold": ["y"], "metrics": {"acc": 1.0}}]
        ),
        "lighteval-leaderboard",
        [{"in": "q", "out": "y", "gold": "y", "scores": {"acc": 1.0}}],
    ),
    "a report of SWE-bench of 2023": (
        json_file(OLD_SWE),
        "swe-bench",
        [
            {"item": "a", "scores": {"TASK_PASSED": 1.0}},
            {"item": "b", "scores": {"TASK_PASSED": 0.0}},
            {"item": "c", "scores": {"TASK_PASSED": 0.0}},
            {"item": "d", "scores": {"TASK_PASSED": 0.0}},
            {"item": "e", "scores": {}, "end": "infra_error"},
        ],
    ),
    "a report of SWE-bench without failures": (
        json_file({"no_generation": ["d"], "no_logs": [], "resolved": ["a"]}), "", "do not name the unresolved",
    ),
    "judges of promptfoo that failed": (
        json_file(
            [
                promptfoo(0, error=BROKEN),
                promptfoo(1, gradingResult={"componentResults": [{"pass": True}, failed("x", graderError=True)]}),
                promptfoo(2, gradingResult={"componentResults": [failed("not equal"), failed(BROKEN)]}),
                promptfoo(3, error='Expected output "API error" to equal "x"'),
            ]
        ),
        "promptfoo",
        [{"end": "judge_error"}, {"end": "judge_error"}, {"end": "scored"}, {"end": "scored"}],
    ),
    "results of DeepEval in Python": (
        json_file({"test_results": [PYTHON_CASE]}),
        "deepeval",
        [{"item": "q", "out": "a", "gold": "g", "scores": {"Faithfulness": 0.7, "TASK_PASSED": 1.0}}],
    ),
    "a run of DeepEval without cases": (
        json_file({"testRunData": {"testCases": []}}), "", "no results in this file",
    ),
    "samples of lm-eval by task": (
        json_file({"samples": {"arc": [SAMPLE], "gsm8k": [SAMPLE]}, "results": {}, "versions": {}, "config": {}}),
        "lm-eval",
        [{"item": "arc/0", "out": "a"}, {"item": "gsm8k/0", "gold": "g"}],
    ),
    "errors in outputs of LangSmith": (
        csv_file(
            {"example_id": "1", "inputs.q": "q", "outputs.answer": "", "outputs.error": "KeyError: x", "execution_time": 1},
            {"example_id": "2", "inputs.q": "r", "outputs.answer": "a", "outputs.error": "", "execution_time": 1},
        ),
        "langsmith",
        [{"out": None, "end": "agent_error", "error": "KeyError: x"}, {"out": "a", "end": "scored"}],
    ),
    "a crash in the first row of Weave": (
        json_file(
            [
                {"inputs": {"example": {"q": "q"}}, "output": None, "exception": "KeyError: x"},
                {"inputs": {"example": {"q": "r"}}, "output": {"output": "a", "scores": {"em": True}}},
            ]
        ),
        "weave",
        [{"end": "agent_error", "out": None}, {"out": "a", "scores": {"em": 1.0}}],
    ),
    "a conversation without the user": (
        json_file([{"task_id": 0, "reward": 1.0, "traj": [{"role": "assistant", "content": "a"}], "trial": 0}]),
        "tau-bench",
        [{"item": "0", "in": None, "out": "a"}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_format__is_read_or_an_error_says_what_to_use(name: str, tmp_path: Path) -> None:
    file, format_name, wanted = FILES[name]
    if isinstance(wanted, str):
        with pytest.raises(AppError, match=wanted):
            read(tmp_path, "results", file)
        return
    imported = read(tmp_path, "results", file)
    assert imported.format == format_name
    assert facts(imported.traces, wanted) == wanted


LANGSMITH: Final = [
    {"example_id": "1", "inputs.q": "q", "outputs.answer": "a", "feedback.ok": 1.0, "execution_time": 1.5},
    {"example_id": "2", "inputs.q": "r", "outputs.answer": "b", "feedback.ok": 0.0, "execution_time": 0.5},
]  # fmt: skip
AZURE: Final = [
    {"inputs.query": "q", "outputs.answer": "a", "outputs.em.em": 1, "outputs.em.em_threshold": 3, "line_number": 0},
    {"inputs.query": "r", "outputs.answer": "b", "outputs.em.em": 2, "outputs.em.em_threshold": 3, "line_number": 1},
]  # fmt: skip


def parquet(rows: list[dict[str, Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


def spreadsheet(rows: list[dict[str, Any]]) -> bytes:
    import openpyxl

    workbook, file = openpyxl.Workbook(), io.BytesIO()
    for cells in ([*rows[0]], *(row.values() for row in rows)):
        workbook.worksheets[0].append(list(cells))
    workbook.save(file)
    return file.getvalue()


@pytest.mark.parametrize(("name", "rows"), [("langsmith", LANGSMITH), ("azure-evaluation", AZURE)])
@pytest.mark.parametrize(("suffix", "write"), [("parquet", parquet), ("xlsx", spreadsheet)])
def test_format__is_the_same_in_parquet_and_spreadsheets(
    name: str, rows: list[dict[str, Any]], suffix: str, write: Any, tmp_path: Path
) -> None:
    as_json = read(tmp_path, "a.json", rows)
    binary = read(tmp_path, f"a.{suffix}", write(rows))
    assert binary.format == as_json.format == name
    assert binary.traces == as_json.traces


def test_lighteval__samples_in_parquet_are_trials(tmp_path: Path) -> None:
    row = {
        "doc": {"id": "7", "query": "q", "choices": ["Paris"], "gold_index": 0},
        "model_response": {"text": ["Paris", "Rome"], "input_tokens": [1, 2]},
        "metric": {"em": 0.5},
    }
    traces = read(tmp_path, "details.parquet", parquet([row])).traces
    wanted = [
        {"item": "7", "trial": n, "out": text, "gold": "Paris"}
        for n, text in enumerate(("Paris", "Rome"))
    ]
    assert facts(traces, wanted) == wanted


def test_chosen_member__names_what_stands_beside_it(tmp_path: Path) -> None:
    rows = [{**row, "outputs.sources": ["s"], "inputs.context": "c"} for row in LANGSMITH]
    imported = read(tmp_path, "a.json", rows)
    assert any("outputs.sources" in note and "not used" in note for note in imported.notes)
