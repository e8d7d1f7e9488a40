"""Evaluations of the client of Vertex AI: `eval_case_results` with their `evaluation_dataset`.

A metric with an error message has no score. Of several candidates one is chosen with `--map`. Source: google-cloud-aiplatform
`_genai/types`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mosaico.core.parameter_names import mapped_column
from mosaico.traces.files.imported_values import object_of, objects_of
from mosaico.traces.files.tool_cells import Ambiguity, EvaluatorFailure
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_document

DATA: Final = ("eval_case_results", "evaluation_dataset")


def find_cases(document: Mapping[str, Any]) -> Iterable[Cells] | None:
    """The results of a document, each beside the case of the dataset that it is about."""
    results = document.get(DATA[0])
    datasets = document.get(DATA[1])
    datasets = objects_of(datasets if isinstance(datasets, list) else [datasets])
    cases = [objects_of(dataset.get("eval_cases")) for dataset in datasets]
    if not isinstance(results, list) or not any(cases):
        return None
    of_first = next(filter(None, cases))
    return [{**_case(of_first, result), **result} for result in objects_of(results)]


def _case(cases: list[Mapping[str, Any]], result: Mapping[str, Any]) -> Mapping[str, Any]:
    index = result.get("eval_case_index", 0)
    return cases[index] if isinstance(index, int) and 0 <= index < len(cases) else {}


def read_case(row: Cells) -> Mapping[str, Any]:
    """The fields of a case and its result."""
    candidates = objects_of(row.get("response_candidate_results"))
    responses = objects_of(row.get("responses"))
    answer: Any = _answer(responses[0]) if responses else None
    if len(candidates) > 1 or len(responses) > 1:
        count, column = max(len(candidates), len(responses)), "responses[0].response"
        answer = Ambiguity(f"{count} candidates; choose one: {mapped_column('output', column)}")
    metrics = object_of(candidates[0].get("metric_results")) if candidates else {}
    return {
        "item": row.get("eval_case_id"),
        "input": row.get("prompt"),
        "output": answer,
        "expected": _answer(row.get("reference")),
        "scores": {name: _score(object_of(result)) for name, result in metrics.items()},
    }


def _answer(candidate: Any) -> Any:
    """The content of a candidate, which may leave out that it is the model's."""
    content = object_of(candidate).get("response", candidate)
    return {**content, "role": "model"} if "parts" in object_of(content) else content


def _score(result: Mapping[str, Any]) -> Any:
    error = result.get("error_message")
    return EvaluatorFailure(str(error)) if error else result.get("score")


USED: Final = (
    "eval_case_index", "response_candidate_results", "responses", "prompt", "reference", "system_instruction",
    "conversation_history", "rubric_groups", "intermediate_events", "agent_info", "eval_case_id",
)  # fmt: skip
register_document(
    "vertex-evaluation",
    "evaluation of Vertex AI",
    find_cases,
    ToolTable(compute=read_case, used=USED),
)
