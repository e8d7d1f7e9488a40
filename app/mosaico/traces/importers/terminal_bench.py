"""Results of Terminal-Bench (`results.json`, of a run or of a trial) and of its successor Harbor (`result.json`).

Whether the tests pass decides, also after a time-out of the agent. A trial whose tests themselves failed is missing. Sources: the
results of the public board of Terminal-Bench, and of Harbor.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.cell_values import as_number
from mosaico.traces.files.imported_values import object_of
from mosaico.traces.files.tool_cells import seconds_between
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool
from mosaico.traces.types import TraceOutcome

TRIAL: Final = re.compile(r"\.(\d+)-of-\d+\.")
# The first words of classes of exceptions of Harbor.
OF_THE_VERIFIER: Final = ("Verifier", "Reward")
OF_THE_ENVIRONMENT: Final = ("Environment", "Sandbox", "Docker")
OF_THE_TESTS: Final = frozenset({"parse_error", "test_timeout"})


def read_terminal_bench(row: Cells) -> Mapping[str, Any]:
    """The fields of a trial of Terminal-Bench."""
    trial = TRIAL.search(str(row.get("trial_name")))
    failure, is_resolved = str(row.get("failure_mode") or "unset"), row.get("is_resolved")
    return {
        "trial": None if trial is None else int(trial[1]) - 1,
        "passed": None if is_resolved is None else float(bool(is_resolved)),
        "error": None if is_resolved is not None else failure,
        "outcome": None if is_resolved is not None else _outcome(failure),
        "latencySeconds": seconds_between(row.get("trial_started_at"), row.get("trial_ended_at")),
    }


def _outcome(failure: str) -> TraceOutcome:
    if failure in OF_THE_TESTS:
        return TraceOutcome.JUDGE_ERROR
    return TraceOutcome.TIMEOUT if failure == "agent_timeout" else TraceOutcome.AGENT_ERROR


def read_harbor(row: Cells) -> Mapping[str, Any]:
    """The fields of a trial of Harbor."""
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
    """The outcome by the class of an exception of Harbor; None for a class of the agent, whose message decides."""
    if kind.startswith(OF_THE_VERIFIER):
        return TraceOutcome.JUDGE_ERROR
    if kind.startswith(OF_THE_ENVIRONMENT):
        return TraceOutcome.INFRA_ERROR
    return TraceOutcome.TIMEOUT if kind.startswith("AgentTimeout") else None


register_tool(
    "terminal-bench",
    "results of Terminal-Bench",
    lambda row: {"task_id", "is_resolved", "failure_mode"} <= row.keys(),
    ToolTable(
        columns={
            "item": "task_id",
            "inputTokens": "total_input_tokens",
            "outputTokens": "total_output_tokens",
        },
        compute=read_terminal_bench,
        used=(
            "id",
            "trial_name",
            "is_resolved",
            "failure_mode",
            "parser_results",
            "instruction",
            "recording_path",
            "trial_started_at",
            "trial_ended_at",
            "agent_started_at",
            "agent_ended_at",
            "test_started_at",
            "test_ended_at",
        ),
    ),
)
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
