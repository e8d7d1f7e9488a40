"""Records of TruLens (`get_records_and_feedback()`): a column for each feedback, and one of its calls.

The ID of a record is that of a run: items are paired by their input. The latency is in seconds. Source: trulens 2.16.
"""

from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool

CALLS: Final = "_calls"
KEYS: Final = frozenset({"record_id", "input", "output"})


def read_record(row: Cells) -> Mapping[str, Any]:
    """The fields of a record."""
    feedback = {
        name.removesuffix(CALLS): row.get(name.removesuffix(CALLS))
        for name in row
        if name.endswith(CALLS)
    }
    return {"scores": feedback}


register_tool(
    "trulens",
    "records of TruLens",
    lambda row: row.keys() >= KEYS and not {"app_id", "app_name", "app_version"}.isdisjoint(row),
    ToolTable(
        columns={
            "traceId": "record_id",
            "input": "input",
            "output": "output",
            "latencySeconds": "latency",
            "cost": "total_cost",
        },
        compute=read_record,
        # Costs of the evaluation are not those of the agent.
        used=("app_*", "eval_cost", "total_tokens", "*_calls", "type", "tags", "ts", "record_json", "cost_json",
              "perf_json", "record_metadata", "events", "num_events", "cost_currency", "*cost_currency"),
    ),
)  # fmt: skip
