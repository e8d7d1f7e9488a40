"""Calls of evaluations of Weave (`Evaluation.predict_and_score`), as JSON and JSON Lines.

An item is the example of a call; a call without an output failed. The latency is in seconds. Source: weave 0.54.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from mosaico.traces.files.imported_values import object_of
from mosaico.traces.files.tool_cells import fields_of_example, usage_of
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool


def recognizes_weave(row: Cells) -> bool:
    """Return whether a row is a call that predicted and scored."""
    output = object_of(row.get("output"))
    return "example" in object_of(row.get("inputs")) and "scores" in output


def read_row(row: Cells) -> Mapping[str, Any]:
    """The fields of a call. An example that is a reference is the item itself."""
    example, output = object_of(row.get("inputs")).get("example"), object_of(row.get("output"))
    members = object_of(example)
    usage = object_of(object_of(row.get("summary")).get("usage")).values()
    return {
        "traceId": row.get("id"),
        **(fields_of_example(members, "inputs.example.") if members else {"item": example}),
        "output": output.get("model_output", output.get("output")),
        "error": row.get("exception"),
        "latencySeconds": output.get("model_latency"),
        **usage_of(*usage),
        "scores": dict(_scores(output)),
    }


def _scores(output: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The scores by name; those of a scorer with several values are named `scorer.key`."""
    for scorer, value in object_of(output.get("scores")).items():
        if not isinstance(value, Mapping):
            yield scorer, value
        for key, member in object_of(value).items():
            if isinstance(member, bool | int | float):
                yield f"{scorer}.{key}", member


register_tool(
    "weave",
    "evaluation of Weave",
    recognizes_weave,
    ToolTable(
        compute=read_row,
        used=(
            "id", "inputs", "output", "exception", "summary", "op_name", "trace_id", "parent_id", "started_at",
            "ended_at", "attributes", "project_id", "display_name", "wb_user_id", "wb_run_id",
        ),
    ),
)  # fmt: skip
