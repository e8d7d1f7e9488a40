"""Experiments of Braintrust, as JSON, JSON Lines and CSV: rows with an object of scores.

The ID of a row is that of its run: items are paired by their input, as Braintrust does. Of spans only the roots are results. A
score of null was skipped. Source: braintrust 0.48 (`EvalResult`, exports of its pages).
"""

from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.imported_values import object_of
from mosaico.traces.files.tool_cells import choose_member, members_of, seconds_of, usage_of
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool
from mosaico.traces.value_text import parse_encoded

KEYS: Final = frozenset({"input", "output", "expected", "scores"})
MARKS: Final = frozenset({"span_id", "root_span_id", "is_root"})
COLUMNS: Final = {"output": "output", "expected": "expected", "error": "error", "tags": "tags"}


def recognizes_braintrust(row: Cells) -> bool:
    """Return whether a row is a span, or has the times of one."""
    times = object_of(parse_encoded(row.get("metrics"))).keys() & {"start", "end", "duration"}
    return row.keys() >= KEYS and (bool(times) or not MARKS.isdisjoint(row))


def read_row(row: Cells) -> Mapping[str, Any]:
    """The fields of a row; in CSV files objects are JSON texts."""
    metrics = object_of(parse_encoded(row.get("metrics")))
    metadata = object_of(parse_encoded(row.get("metadata")))
    return {
        "traceId": row.get("span_id") or row.get("id"),
        "input": choose_member(members_of(row, "input"), "input", "input."),
        "latencySeconds": seconds_of(metrics, "duration", "start", "end"),
        **usage_of(metrics),
        "cost": metrics.get("estimated_cost"),
        "category": metadata.get("category") or metadata.get("topic"),
        "model": metadata.get("model"),
        "scores": object_of(parse_encoded(row["scores"])) if "scores" in row else {},
    }


def skip_child(row: Cells) -> str | None:
    """Why a span is no result: it is a step of another one."""
    root, span = row.get("root_span_id"), row.get("span_id")
    is_child = row.get("is_root") in (False, "false", "False") or (root and span and root != span)
    return "spans inside of another span are skipped" if is_child else None


register_tool(
    "braintrust",
    "experiment of Braintrust",
    recognizes_braintrust,
    ToolTable(
        columns=COLUMNS,
        compute=read_row,
        used=(
            "id", "input", "scores", "metrics", "metadata", "span_id", "root_span_id", "is_root", "created",
            "span_parents", "span_attributes", "experiment_id", "project_id", "dataset_record_id", "_xact_id",
        ),
        skip=skip_child,
    ),
)  # fmt: skip
