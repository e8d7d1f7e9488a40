"""The tables of `mosaico runs`: the columns of runs, metrics, KPIs, trials, categories and alert rules."""

from mosaico.core.console.table import JSON, Column, field, format_cell, time_field
from mosaico.core.text import format_number


def format_traces(run: JSON) -> str:
    return f"{run['tracesProcessed']}/{format_cell(run['tracesTotal']) or '?'}"


def format_interval(measurement: JSON) -> str | None:
    low, high = measurement["intervalLow"], measurement["intervalHigh"]
    if low is None or high is None:
        return None
    return f"{format_number(low)} to {format_number(high)}"


def verdict_of(resource: JSON) -> str | None:
    return (resource["verdict"] or {}).get("verdict")


def trial_rows(metrics: list[JSON]) -> list[JSON]:
    """A row per metric and k; empty if no item of the run has more than one trial."""
    return [
        {"metric": metric["metric"], **statistics}
        for metric in metrics
        for statistics in (metric["verdict"] or {}).get("repeats", ())
    ]


CATEGORY_COLUMNS = (
    field("category"),
    field("items"),
    Column("name", lambda row: row.get("name") or row["metric"]),
    field("value"),
    Column("95 % CI", format_interval),
)
COLUMNS = (
    field("id"),
    field("status"),
    Column("verdict", verdict_of),
    field("benchmarkId", "benchmark"),
    field("agentId", "agent"),
    time_field("createdAt", "created"),
    field("validity"),
    field("runName", "run name"),
    Column(
        "dataset",
        lambda run: (
            f"{run['datasetName']} v{run['datasetVersion']}"
            if run["datasetVersion"] is not None
            else None
        ),
    ),
    Column("traces", format_traces),
    time_field("completedAt", "completed"),
)
METRIC_COLUMNS = (
    field("metric"),
    field("mean"),
    Column("95 % CI", format_interval),
    Column("verdict", verdict_of),
    *(field(name) for name in ("n", "std", "min", "max", "p50", "p95", "p99", "coverage")),
)
TRIAL_COLUMNS = (
    field("metric"),
    field("k"),
    field("passAtK", "pass@k"),
    field("passHatK", "pass^k"),
    field("atLeastK", "at least k"),
    field("items"),
)
KPI_COLUMNS = (
    field("name", "kpi"),
    field("value"),
    Column("95 % CI", format_interval),
    Column("verdict", verdict_of),
    field("unit"),
    Column("within thresholds", lambda kpi: kpi["withinThresholds"]),
    field("formula"),
    Column("undefined because", lambda kpi: kpi["undefinedReason"]),
)

EVALUATION_COLUMNS = (
    field("name", "alert rule"),
    field("result"),
    field("outcome"),
    field("state"),
    field("value"),
    field("explanation"),
)
