"""Experiments of Opik (`experiment_….json`): results by item of the dataset, with feedback scores. Source: opik 2.2."""

from collections.abc import Iterable, Mapping
from typing import Any

from mosaico.traces.files.imported_values import object_of, objects_of
from mosaico.traces.files.tool_cells import choose_member, fields_of_example, named_scores
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_document


def find_items(document: Mapping[str, Any]) -> Iterable[Cells] | None:
    """The results of an experiment."""
    items = objects_of(document.get("items")) if "experiment" in document else []
    return items if items and "dataset_item_id" in items[0] else None


def read_item(row: Cells) -> Mapping[str, Any]:
    """The fields of a result."""
    data = object_of(row.get("dataset_item_data"))
    answer = object_of(row.get("evaluation_task_output"))
    return {
        **fields_of_example(data, "dataset_item_data."),
        "item": row.get("dataset_item_id"),
        "output": choose_member(answer, "output", "evaluation_task_output."),
        "scores": named_scores(row.get("feedback_scores"), values=("value",)),
    }


register_document(
    "opik",
    "experiment of Opik",
    find_items,
    ToolTable(
        columns={"traceId": "trace_id"},
        compute=read_item,
        used=(
            "dataset_item_data",
            "evaluation_task_output",
            "dataset_item_id",
            "feedback_scores",
            "experiment_id",
            "id",
        ),
    ),
)
