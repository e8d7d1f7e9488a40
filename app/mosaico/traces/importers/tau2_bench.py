"""Results of tau2-bench: simulated conversations with a reward and what ended them.

A simulation that the infrastructure or the simulated user ended is missing, as in its own metrics. The cost and the model of the
simulated user are not the agent's. Source: tau2-bench `data_model/simulation.py`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mosaico.traces.files.imported_values import count_of, object_of, objects_of
from mosaico.traces.files.tool_cells import usage_of
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_document
from mosaico.traces.importers.tau_bench import rewards_of
from mosaico.traces.types import TraceOutcome

TAU2: Final = frozenset({"simulations", "tasks", "info"})
SIMULATION: Final = (
    "id", "trial", "model", "timestamp", "start_time", "end_time", "duration", "termination_reason", "agent_cost",
    "user_cost", "seed", "mode", "reward_info", "messages", "info", "policy", "ticks", "review",
)  # fmt: skip
NOT_OF_THE_AGENT: Final = frozenset({"infrastructure_error", "user_error"})


def find_simulations(document: Mapping[str, Any]) -> Iterable[Cells] | None:
    """The simulations of a document, each with the model of the agent."""
    if not document.keys() >= TAU2:
        return None
    agent = object_of(object_of(document.get("info")).get("agent_info"))
    return [{**s, "model": agent.get("llm")} for s in objects_of(document.get("simulations"))]


def read_simulation(row: Cells) -> Mapping[str, Any]:
    """The fields of a simulation."""
    reason, reward = str(row.get("termination_reason")), object_of(row.get("reward_info"))
    messages = objects_of(row.get("messages"))
    usage = [m.get("usage") for m in messages if m.get("role") == "assistant"]
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
        **usage_of(*usage),
        "model": row["model"],
        "scores": {}
        if is_missing
        else rewards_of(reward.get("reward"), object_of(reward.get("reward_breakdown"))),
    }


register_document(
    "tau2-bench",
    "results of tau2-bench",
    find_simulations,
    ToolTable(columns={"item": "task_id"}, compute=read_simulation, used=SIMULATION),
)
