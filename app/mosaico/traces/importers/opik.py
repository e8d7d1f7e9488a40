"""Experiments of Opik (`experiment_….json`): results by item of the dataset, with feedback scores. Source: opik 2.2."""

from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.import_file import Container, ImportFile, TableRow
from mosaico.traces.files.imported_values import object_of, objects_of
from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from mosaico.traces.files.tool_cells import choose_member
from mosaico.traces.files.tool_tables import Cells, ToolTable, read_tool_table

EXPECTED: Final = ("expected_output", "expected", "reference", "expected_answer", "ground_truth")


def recognizes_opik(file: ImportFile) -> bool:
    """Return whether a document is an experiment with its items."""
    if file.container is not Container.JSON or "experiment" not in object_of(file.document):
        return False
    items = objects_of(object_of(file.document).get("items"))
    return bool(items) and "dataset_item_id" in items[0]


def read_opik(file: ImportFile, mapping: Mapping[str, str]) -> ImportedTraces:
    """The traces of an experiment, one for each result."""
    items = objects_of(object_of(file.document).get("items"))
    rows = (TableRow(f"item {number}", item) for number, item in enumerate(items, start=1))
    table = ToolTable(
        columns={"traceId": "trace_id", "item": "dataset_item_id"},
        compute=read_item,
        used=(
            "dataset_item_data",
            "evaluation_task_output",
            "feedback_scores",
            "experiment_id",
            "id",
        ),
    )
    return read_tool_table(file, mapping, table, rows)


def read_item(row: Cells) -> Mapping[str, Any]:
    """The fields of a result."""
    data = object_of(row.get("dataset_item_data"))
    expected = {name: data[name] for name in EXPECTED if name in data}
    others = {name: value for name, value in data.items() if name not in (*expected, "id")}
    answer = object_of(row.get("evaluation_task_output"))
    return {
        "input": choose_member(others, "input", "dataset_item_data."),
        "output": choose_member(answer, "output", "evaluation_task_output."),
        "expected": choose_member(expected, "expected", "dataset_item_data."),
        "scores": {
            str(s.get("name")): s.get("value") for s in objects_of(row.get("feedback_scores"))
        },
    }


IMPORTERS.register(
    "opik", Importer(summary="experiment of Opik", recognizes=recognizes_opik, read=read_opik)
)
