"""Calls of evaluations of Weave (`Evaluation.predict_and_score`), as JSON and JSON Lines.

An item is the example of a call; a call without an output failed. The latency is in seconds. Source: weave 0.54.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from mosaico.traces.files.imported_values import object_of
from mosaico.traces.files.tool_cells import choose_member
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool


def recognizes_weave(row: Cells) -> bool:
    """Return whether a row is a call that predicted and scored."""
    output = object_of(row.get("output"))
    return "example" in object_of(row.get("inputs")) and "scores" in output


def read_row(row: Cells) -> Mapping[str, Any]:
    """The fields of a call. An example that is a reference is the item itself."""
    example, output = object_of(row.get("inputs")).get("example"), object_of(row.get("output"))
    members = object_of(example)
    expected = {
        name: members[name] for name in ("expected", "target", "ground_truth") if name in members
    }
    questions = {name: value for name, value in members.items() if name not in {*expected, "id"}}
    usage = [object_of(of_model) for of_model in _usage(row)]
    return {
        "traceId": row.get("id"),
        "item": members.get("id") if members else example,
        "input": choose_member(questions, "input", "inputs.example."),
        "output": output.get("model_output", output.get("output")),
        "expected": choose_member(expected, "expected", "inputs.example.") or members.get("answer"),
        "error": row.get("exception"),
        "latencySeconds": output.get("model_latency"),
        "inputTokens": _sum(usage, "prompt_tokens", "input_tokens"),
        "outputTokens": _sum(usage, "completion_tokens", "output_tokens"),
        "scores": dict(_scores(output)),
    }


def _usage(row: Cells) -> list[Any]:
    return [*object_of(object_of(row.get("summary")).get("usage")).values()]


def _sum(usage: list[Mapping[str, Any]], *names: str) -> float | None:
    counts = [model[name] for model in usage for name in names if isinstance(model.get(name), int)]
    return sum(counts) if counts else None


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
