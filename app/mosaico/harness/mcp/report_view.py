"""The report view of an ot-bench run: its figures, tables, attempts and CSV rows."""

from collections.abc import Iterable, Sequence
from typing import Final

from mosaico.core.reports import csv_text
from mosaico.core.text import count_noun
from mosaico.harness.mcp.config import TaskType
from mosaico.harness.mcp.context_cost import LEGEND, context_costs, context_plots, tool_usages
from mosaico.harness.mcp.stored_attempt import attempt_transcript
from mosaico.harness.mcp.summary import McpSummary, summarize
from mosaico.harness.mcp.types import McpReport, TaskResult
from mosaico.harness.reports.view import (
    UNKNOWN,
    AttemptStatus,
    AttemptView,
    FigureLine,
    ReportTable,
    RunReportView,
    describe_early_ending,
    format_cached,
    format_count,
    format_dollars,
    format_percent,
    format_seconds,
    format_waiting,
    retry_figures,
)
from mosaico.harness.results import AttemptOutcome, attempt_name

BAR_WIDTH: Final = 12
TASK_COLUMNS: Final = (
    "scenario", "task", "model", "server", "result", "total_input", "total_output", "llm_calls",
    "tool_calls", "duration_s", "cost_usd", "base_context", "context_growth_avg",
)  # fmt: skip
CALL_COLUMNS: Final = (
    "scenario", "task", "model", "server", "call", "input_tokens", "output_tokens", "latency_ms",
    "cumulative_input", "tool_calls_made", "cached_tokens", "cache_write_tokens",
)  # fmt: skip

_RESULTS: Final = {True: "pass", False: "fail", None: UNKNOWN}


def run_view(report: McpReport, *, verbose: bool = True) -> RunReportView:
    """The view of a run that all report formats render; `verbose` adds every tool and request."""
    tables = [
        _context_table(report),
        _remark_table(report),
        *([tool_table(report)] if verbose else []),
    ]
    plots = list(context_plots(report))
    summary = summarize(report)
    return RunReportView(
        program="ot-bench",
        title="ot-bench",
        timestamp=report.timestamp,
        figures=[
            *_figures(report, summary),
            *retry_figures(result.retries for result in report.results),
        ],
        overview=task_table(report, verbose=verbose),
        tables=[table for table in tables if table.rows],
        plots=[*plots, f"<p>{LEGEND}</p>"] if plots else [],
        attempts=[attempt_view(result) for result in report.results],
        is_complete=not summary.missing,
    )


def attempt_view(result: TaskResult) -> AttemptView:
    """The view of one attempt."""
    name = attempt_name(result.task, result.trial)
    rows = [
        (evaluation.type, evaluation.expected or "", _RESULTS[evaluation.passed], evaluation.reason)
        for evaluation in result.evaluations
    ]
    return AttemptView(
        task=f"{result.scenario}/{result.task}",
        title=f"{result.scenario} / {name} {result.model}".rstrip(),
        label=result_word(result),
        status=_status(result),
        group=f"{result.file}.{result.scenario}",
        case=f"{name} [{result.model}]" if result.model else name,
        duration_s=result.duration_ms / 1000,
        facts=(
            f"{_servers(result) or 'no server'}, {count_noun(len(result.llm_calls), 'request')},"
            f" {count_noun(len(result.tool_calls), 'tool call')}, {format_seconds(result.duration_ms)}"
            f"{format_waiting(result.retries)}{_ending(result)}"
        ),
        error=result.failure_reason() if result.error is not None else "",
        error_kind=result.error.kind if result.error is not None else None,
        failures=result.failures(),
        checks=ReportTable("Evaluations", ("Evaluator", "Expected", "Result", "Reason"), rows),
        asks_model=result.type is TaskType.HARNESS,
        ending=result.ending,
        ending_detail=result.ending_detail,
        transcript=attempt_transcript(result),
    )


def result_word(result: TaskResult) -> str:
    """PASS, FAIL, ERROR, SKIP, the score of a judge without a threshold, or `-` for neither."""
    status = _status(result)
    if status is not AttemptStatus.NEUTRAL:
        return status.label
    scores = [evaluation.score for evaluation in result.evaluations if evaluation.score is not None]
    return f"{100 * min(scores):.0f}" if scores else status.label


def _remark_table(report: McpReport) -> ReportTable:
    """What of the lists of servers was left out or changed for models."""
    rows = [(server.name, remark) for server in report.servers for remark in server.remarks]
    return ReportTable("Remarks about servers", ("Server", "Remark"), rows)


def task_table(report: McpReport, *, verbose: bool = False) -> ReportTable:
    """A row per attempt; `verbose` adds the input tokens of each request and their growth."""
    columns = [
        "Scenario",
        "Task",
        "Model",
        "Server",
        "Result",
        "In",
        "Out",
        "Calls",
        "Time",
        "Cost",
    ]
    reached = [result for result in report.results if result.outcome is not AttemptOutcome.SKIPPED]
    rows = [_task_row(result, verbose=verbose) for result in reached]
    return ReportTable(
        "Tasks", [*columns, "Input per call", "Growth"] if verbose else columns, rows
    )


