"""Runs of AgentBench (`runs.jsonl`): one task by index, with how it ended.

A task that ended with an error of its environment is missing; the other ends without an answer are the agent's. The indexes
are those of the data. Source: AgentBench `src/typings/status.py`.
"""

from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.imported_values import object_of
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool
from mosaico.traces.types import TraceOutcome

STATUSES: Final = frozenset(
    {"running", "completed", "agent context limit", "agent validation failed", "agent invalid action",
     "task limit reached", "unknown", "task error"}
)  # fmt: skip
ENDED_BY_ITSELF: Final = frozenset({"completed", "task limit reached"})


def recognizes_agentbench(row: Cells) -> bool:
    """Return whether a row is a task with one of the ends of AgentBench."""
    output = object_of(row.get("output"))
    return "index" in row and "history" in output and str(output.get("status")) in STATUSES


def read_run(row: Cells) -> Mapping[str, Any]:
    """The fields of a task. Its result is what the task itself measured."""
    output = object_of(row.get("output"))
    status, result = str(output.get("status")), output.get("result")
    error = row.get("error") or (None if status in ENDED_BY_ITSELF else f"status: {status}")
    members = object_of(result)
    scores = {
        name: value for name, value in members.items() if isinstance(value, bool | int | float)
    }
    passed = [
        scores.pop(name)
        for name in ("is_correct", "success", "correct", "passed")
        if name in scores
    ]
    return {
        "input": output.get("history") or None,
        "output": output.get("history") or "",
        "error": error,
        "outcome": TraceOutcome.INFRA_ERROR if status == "task error" else None,
        "passed": passed[0] if passed else None,
        "scores": scores,
    }


register_tool(
    "agentbench",
    "runs of AgentBench",
    recognizes_agentbench,
    ToolTable(
        columns={"item": "index"}, compute=read_run, used=("output", "error", "info", "time")
    ),
)
