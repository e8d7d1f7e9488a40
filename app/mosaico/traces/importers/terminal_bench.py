"""Results of Terminal-Bench (`results.json`, of a run or of a trial).

Whether the tests pass decides, also after a time-out of the agent. A trial whose tests themselves failed is missing. Source: the
results of its public board.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.tool_cells import seconds_between
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool
from mosaico.traces.types import TraceOutcome

TRIAL: Final = re.compile(r"\.(\d+)-of-\d+\.")
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
            "id", "trial_name", "is_resolved", "failure_mode", "parser_results", "instruction", "recording_path",
            "trial_*", "agent_*", "test_*",
        ),
    ),
)  # fmt: skip
