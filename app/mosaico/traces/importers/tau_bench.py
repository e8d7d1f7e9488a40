"""Results of tau-bench: simulated conversations with a reward, by task and trial.

An exception is written as a reward of 0: it is an error, whose text says whose. Source: tau-bench `run.py`.
"""

from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.cell_values import as_number
from mosaico.traces.files.imported_values import count_of, object_of
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool

TAU: Final = frozenset({"task_id", "reward", "traj"})


def read_tau(row: Cells) -> Mapping[str, Any]:
    """The fields of a conversation of tau-bench."""
    info = object_of(row.get("info"))
    error = info.get("traceback") or info.get("error")
    return {
        "trial": count_of(row.get("trial")),
        "input": row.get("traj"),
        "output": row.get("traj") or None,
        "error": error,
        "scores": rewards_of(row.get("reward"), {}),
    }


def rewards_of(reward: Any, breakdown: Mapping[str, Any]) -> dict[str, Any]:
    """The reward: a task is passed at 1, as the tools count it."""
    number = as_number(reward)
    if number is None:
        return {}
    parts = {f"reward.{name}": part for name, part in breakdown.items()}
    is_share = 0.0 <= number <= 1.0
    return {
        "TASK_PASSED": float(number >= 1.0),
        "TASK_SCORE" if is_share else "reward": number,
        **parts,
    }


register_tool(
    "tau-bench",
    "results of tau-bench",
    lambda row: row.keys() >= TAU,
    ToolTable(
        columns={"item": "task_id"}, compute=read_tau, used=("trial", "reward", "info", "traj")
    ),
)
