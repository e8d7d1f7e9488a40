"""Experiments of Phoenix, as JSON and as CSV: rows by example and repetition, with the scores of annotations.

Annotations that failed have no score. The repetitions count from 1. Source: the export of arize-phoenix 12.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mosaico.traces.files.cell_values import as_number, is_blank
from mosaico.traces.files.imported_values import object_of
from mosaico.traces.files.tool_cells import (
    EvaluatorFailure,
    choose_member,
    members_of,
    named_scores,
)
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool
from mosaico.traces.value_text import parse_encoded

ANNOTATION: Final = re.compile(r"annotation_(.+)_score")
KEYS: Final = frozenset({"example_id", "repetition_number", "reference_output"})
COLUMNS: Final = {
    "traceId": "trace_id",
    "item": "example_id",
    "error": "error",
    "latencyMs": "latency_ms",
    "inputTokens": "prompt_token_count",
    "outputTokens": "completion_token_count",
}


def read_row(row: Cells) -> Mapping[str, Any]:
    """The fields of a run of an example."""
    repetition = as_number(row.get("repetition_number"))
    metadata = object_of(parse_encoded(row.get("metadata")))
    return {
        "trial": None if repetition is None else max(0, int(repetition) - 1),
        "input": _text(row, "input", "input"),
        "output": _text(row, "output", "output"),
        "expected": _text(row, "reference_output", "expected"),
        "category": metadata.get("category") or metadata.get("topic"),
        "scores": dict(_annotations(row)),
    }


def _text(row: Cells, column: str, name: str) -> Any:
    cell = parse_encoded(row.get(column))
    return choose_member(members_of({column: cell}, column), name, f"{column}.") if cell else cell


def _annotations(row: Cells) -> Iterator[tuple[str, Any]]:
    yield from named_scores(row.get("annotations"), values=("score", "label")).items()
    for column, cell in row.items():
        match = ANNOTATION.fullmatch(column)
        if match is not None:
            error = row.get(f"annotation_{match[1]}_error")
            yield match[1], cell if is_blank(error) else EvaluatorFailure(str(error))


register_tool(
    "phoenix",
    "experiment of Phoenix",
    lambda row: row.keys() >= KEYS,
    ToolTable(
        columns=COLUMNS,
        compute=read_row,
        used=(
            "repetition_number", "input", "output", "reference_output", "metadata", "annotations",
            "annotation_*", "start_time", "end_time",
        ),
    ),
)  # fmt: skip
