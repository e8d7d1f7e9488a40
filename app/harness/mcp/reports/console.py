"""A run on a terminal. Texts of others are cells and never markup."""

from collections.abc import Iterable

from app.core.console.table import Table, print_table
from app.core.console.terminal import escape_line, print_result
from app.harness.mcp.reports.tables import (
    Cells,
    context_table,
    failure_lines,
    headlines,
    task_table,
    tool_table,
)
from app.harness.mcp.types import McpReport


def print_report(report: McpReport, *, verbose: bool = False) -> None:
    """Tasks, what failed, the cost of context, the figures; `verbose` adds every tool."""
    _print(task_table(report, verbose=verbose))
    failures = failure_lines(report)
    if failures:
        print_result("")
        for head, why in failures:
            print_result(f"{escape_line(head)}: {escape_line(why)}")
    tables: Iterable[Cells] = [context_table(report)]
    if verbose:
        tables = [*tables, tool_table(report)]
    for cells in tables:
        if cells.rows:
            print_result("")
            print_result(cells.title)
            _print(cells)
    print_result("")
    for name, text in headlines(report):
        print_result(f"{name:<10} {text}")


def _print(cells: Cells) -> None:
    print_table(Table(cells.heads, [[escape_line(cell) for cell in row] for row in cells.rows]))
