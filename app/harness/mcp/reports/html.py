"""A run as one HTML file with every transcript: no script, nothing fetched from anywhere."""

import json
from collections.abc import Iterable

from app.core.text import html_page, html_table, html_text
from app.harness.mcp.reports.context_plot import LEGEND, context_plots
from app.harness.mcp.reports.figures import (
    name_of,
    reason,
    result_word,
    seconds,
    servers_of,
)
from app.harness.mcp.reports.tables import (
    Cells,
    context_table,
    headlines,
    task_table,
    tool_table,
)
from app.harness.mcp.types import McpReport, TaskResult
from app.llm.conversation import Block, TextBlock, ToolUseBlock

_VERDICTS = {True: "pass", False: "fail", None: "–"}


def html_report(report: McpReport) -> str:
    """The figures on top, the cost of context, then a fold for each attempt with all of it."""
    return html_page(
        "ot-bench",
        [
            f"<p>{html_text(report.timestamp)}</p>",
            html_table((), headlines(report)),
            *_section(task_table(report, verbose=True)),
            *_section(context_table(report)),
            *_plots(report),
            *_section(tool_table(report)),
            "<h2>Attempts</h2>",
            *(line for each in report.results for line in _attempt(each)),
        ],
    )


def _section(cells: Cells) -> Iterable[str]:
    if cells.rows:
        yield f"<h2>{html_text(cells.title)}</h2>"
        yield html_table(cells.heads, cells.rows)


def _plots(report: McpReport) -> Iterable[str]:
    plots = list(context_plots(report))
    if plots:
        yield from plots
        yield f"<p>{LEGEND}</p>"


def _attempt(result: TaskResult) -> Iterable[str]:
    word = result_word(result)
    yield (
        f'<details><summary><b class="{html_text(word)}">{html_text(word)}</b>'
        f" {html_text(result.scenario)} / {html_text(name_of(result))}"
        f" {html_text(result.model)}</summary>"
    )
    yield (
        f"<p>{html_text(servers_of(result) or 'no server')}, {len(result.llm_calls)} requests,"
        f" {len(result.tool_calls)} calls, {seconds(result.duration_ms)}</p>"
    )
    if reason(result):
        yield f"<p>{html_text(reason(result))}</p>"
    rows = [
        (each.type, each.expected or "", _VERDICTS[each.passed], each.reason)
        for each in result.evaluations
    ]
    if rows:
        yield html_table(("Evaluator", "Expected", "Result", "Reason"), rows)
    yield from _transcript(result)
    yield "</details>"


def _transcript(result: TaskResult) -> Iterable[str]:
    for message in result.messages:
        yield f'<p class="who">{html_text(message.role.replace("_", " "))}</p>'
        yield from (f"<pre>{html_text(_said(block))}</pre>" for block in message.content)
    if not result.messages:
        for call in result.tool_calls:
            asked = json.dumps(call.arguments, ensure_ascii=False)
            yield f'<p class="who">{html_text(call.tool)}</p>'
            yield f"<pre>{html_text(asked)}</pre><pre>{html_text(call.text)}</pre>"


def _said(block: Block) -> str:
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, ToolUseBlock):
        return f"{block.name} {json.dumps(block.input, ensure_ascii=False)}"
    return block.content
