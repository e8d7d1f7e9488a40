"""Results of the Berkeley Function-Calling Leaderboard (BFCL): `…_result.json`, which are JSON Lines.

The answer of a model is a text, a list of calls, or calls by turn and step, whose tokens and seconds are lists of the same shape:
they are summed. Scores are in files of their own, which list failures only. Source: bfcl_eval 4.
"""

from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.tool_cells import sum_of
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool

KEYS: Final = frozenset({"id", "result", "input_token_count", "output_token_count"})
FAILED: Final = "Error during inference:"


def read_row(row: Cells) -> Mapping[str, Any]:
    """The fields of a result. A list of calls is compared as it is: its JSON text."""
    result = row.get("result")
    is_failed = isinstance(result, str) and result.startswith(FAILED)
    return {
        "output": None if is_failed else result,
        "error": str(result).removeprefix(FAILED).strip() if is_failed else None,
        "inputTokens": sum_of(row.get("input_token_count")),
        "outputTokens": sum_of(row.get("output_token_count")),
        "latencySeconds": sum_of(row.get("latency")),
    }


register_tool(
    "bfcl",
    "results of BFCL",
    lambda row: row.keys() >= KEYS,
    ToolTable(
        columns={"item": "id"},
        compute=read_row,
        used=(
            "result", "input_token_count", "output_token_count", "latency", "inference_log", "traceback",
            "reasoning_content",
        ),
    ),
)  # fmt: skip
