"""Results of LangSmith: tables of an experiment (CSV, JSON, JSON Lines), rows of its Python and JavaScript packages, and
exports of runs.

The ID of a row is that of its run: items are the examples, and without them the questions. Of exported runs only the roots
are results. Source: langsmith 0.15 (`to_pandas`, `get_test_results`, `evaluate`).
"""

from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.imported_values import object_of
from mosaico.traces.files.tool_cells import (
    choose_member,
    members_of,
    named_scores,
    seconds_of,
    usage_of,
)
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool

EXPECTED: Final = ("reference", "reference_outputs", "referenceOutputs")
USED: Final = (
    "inputs", "input", "outputs", "inputs.*", "input.*", "outputs.*", "reference.*", "feedback.*",
    *EXPECTED, "feedback", "feedback_stats", "evaluation_results", "evaluationResults", "run", "example",
    "example_id", "reference_example_id", "id", "error", "execution_time", "start_time", "end_time",
    "name", "status", "prompt_tokens", "completion_tokens", "total_cost", "total_tokens", "parent_run_id", "run_type",
)  # fmt: skip


def recognizes_langsmith(row: Cells) -> bool:
    """Return whether a row is one of an experiment or an exported run."""
    if {"run", "example"} <= row.keys() and "outputs" in object_of(row["run"]):
        return True
    has_members = any(name.startswith("outputs.") for name in row)
    has_feedback = any(name.startswith("feedback.") for name in row)
    if has_members and ("execution_time" in row or has_feedback):
        return True
    is_run = not {"feedback", "reference_outputs", "feedback_stats", "parent_run_id"}.isdisjoint(
        row
    )
    return is_run and {"inputs", "outputs"} <= row.keys()


def read_row(row: Cells) -> Mapping[str, Any]:
    """The fields of a row; those of a row of the packages are inside of its run and its example."""
    run, example = object_of(row.get("run")), object_of(row.get("example"))
    cells = {**row, **run}
    inputs = members_of(cells, "inputs", "input") or members_of(example, "inputs")
    expected = members_of(row, *EXPECTED) or members_of(example, "outputs")
    example_id = cells.get("example_id") or cells.get("reference_example_id") or example.get("id")
    return {
        "traceId": cells.get("id"),
        "item": example_id,
        "input": choose_member(inputs, "input", "inputs."),
        "output": choose_member(members_of(cells, "outputs"), "output", "outputs."),
        "expected": choose_member(expected, "expected", "reference."),
        "error": cells.get("error") or ("status error" if cells.get("status") == "error" else None),
        "latencySeconds": seconds_of(cells, "execution_time", "start_time", "end_time"),
        **usage_of(cells),
        "cost": cells.get("total_cost"),
        "scores": _feedback(cells),
    }


def _feedback(cells: Cells) -> dict[str, Any]:
    """The feedback by key: columns, an object, means of several, or results of evaluators."""
    evaluation = object_of(cells.get("evaluation_results") or cells.get("evaluationResults"))
    results = named_scores(evaluation.get("results"), "key")
    means = {key: object_of(v).get("avg") for key, v in members_of(cells, "feedback_stats").items()}
    return {**means, **members_of(cells, "feedback"), **results}


def skip_child(row: Cells) -> str | None:
    """Why a run is no result: it is a step of another one."""
    is_child = bool(row.get("parent_run_id") or object_of(row.get("run")).get("parent_run_id"))
    return "runs inside of another run are skipped" if is_child else None


register_tool(
    "langsmith",
    "results of LangSmith",
    recognizes_langsmith,
    ToolTable(compute=read_row, used=USED, skip=skip_child),
)