def tool_table(report: McpReport) -> ReportTable:
    """Every tool with the tokens of its schema; `never` marks a tool that was not called."""
    rows = [
        (use.server, use.tool, str(use.tokens), str(use.calls) if use.calls else "never",
         str(use.errors))
        for use in tool_usages(report)
    ]  # fmt: skip
    return ReportTable("Tools", ("Server", "Tool", "Schema tokens", "Calls", "Errors"), rows)


def tasks_csv(report: McpReport) -> str:
    """A row per attempt."""
    return csv_text(TASK_COLUMNS, (_task_cells(result) for result in report.results))


def calls_csv(report: McpReport) -> str:
    """A row per model request, numbered from 1."""
    rows = (
        (
            result.scenario, attempt_name(result.task, result.trial), result.model, _servers(result), number,
            call.input_tokens, call.output_tokens, round(call.latency_ms, 3),
            call.cumulative_input, call.tool_calls_made, call.cached_tokens,
            call.cache_write_tokens,
        )
        for result in report.results
        for number, call in enumerate(result.llm_calls, start=1)
    )  # fmt: skip
    return csv_text(CALL_COLUMNS, rows)


def _status(result: TaskResult) -> AttemptStatus:
    if result.outcome is AttemptOutcome.SKIPPED:
        return AttemptStatus.SKIPPED
    if result.outcome.is_error:
        return AttemptStatus.ERROR
    if result.passed is None:
        return AttemptStatus.NEUTRAL
    return AttemptStatus.PASSED if result.passed else AttemptStatus.FAILED


def _figures(report: McpReport, summary: McpSummary) -> list[FigureLine]:
    figures = [
        FigureLine("Pass rate", _pass_rate(summary)),
        FigureLine(
            "Attempts",
            f"{summary.planned} planned, {summary.errors} errors, {summary.without_verdict} without"
            f" a verdict, {summary.missing} not reached",
        ),
        FigureLine("Tokens", _tokens(summary)),
        FigureLine("Cost", format_dollars(summary.cost_usd)),
        FigureLine("Time of all attempts", format_seconds(summary.duration_ms)),
    ]
    return (
        [*figures, FigureLine("Note", "the run was interrupted")] if report.interrupted else figures
    )


def _tokens(summary: McpSummary) -> str:
    cached = format_cached(summary.cached_tokens, summary.cache_write_tokens)
    return f"{summary.input_tokens} input{cached}, {summary.output_tokens} output"


def _pass_rate(summary: McpSummary) -> str:
    """The pass rate of the scored attempts, and the errors beside it: 100 % of few is not success."""
    counts = f"{summary.passed} passed, {summary.failed} failed"
    if summary.errors:
        attempts = count_noun(summary.planned, "attempt")
        verb = "is" if summary.errors == 1 else "are"
        counts += f"; {summary.errors} of {attempts} errored and {verb} not scored"
    return f"{format_percent(summary.pass_rate)} ({counts})"


def _context_table(report: McpReport) -> ReportTable:
    """The context cost of each set of servers, compared with the largest of the scenario."""
    columns = (
        "Scenario", "Model", "Servers", "Tools", "Schemas", "Base", "Growth", "Input", "Calls",
        "Passed", "Cost", "Of largest", "",
    )  # fmt: skip
    rows = [
        (
            cost.scenario, cost.model, ", ".join(cost.servers) or "none", str(cost.tools),
            str(cost.schema_tokens), format_count(cost.base_context),
            format_count(cost.context_growth), format_count(cost.input_tokens),
            f"{cost.llm_calls:.1f}", f"{cost.passed}/{cost.judged}",
            format_dollars(cost.cost_usd), format_percent(cost.share_of_largest, 0),
            _bar(cost.share_of_largest),
        )
        for cost in context_costs(report)
    ]  # fmt: skip
    return ReportTable("Cost of context (tokens, means per attempt)", columns, rows)


def _task_row(result: TaskResult, *, verbose: bool) -> Sequence[str]:
    row = [
        result.scenario, attempt_name(result.task, result.trial), result.model, _servers(result), result_word(result),
        format_count(result.input_tokens), format_count(result.output_tokens),
        f"{len(result.llm_calls)}/{len(result.tool_calls)}", format_seconds(result.duration_ms),
        format_dollars(result.cost_usd),
    ]  # fmt: skip
    if verbose:
        row += [
            " ".join(format_count(call.input_tokens) for call in result.llm_calls),
            format_count(result.context_growth_avg),
        ]
    return row


def _task_cells(result: TaskResult) -> Iterable[object]:
    return (
        result.scenario, attempt_name(result.task, result.trial), result.model, _servers(result), result_word(result),
        result.input_tokens, result.output_tokens, len(result.llm_calls), len(result.tool_calls),
        round(result.duration_ms / 1000, 3), result.cost_usd, result.base_context,
        result.context_growth_avg,
    )  # fmt: skip


def _ending(result: TaskResult) -> str:
    ending = describe_early_ending(result.ending, result.ending_detail)
    return f", {ending}" if ending else ""


def _servers(result: TaskResult) -> str:
    return ", ".join(result.servers)


def _bar(share: float | None) -> str:
    """A share of 1 as a bar; every share above 0 is visible."""
    return "" if share is None else "█" * max(round(BAR_WIDTH * share), 1 if share > 0 else 0)
