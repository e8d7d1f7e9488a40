"""The tables that console and page share: texts, row by row."""

from collections.abc import Sequence
from typing import NamedTuple

from app.harness.mcp.context_cost import context_costs, tool_uses
from app.harness.mcp.reports.figures import (
    count,
    dollars,
    name_of,
    reason,
    result_word,
    seconds,
    servers_of,
)
from app.harness.mcp.summary import summarize
from app.harness.mcp.types import McpReport

BAR: int = 12


class Cells(NamedTuple):
    """A table of a report."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def headlines(report: McpReport) -> list[tuple[str, str]]:
    """The figures of a run by name."""
    found = summarize(report)
    rate = "–" if found.pass_rate is None else f"{100 * found.pass_rate:.1f} %"
    lines = [
        ("Pass rate", f"{rate} ({found.passed} passed, {found.failed} failed)"),
        (
            "Attempts",
            (
                f"{found.planned} planned, {found.errors} errors, {found.without_verdict} without"
                f" a verdict, {found.missing} not reached"
            ),
        ),
        ("Tokens", f"{found.input_tokens} input, {found.output_tokens} output"),
        ("Cost", "unknown" if found.cost_usd is None else dollars(found.cost_usd)),
        ("Time of all attempts", seconds(found.duration_ms)),
    ]
    return [*lines, ("Note", "the run was ended early")] if report.interrupted else lines


def task_table(report: McpReport, *, verbose: bool = False) -> Cells:
    """A row for each attempt; `verbose` adds the input of each call and how it grows."""
    heads = ["Scenario", "Task", "Model", "Server", "Result", "In", "Out", "Calls", "Time", "Cost"]
    rows = []
    for each in report.results:
        calls = f"{len(each.llm_calls)}/{len(each.tool_calls)}"
        row = [
            each.scenario, name_of(each), each.model, servers_of(each), result_word(each),
            count(each.input_tokens), count(each.output_tokens), calls,
            seconds(each.duration_ms), dollars(each.cost_usd),
        ]  # fmt: skip
        if verbose:
            row += [
                " ".join(count(call.input_tokens) for call in each.llm_calls),
                count(each.context_growth_avg),
            ]
        rows.append(row)
    return Cells("Tasks", [*heads, "Input per call", "Growth"] if verbose else heads, rows)


def failure_lines(report: McpReport) -> list[tuple[str, str]]:
    """What did not pass, and why."""
    return [
        (f"{result_word(each)} {each.scenario} / {name_of(each)}", reason(each))
        for each in report.results
        if reason(each)
    ]


def context_table(report: McpReport) -> Cells:
    """The cost of context: base, one server, all servers, one tool, side by side."""
    heads = (
        "Scenario", "Model", "Servers", "Tools", "Schemas", "Base", "Growth", "Input", "Calls",
        "Passed", "Cost", "Of largest", "",
    )  # fmt: skip
    rows = [
        (
            each.scenario, each.model, ", ".join(each.servers) or "none", str(each.tools),
            str(each.schema_tokens), count(each.base_context), count(each.context_growth),
            count(each.input_tokens), f"{each.llm_calls:.1f}", f"{each.passed}/{each.attempts}",
            dollars(each.cost_usd),
            "–" if each.of_largest is None else f"{100 * each.of_largest:.0f} %",
            bar(each.of_largest),
        )
        for each in context_costs(report)
    ]  # fmt: skip
    return Cells("Cost of context (tokens, means per attempt)", heads, rows)


def tool_table(report: McpReport) -> Cells:
    """Every tool with the tokens of its schema; one that nobody called says `never`."""
    rows = [
        (each.server, each.tool, str(each.tokens), str(each.calls) if each.calls else "never",
         str(each.errors))
        for each in tool_uses(report)
    ]  # fmt: skip
    return Cells("Tools", ("Server", "Tool", "Schema tokens", "Calls", "Errors"), rows)


def bar(share: float | None) -> str:
    """A share of one as a bar; what is more than nothing shows."""
    return "" if share is None else "█" * max(round(BAR * share), 1 if share > 0 else 0)
