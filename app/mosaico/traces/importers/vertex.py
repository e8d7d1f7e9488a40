"""Predictions of Vertex AI and of batches of Gemini: in one document, or a line for each.

Sources: the batch predictions of Vertex AI and of the Gemini API.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mosaico.traces.files.imported_values import object_of
from mosaico.traces.files.tool_cells import choose_member
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_document, register_tool


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
    error, usage = row.get("error") or row.get("status"), object_of(response.get("usageMetadata"))
    return {
        "item": row.get("key") or object_of(instance).get("id"),
        "input": request.get("contents") or _text(instance, "input"),
        "output": response or _text(prediction, "output"),
        "expected": object_of(instance).get("reference"),
        "error": None if response or error in ("", "OK") else error,
        "model": response.get("modelVersion"),
        "inputTokens": usage.get("promptTokenCount"),
        "outputTokens": usage.get("candidatesTokenCount"),
    }


def _text(value: Any, name: str) -> Any:
    return choose_member(value, name) if isinstance(value, dict) and value else value


def recognizes_prediction(row: Cells) -> bool:
    """Return whether a row is a line of a batch prediction."""
    is_gemini = "candidates" in object_of(row.get("response")) and (
        "contents" in object_of(row.get("request")) or "key" in row
    )
    return is_gemini or {"instance", "prediction"} <= row.keys()


PREDICTION_USED: Final = (
    "key", "instance", "prediction", "request", "response", "status", "error", "processed_time",
)  # fmt: skip

PREDICTIONS: Final = ToolTable(compute=read_prediction, used=PREDICTION_USED)
register_document(
    "vertex-document",
    "predictions of Vertex AI",
    find_predictions,
    PREDICTIONS,
    members=("instances", "predictions", "parameters", "deployedModelId", "model*", "metadata"),
)
register_tool("vertex", "predictions of Vertex AI", recognizes_prediction, PREDICTIONS)
