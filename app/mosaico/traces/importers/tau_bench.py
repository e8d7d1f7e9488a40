"""Results of tau-bench and tau2-bench: simulated conversations with a reward, by task and trial.

tau-bench writes an exception as a reward of 0: it is an error, whose text says whose. tau2-bench names what ended a simulation;
one that the infrastructure or the simulated user ended is missing, as in its own metrics. The cost and the model of the simulated
user are not the agent's. Sources: tau-bench `run.py`, tau2-bench `data_model/simulation.py`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mosaico.traces.files.cell_values import as_number
from mosaico.traces.files.import_file import Container, ImportFile, TableRow
from mosaico.traces.files.imported_values import count_of, object_of, objects_of
from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from mosaico.traces.files.tool_tables import Cells, ToolTable, read_tool_table, register_tool
from mosaico.traces.types import TraceOutcome

TAU: Final = frozenset({"task_id", "reward", "traj"})
TAU2: Final = frozenset({"simulations", "tasks", "info"})
SIMULATION: Final = (
    "id", "trial", "model", "timestamp", "start_time", "end_time", "duration", "termination_reason", "agent_cost",
    "user_cost", "seed", "mode", "reward_info", "messages", "info", "policy", "ticks", "review",
)  # fmt: skip
NOT_OF_THE_AGENT: Final = frozenset({"infrastructure_error", "user_error"})


def read_tau(row: Cells) -> Mapping[str, Any]:
    """The fields of a conversation of tau-bench."""
    info = object_of(row.get("info"))
    error = info.get("traceback") or info.get("error")
    return {
        "trial": count_of(row.get("trial")),
        "input": row.get("traj"),
        "output": row.get("traj"),
        "error": error,
        "scores": _rewards(row.get("reward"), {}),
    }


def _rewards(reward: Any, breakdown: Mapping[str, Any]) -> dict[str, Any]:
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


def recognizes_tau2(file: ImportFile) -> bool:
    """Return whether a document holds simulations and their tasks."""
    return file.container is Container.JSON and object_of(file.document).keys() >= TAU2


def read_tau2(file: ImportFile, mapping: Mapping[str, str]) -> ImportedTraces:
    """The traces of a document of tau2-bench, one for each simulation."""
    table = ToolTable(columns={"item": "task_id"}, compute=read_simulation, used=SIMULATION)
    return read_tool_table(file, mapping, table, _simulations(file))


def _simulations(file: ImportFile) -> Iterator[TableRow]:
    document = object_of(file.document)
    agent = object_of(object_of(document.get("info")).get("agent_info"))
    for number, simulation in enumerate(objects_of(document.get("simulations")), start=1):
        yield TableRow(f"simulation {number}", {**simulation, "model": agent.get("llm")})


def read_simulation(row: Cells) -> Mapping[str, Any]:
    """The fields of a simulation."""
    reason, reward = str(row.get("termination_reason")), object_of(row.get("reward_info"))
    messages = objects_of(row.get("messages"))
    usage = [object_of(m.get("usage")) for m in messages if m.get("role") == "assistant"]
    is_missing = reason in NOT_OF_THE_AGENT
    return {
        "trial": count_of(row.get("trial")),
        "input": next((m.get("content") for m in messages if m.get("role") == "user"), None),
        # The simulated user calls tools of its own.
        "output": None if is_missing else [m for m in messages if m.get("role") != "user"],
        "error": f"the simulation ended with {reason}" if is_missing else None,
        "outcome": TraceOutcome.INFRA_ERROR if is_missing else None,
        "cost": row.get("agent_cost"),
        "latencySeconds": row.get("duration"),
        "inputTokens": _sum(usage, "prompt_tokens"),
        "outputTokens": _sum(usage, "completion_tokens"),
        "model": row["model"],
        "scores": {}
        if is_missing
        else _rewards(reward.get("reward"), object_of(reward.get("reward_breakdown"))),
    }


def _sum(usage: list[Mapping[str, Any]], name: str) -> int | None:
    counts = [
        count for of_message in usage if (count := count_of(of_message.get(name))) is not None
    ]
    return sum(counts) if counts else None


register_tool(
    "tau-bench",
    "results of tau-bench",
    lambda row: row.keys() >= TAU,
    ToolTable(
        columns={"item": "task_id"}, compute=read_tau, used=("trial", "reward", "info", "traj")
    ),
)
IMPORTERS.register(
    "tau2-bench",
    Importer(summary="results of tau2-bench", recognizes=recognizes_tau2, read=read_tau2),
)
