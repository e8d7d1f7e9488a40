"""Results of older versions of the tools, and what stands beside an answer without being the agent's."""

import json
from pathlib import Path
from typing import Any

from mosaico.traces.types import TraceOutcome
from tests.support.import_files import import_path


def write(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    return path


def inspect_log(*samples: dict[str, Any]) -> dict[str, Any]:
    base = {"epoch": 1, "input": "1+1?", "target": "2", "output": {"completion": "2"}}
    return {
        "status": "success",
        "eval": {"model": "m-1", "scorers": [{"name": "match"}]},
        "samples": [base | sample for sample in samples],
    }


def usage(tokens: int, output: int, **more: float) -> dict[str, float]:
    return {"input_tokens": tokens, "output_tokens": output, "total_tokens": tokens + output} | more


def test_inspect__tokens_of_a_grader_are_not_those_of_the_agent(tmp_path: Path) -> None:
    own, judge = usage(20, 4, total_cost=0.01), usage(300, 50, total_cost=0.5)
    samples = [
        {"id": "a", "model_usage": {"m-1": own, "judge": judge}, "role_usage": {"grader": judge}},
        # The same model answers and grades.
        {
            "id": "b",
            "model_usage": {"m-1": usage(320, 54, total_cost=0.51)},
            "role_usage": {"grader": judge},
        },
    ]
    log = import_path(write(tmp_path / "log.json", inspect_log(*samples)))
    for item in ("a", "b"):
        trace = log.of(item)
        assert (trace.input_tokens, trace.output_tokens) == (20, 4)
        assert round(trace.cost_usd or 0, 6) == 0.01
    assert not any("several models" in note for note in log.notes)


def test_inspect__tokens_of_several_models_are_named(tmp_path: Path) -> None:
    sample = {"id": "a", "model_usage": {"m-1": usage(20, 4), "m-2": usage(1, 1)}}
    log = import_path(write(tmp_path / "log.json", inspect_log(sample)))
    assert log.of("a").input_tokens == 21
    assert any("m-1, m-2" in note for note in log.notes)


def test_inspect__invalidated_samples_and_the_only_score(tmp_path: Path) -> None:
    samples = [
        {"id": "a", "score": {"value": "C"}},
        {"id": "b", "scores": {"match": {"value": "I"}}, "invalidation": {"reason": "wrong setup"}},
    ]
    log = import_path(write(tmp_path / "log.json", inspect_log(*samples)))
    assert [(trace.item_id, trace.scores) for trace in log.traces] == [("a", {"score": 1.0})]
    assert any("b#1" in note and "not used" in note for note in log.notes)


def test_inspect__list_of_values_is_numbered(tmp_path: Path) -> None:
    sample = {"id": "a", "scores": {"steps": {"value": ["C", 0, None]}}}
    log = import_path(write(tmp_path / "log.json", inspect_log(sample)))
    assert log.of("a").scores == {"steps.1": 1.0, "steps.2": 0.0}


def test_promptfoo__version_2_pairs_by_provider_and_prompt(tmp_path: Path) -> None:
    def result(provider: str, number: int, **fields: Any) -> dict[str, Any]:
        return {
            "provider": {"id": provider},
            "prompt": {"raw": f"Say {number}", "display": "Say {{n}}"},
            "vars": {"n": number},
            "success": True,
            "score": 1,
            "latencyMs": 300,
            "response": {"output": "one"},
            **fields,
        }

    failed = {"success": False, "score": 0}
    results = [
        result("b", 1, **failed, error="503 Service Unavailable", response=None),
        result("a", 1),
        result("a", 2, **failed, error="Expected two", gradingResult={"pass": False}),
    ]
    imported = import_path(write(tmp_path / "r.json", {"version": 2, "results": results}))
    assert imported.format == "promptfoo"
    raised = imported.of('{"n": 1} [b]')
    passed, wrong = imported.of('{"n": 1} [a]'), imported.of('{"n": 2} [a]')
    assert raised.outcome is TraceOutcome.INFRA_ERROR
    assert (passed.input, passed.output, passed.scores["TASK_PASSED"]) == ("Say 1", "one", 1.0)
    # An assertion failed: this is an answer.
    assert (wrong.outcome, wrong.scores["TASK_PASSED"]) == (TraceOutcome.SCORED, 0.0)


def test_deepeval__metrics_of_the_first_versions(tmp_path: Path) -> None:
    metric = {"metric": "Faithfulness", "score": 0.5, "threshold": 0.7, "success": False}
    case = {"name": "c", "input": "1+1?", "actualOutput": "3", "success": False}
    run = {"testCases": [case | {"metricsMetadata": [metric]}]}
    imported = import_path(write(tmp_path / "run.json", run))
    assert imported.of("c").scores == {"Faithfulness": 0.5, "TASK_PASSED": 0.0}
    assert imported.directions == {"Faithfulness": "higher"}


def test_lm_eval__list_of_the_first_versions(tmp_path: Path) -> None:
    sample = {
        "doc_id": 0,
        "doc": {"q": "1+1?"},
        "target": "2",
        "arguments": [["Q: 1+1?", {"until": ["."]}]],
        "resps": [["3"]],
        "filtered_resps": ["3"],
        "exact_match": 0.0,
    }
    imported = import_path(write(tmp_path / "m_task.jsonl", [sample, sample | {"doc_id": 1}]))
    assert imported.format == "lm-eval"
    trace = imported.of("0")
    assert (trace.input, trace.expected_output, trace.output) == ("Q: 1+1?", "2", "3")
    assert trace.scores["exact_match"] == 0.0


def test_ragas__names_before_version_2(tmp_path: Path) -> None:
    path = tmp_path / "ragas.csv"
    path.write_text(
        "question,answer,contexts,ground_truth,faithfulness\n1+1?,2,['c'],two,0.5\n2+2?,5,['c'],4,\n"
    )
    imported = import_path(path)
    first, second = imported.of("1+1?"), imported.of("2+2?")
    assert (first.expected_output, first.output) == ("two", "2")
    assert (first.scores, second.scores) == ({"faithfulness": 0.5}, {})


def test_ragas__every_number_beside_a_dataset_is_a_metric(tmp_path: Path) -> None:
    path = tmp_path / "ragas.csv"
    path.write_text("user_input,response,length\n1+1?,2,120\n2+2?,5,30\n")
    assert import_path(path).of("1+1?").scores == {"length": 120.0}
    # The user added a column of text: then other numbers may be those of the user, too.
    path.write_text("user_input,response,note,length\n1+1?,2,fine,120\n2+2?,5,bad,30\n")
    assert import_path(path).of("1+1?").scores == {}
