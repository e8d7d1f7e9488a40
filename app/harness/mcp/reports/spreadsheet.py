"""A run as CSV: a row per attempt, or per request to a model. No cell is a formula."""

import csv
import io
from collections.abc import Iterable

from app.harness.mcp.reports.figures import name_of, result_word, servers_of
from app.harness.mcp.types import McpReport, TaskResult

TASK_HEADS = (
    "scenario", "task", "model", "server", "result", "total_input", "total_output", "llm_calls",
    "tool_calls", "duration_s", "cost_usd", "base_context", "context_growth_avg",
)  # fmt: skip
CALL_HEADS = (
    "scenario", "task", "model", "server", "call", "input_tokens", "output_tokens", "latency_ms",
    "cumulative_input", "tool_calls_made",
)  # fmt: skip


def tasks_csv(report: McpReport) -> str:
    """A row per attempt; what is unknown is an empty cell."""
    return _csv(TASK_HEADS, (_task(each) for each in report.results))


def calls_csv(report: McpReport) -> str:
    """A row per request to a model, counted from 1."""
    rows = (
        (
            each.scenario, name_of(each), each.model, servers_of(each), number,
            call.input_tokens, call.output_tokens, round(call.latency_ms, 3),
            call.cumulative_input, call.tool_calls_made,
        )
        for each in report.results
        for number, call in enumerate(each.llm_calls, start=1)
    )  # fmt: skip
    return _csv(CALL_HEADS, rows)


def escaped(cell: object) -> object:
    """A text that a spreadsheet would compute begins with an apostrophe."""
    is_formula = isinstance(cell, str) and cell.lstrip(" ").startswith(
        ("=", "+", "-", "@", "\t", "\r", "\n")
    )
    return f"'{cell}" if is_formula and cell != "-" else cell


def _task(each: TaskResult) -> Iterable[object]:
    return (
        each.scenario, name_of(each), each.model, servers_of(each), result_word(each),
        each.input_tokens, each.output_tokens, len(each.llm_calls), len(each.tool_calls),
        round(each.duration_ms / 1000, 3), each.cost_usd, each.base_context,
        each.context_growth_avg,
    )  # fmt: skip


def _csv(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([escaped(cell) for cell in row] for row in rows)
    return text.getvalue()
