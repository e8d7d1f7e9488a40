"""Results of Vertex AI: evaluations of its client (`eval_case_results` with their `evaluation_dataset`), and predictions, in
one document or a line for each.

A metric with an error message has no score. Of several candidates one is chosen with `--map`. Rubrics score from 0 to 1, higher is
better. Sources: google-cloud-aiplatform `_genai/types`, the batch predictions of Vertex AI and of the Gemini API.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mosaico.core.parameter_names import mapped_column
from mosaico.traces.files.cell_values import as_number
from mosaico.traces.files.imported_values import object_of, objects_of
from mosaico.traces.files.tool_cells import (
    Ambiguity,
    EvaluatorFailure,
    choose_member,
    usage_of,
)
from mosaico.traces.files.tool_tables import (
    Cells,
    ToolTable,
    register_document,
    register_tool,
)

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
    answer: Any = responses[0].get("response", responses[0]) if responses else None
    if len(candidates) > 1 or len(responses) > 1:
        count, column = max(len(candidates), len(responses)), "responses[0].response"
        answer = Ambiguity(f"{count} candidates; choose one: {mapped_column('output', column)}")
    metrics = object_of(candidates[0].get("metric_results")) if candidates else {}
    return {
        "item": row.get("eval_case_id"),
        "input": row.get("prompt"),
        "output": answer,
        "expected": object_of(row.get("reference")).get("response", row.get("reference")),
        "scores": {name: _score(object_of(result)) for name, result in metrics.items()},
    }


def _score(result: Mapping[str, Any]) -> Any:
    error = result.get("error_message")
    return EvaluatorFailure(str(error)) if error else result.get("score")


def find_predictions(document: Mapping[str, Any]) -> Iterable[Cells] | None:
    """The pairs of an instance and its prediction in a document."""
    instances, predictions = document.get("instances"), document.get("predictions")
    if not (isinstance(instances, list) and isinstance(predictions, list)):
        return None
    if len(instances) != len(predictions):
        return None
    pairs = zip(instances, predictions, strict=True)
    return [{"instance": instance, "prediction": prediction} for instance, prediction in pairs]


def read_prediction(row: Cells) -> Mapping[str, Any]:
    """The fields of a prediction: of a model, or of Gemini with the request."""
    response, request = object_of(row.get("response")), object_of(row.get("request"))
    instance, prediction = row.get("instance"), row.get("prediction")
    error = row.get("error") or row.get("status")
    return {
        "item": row.get("key") or object_of(instance).get("id"),
        "input": request.get("contents") or _text(instance, "input"),
        "output": response or _text(prediction, "output"),
        "expected": object_of(instance).get("reference"),
        "error": None if response or error in ("", "OK") else error,
        "model": response.get("modelVersion"),
        "scores": {n: v for n, v in object_of(prediction).items() if as_number(v) is not None},
        **usage_of(
            {
                "input": object_of(response.get("usageMetadata")).get("promptTokenCount"),
                "output": object_of(response.get("usageMetadata")).get("candidatesTokenCount"),
            }
        ),
    }


def _text(value: Any, name: str) -> Any:
    return choose_member(value, name) if isinstance(value, dict) and value else value


def recognizes_prediction(row: Cells) -> bool:
    """Return whether a row is a line of a batch prediction."""
    is_gemini = "candidates" in object_of(row.get("response")) and (
        "contents" in object_of(row.get("request")) or "key" in row
    )
    return is_gemini or {"instance", "prediction"} <= row.keys()


CASE_USED: Final = (
    "eval_case_index", "response_candidate_results", "responses", "prompt", "reference", "system_instruction",
    "conversation_history", "rubric_groups", "intermediate_events", "agent_info", "eval_case_id",
)  # fmt: skip
PREDICTION_USED: Final = (
    "key", "instance", "prediction", "request", "response", "status", "error", "processed_time",
)  # fmt: skip

register_document(
    "vertex-evaluation",
    "evaluation of Vertex AI",
    find_cases,
    ToolTable(compute=read_case, used=CASE_USED),
)
PREDICTIONS: Final = ToolTable(compute=read_prediction, used=PREDICTION_USED)
register_document("vertex-document", "predictions of Vertex AI", find_predictions, PREDICTIONS)
register_tool("vertex", "predictions of Vertex AI", recognizes_prediction, PREDICTIONS)
