"""Exports of the pages of Langfuse: traces, and observations, as JSON, JSON Lines and CSV.

Each score of a trace is a column of its own, which holds a list of its values: the mean is used. The latency of traces is in
seconds. Source: the exports of Langfuse 3.
"""

from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.imported_values import object_of, objects_of
from mosaico.traces.files.tool_cells import mean_of, sum_of
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool
from mosaico.traces.value_text import parse_encoded

KEYS: Final = frozenset({"id", "timestamp", "input", "output", "environment"})
OBSERVATION_KEYS: Final = frozenset({"id", "traceId", "input", "output", "level"})
# The columns that are no scores.
COLUMNS: Final = frozenset(
    {
        *(*KEYS, *OBSERVATION_KEYS, "name", "sessionId", "userId", "release", "version", "tags", "metadata"),
        *("bookmarked", "public", "comments", "latency", "inputCost", "outputCost", "totalCost", "scores"),
        *("inputTokens", "outputTokens", "totalTokens", "errorCount", "warningCount", "defaultCount"),
        *("debugCount", "observationCount", "latencyMs", "usageDetails", "costDetails", "promptName"),
        *("promptVersion", "promptId", "providedModelName", "model", "statusMessage", "type", "startTime"),
        *("endTime", "completionStartTime", "timeToFirstToken", "observations", "htmlPath", "projectId"),
        *("createdAt", "updatedAt", "externalId", "datasetItemId", "usage", "modelParameters"),
    }
)  # fmt: skip


def recognizes_langfuse(row: Cells) -> bool:
    """Return whether a row is a trace or an observation."""
    return row.keys() >= KEYS or row.keys() >= OBSERVATION_KEYS


def read_row(row: Cells) -> Mapping[str, Any]:
    """The fields of a trace or an observation."""
    usage, cost = object_of(parse_encoded(row.get("usageDetails"))), row.get("totalCost")
    if cost is None:
        cost = sum_of(object_of(parse_encoded(row.get("costDetails"))).get("total"))
    return {
        "error": (row.get("statusMessage") or "ERROR") if row.get("level") == "ERROR" else None,
        "latencySeconds": row.get("latency"),
        "latencyMs": row.get("latencyMs"),
        "cost": cost,
        "inputTokens": row.get("inputTokens", usage.get("input")),
        "outputTokens": row.get("outputTokens", usage.get("output")),
        "model": row.get("providedModelName") or row.get("model"),
        "tags": row.get("tags"),
        "scores": _scores(row),
    }


def _scores(row: Cells) -> dict[str, float]:
    """The means of the scores by name, without those of texts."""
    listed = objects_of(row.get("scores"))
    values: dict[str, list[Any]] = {}
    for score in listed:
        values.setdefault(str(score.get("name")), []).append(score.get("value"))
    for name, cell in row.items():
        parsed = parse_encoded(cell)
        if name not in COLUMNS and isinstance(parsed, list):
            values[name] = parsed
    means = {name: mean_of(listed) for name, listed in values.items()}
    return {name: mean for name, mean in means.items() if mean is not None}


def skip_row(row: Cells) -> str | None:
    """Why a trace is no result: it has no texts."""
    has_text = any(row.get(name) not in (None, "", "null") for name in ("input", "output"))
    return None if has_text else "traces without an input and an output are skipped"


register_tool(
    "langfuse-export",
    "export of Langfuse",
    recognizes_langfuse,
    ToolTable(
        columns={"traceId": "id", "item": "datasetItemId", "input": "input", "output": "output"},
        compute=read_row,
        used=COLUMNS,
        skip=skip_row,
    ),
)
