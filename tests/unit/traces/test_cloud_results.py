"""Results of the evaluation services of Azure and Amazon: pairs, models and scores."""

from pathlib import Path
from typing import Any

import pytest

from mosaico.traces.files.column_mapping import InvalidMapping
from tests.support.import_files import read_content, texts
from tests.support.tool_results import json_file, json_lines


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
    imported = read_content(tmp_path, json_file({"rows": [judged, unjudged], "metrics": {"x": 1}}))
    assert imported.format == "azure-evaluation"
    assert texts(imported.of("k1")) == ("Open on Sunday?", "No", "No.")
    assert imported.of("k1").scores == {"coherence": 4.0, "violence": 2.0, "f1_score": 0.5}
    assert imported.of("k2").scores == {"violence": 2.0, "f1_score": 0.5}
    # A severity: lower is better. The tokens are those of the judge.
    assert imported.directions == {"violence": "lower"}
    assert imported.of("k1").input_tokens is None


def test_azure__metrics_of_one_name_keep_their_evaluator(tmp_path: Path) -> None:
    row = azure_row(**{"outputs.strict.f1_score": 0.25, "outputs.strict.f1_score_score": 0.25})
    scores = read_content(tmp_path, json_file({"rows": [row]})).of("Open on Sunday?").scores
    assert scores == {
        "coherence": 4.0,
        "violence": 2.0,
        "f1.f1_score": 0.5,
        "strict.f1_score": 0.25,
    }


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
    imported = read_content(tmp_path, json_lines(row, row))
    trace = imported.of("1+1?")
    assert (texts(trace), trace.scores) == (("1+1?", "2", "2"), {"Toxicity": 0.1})
    assert imported.directions == {"Toxicity": "lower"}
    row["modelResponses"] = [{"response": "2"}, {"response": "3"}]
    with pytest.raises(InvalidMapping, match="2 models"):
        read_content(tmp_path, json_lines(row, row))
    chosen = read_content(tmp_path, json_lines(row, row), output="modelResponses[1].response")
    assert chosen.of("1+1?").output == "3"
