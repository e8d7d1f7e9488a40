"""Trials of Harbor, the successor of Terminal-Bench (`result.json`).

A reward decides, also after an exception. Without one, the class of the exception says whose fault it is. Source: the results of
Harbor in public repositories.
"""

from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.cell_values import as_number
from mosaico.traces.files.imported_values import object_of
from mosaico.traces.files.tool_cells import seconds_between
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool
from mosaico.traces.types import TraceOutcome

# The first words of classes of exceptions.
OF_THE_VERIFIER: Final = ("Verifier", "Reward")
OF_THE_ENVIRONMENT: Final = ("Environment", "Sandbox", "Docker")


def read_harbor(row: Cells) -> Mapping[str, Any]:
    """The fields of a trial."""
    rewards = object_of(object_of(row.get("verifier_result")).get("rewards"))
    reward, usage = as_number(rewards.get("reward")), object_of(row.get("agent_result"))
    exception = object_of(row.get("exception_info"))
    kind, message = exception.get("exception_type"), exception.get("exception_message")
    model = object_of(object_of(row.get("agent_info")).get("model_info"))
    return {
        "item": row.get("task_name"),
        "passed": None if reward is None else float(reward >= 1.0),
        "score": reward,
        "error": f"{kind}: {message}" if exception and reward is None else None,
        "outcome": _outcome_of_exception(str(kind)) if exception and reward is None else None,
        "inputTokens": usage.get("n_input_tokens"),
        "outputTokens": usage.get("n_output_tokens"),
        "cost": usage.get("cost_usd"),
        "latencySeconds": seconds_between(row.get("started_at"), row.get("finished_at")),
        "model": model.get("name"),
        "scores": {f"reward.{name}": value for name, value in rewards.items() if name != "reward"},
    }


def _outcome_of_exception(kind: str) -> TraceOutcome | None:
    """The outcome by the class of an exception; None for a class of the agent, whose message decides."""
    if kind.startswith(OF_THE_VERIFIER):
        return TraceOutcome.JUDGE_ERROR
    if kind.startswith(OF_THE_ENVIRONMENT):
        return TraceOutcome.INFRA_ERROR
    return TraceOutcome.TIMEOUT if kind.startswith("AgentTimeout") else None


register_tool(
    "harbor",
    "trials of Harbor",
    lambda row: {"task_name", "trial_name", "verifier_result"} <= row.keys(),
    ToolTable(
        compute=read_harbor,
        used=(
            "id", "task_name", "trial_name", "trial_uri", "task_id", "source", "task_checksum", "config", "agent_info",
            "agent_result", "verifier_result", "exception_info", "started_at", "finished_at", "environment_setup",
            "agent_setup", "agent_execution", "verifier", "step_results",
        ),
    ),
)  # fmt: skip
