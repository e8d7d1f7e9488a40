"""The report view of a bash evaluation: its figures, tables, attempts and formats."""

from collections.abc import Callable, Mapping
from typing import Final

from mosaico.core.text import count_noun
from mosaico.harness.bash.original_markdown import original_markdown_report
from mosaico.harness.bash.result_file import json_report
from mosaico.harness.bash.run_health import RunProfile, profile
from mosaico.harness.bash.summary import TrialSummary, summarize, summarize_trials
from mosaico.harness.bash.transcript import attempt_transcript
from mosaico.harness.bash.types import AgentTrace, EvalReport, EvalResult, EvalSummary, TaskScore
from mosaico.harness.reports.files import junit_report
from mosaico.harness.reports.html import html_report
from mosaico.harness.reports.inspect_log import inspect_json
from mosaico.harness.reports.text import markdown_report, terminal_report
from mosaico.harness.reports.view import (
    AttemptStatus,
    AttemptView,
    FigureLine,
    ReportTable,
    RunReportView,
    describe_ending,
    format_cached,
    format_dollars,
    format_percent,
    format_points,
    format_seconds,
    format_tokens,
    format_waiting,
    retry_figures,
)
from mosaico.harness.results import AttemptOutcome, ConversationEnding, attempt_name

_MET: Final = {True: "yes", False: "no", None: "unknown"}


def run_view(report: EvalReport) -> RunReportView:
    """The view of a run that all report formats render."""
    summary = summarize(report)
    run_profile = profile(report, summary)
    trials = summarize_trials(report)
    return RunReportView(
        program=f"bashkit-eval {report.title()}",
        title=f"Bash evaluation: {report.title()}",
        timestamp=report.timestamp,
        note=_limits(report),
        figures=[
            *_figures(summary),
            *retry_figures(result.trace.retries for result in report.results if result.trace),
            *_reasons(summary),
        ],
        tables=[
            _categories(summary),
            *_trials(trials),
            _traits(run_profile),
            _signals(run_profile),
        ],
        attempts=[attempt_view(result) for result in report.results],
        is_complete=not summary.tasks_skipped,
    )


def _limits(report: EvalReport) -> str:
    """The limits under which the model worked; older results had none for the output of a call."""
    chars = report.settings.get("tool_chars")
    cut = "" if chars is None else f", output of a call cut at {chars} characters"
    return f"turn limit {report.max_turns}{cut}"


def attempt_view(result: EvalResult) -> AttemptView:
    """The view of one attempt."""
    name = attempt_name(result.task.id, result.trial)
    status = _status(result)
    trace, score = result.trace, result.score
    error = "" if score is not None else result.reason or "the reason is unknown"
    return AttemptView(
        task=result.task.id,
        title=f"{name} ({result.task.category})",
        label=status.label,
        status=status,
        group=result.task.category,
        case=name,
        duration_s=trace.duration_ms / 1000 if trace else 0.0,
        points=f"{format_points(score.score)}/{format_points(score.max_score)}" if score else "",
        facts=_facts(result),
        description=result.task.description,
        error=error,
        failures=result.failures(),
        checks=_checks(score) if score is not None else None,
        ending=_ending(trace) if trace else None,
        ending_detail=trace.ending_detail if trace else None,
        transcript=attempt_transcript(result),
    )


REPORTS: Final[Mapping[str, Callable[[EvalReport], str]]] = {
    "terminal": lambda report: terminal_report(run_view(report)),
    "json": json_report,
    "markdown": lambda report: markdown_report(run_view(report)),
    "markdown-original": original_markdown_report,
    "html": lambda report: html_report(run_view(report)),
    "inspect": lambda report: inspect_json(run_view(report)),
    "junit": lambda report: junit_report(run_view(report)),
}


def render(report: EvalReport, format_name: str) -> str:
    """The run in one of the formats of `REPORTS`."""
    return REPORTS[format_name](report)


def _status(result: EvalResult) -> AttemptStatus:
    if result.outcome is AttemptOutcome.SKIPPED:
        return AttemptStatus.SKIPPED
    if result.score is None:
        return AttemptStatus.ERROR
    return AttemptStatus.PASSED if result.passed() else AttemptStatus.FAILED


def _facts(result: EvalResult) -> str:
    trace = result.trace
    if trace is None:
        return ""
    ending = _ending(trace)
    ending_text = (
        describe_ending(ending, trace.ending_detail) if ending else "did not stop by itself"
    )
    return (
        f"{count_noun(trace.turns, 'turn')}, {trace.calls_ok()} of {trace.tool_call_count} calls ok,"
        f" {format_tokens(trace.total_input_tokens)} input"
        f"{format_cached(trace.total_cached_tokens, trace.total_cache_write_tokens)} and"
        f" {format_tokens(trace.total_output_tokens)} output tokens,"
        f" {format_seconds(trace.duration_ms)}{format_waiting(trace.retries)}, {ending_text}"
    )


def _ending(trace: AgentTrace) -> ConversationEnding | None:
    """The original evaluation recorded no ending, only whether the model stopped by itself."""
    return trace.ending or (ConversationEnding.NATURAL if trace.natural_stop else None)


def _checks(score: TaskScore) -> ReportTable:
    rows = [
        (
            check.check,
            format_points(check.weight),
            "pass" if check.passed else "fail",
            check.detail,
        )
        for check in score.results
    ]
    return ReportTable("Checks", ("Check", "Weight", "Result", "Detail"), rows)


def _categories(summary: EvalSummary) -> ReportTable:
    rows = [
        (
            name,
            str(category.passed),
            str(category.tasks),
            f"{format_points(category.score)}/{format_points(category.max_score)}",
            format_percent(category.rate),
        )
        for name, category in summary.by_category.items()
    ]
    columns = ("Category", "Passed", "Attempts", "Points", "Overall rate")
    return ReportTable("By category", columns, rows)


def _trials(trials: TrialSummary | None) -> list[ReportTable]:
    """The passes of each task and the pass@k statistics; no table without repeated trials."""
    if trials is None:
        return []
    passes = [
        (
            str(row.k),
            str(row.tasks),
            format_percent(row.pass_at_k),
            format_percent(row.pass_hat_k),
        )
        for row in trials.passes
    ]
    tasks = [
        (
            task.task_id,
            task.category,
            f"{task.passed}/{task.trials}",
            "flaky" if task.is_flaky else "",
        )
        for task in trials.tasks
    ]
    return [
        ReportTable("Repeated trials", ("k", "Tasks", "pass@k", "pass^k"), passes),
        ReportTable(
            f"Trials by task: {len(trials.flaky) or 'none'} flaky",
            ("Task", "Category", "Passed", "Remark"),
            tasks,
        ),
    ]


def _traits(run_profile: RunProfile) -> ReportTable:
    rows = [(trait.name, _MET[trait.met], trait.measured) for trait in run_profile.traits]
    title = f"Healthy profile: {_MET[run_profile.is_healthy]}"
    return ReportTable(title, ("Trait", "Met", "Measured"), rows)


def _signals(run_profile: RunProfile) -> ReportTable:
    rows = [(signal.name, signal.measured, signal.meaning) for signal in run_profile.signals]
    title = f"Friction signals: {len(rows) or 'none'}"
    return ReportTable(title, ("Signal", "Measured", "Possible cause"), rows)


def _reasons(summary: EvalSummary) -> list[FigureLine]:
    """Return the reason why attempts errored or were skipped, each reason with its count."""
    return [
        *(FigureLine("Error", f"{why} ({count})") for why, count in summary.error_reasons.items()),
        *(FigureLine("Skipped", f"{why} ({count})") for why, count in summary.skip_reasons.items()),
    ]


def _figures(summary: EvalSummary) -> list[FigureLine]:
    calls_ok = format_percent(summary.tool_call_success_rate if summary.total_tool_calls else None)
    lines = [
        FigureLine(
            "Pass rate",
            f"{format_percent(summary.pass_rate)} ({summary.total_passed} of {summary.tasks_scored}"
            f" {'scored ' * bool(summary.tasks_errored)}tasks met every expectation"
            f"{_not_scored(summary)})",
        ),
        FigureLine(
            "Overall rate",
            f"{format_percent(summary.overall_rate)} ({format_points(summary.total_score)} of"
            f" {format_points(summary.total_max_score)} weighted points)",
        ),
        FigureLine(
            "Attempted",
            f"{summary.total_tasks} ({summary.tasks_scored} scored, {summary.tasks_errored}"
            f" errored), {summary.tasks_skipped} skipped",
        ),
        FigureLine("Turns", f"{summary.total_turns} ({summary.avg_turns_per_task:.1f} per task)"),
        FigureLine(
            "Tool calls",
            f"{summary.total_tool_calls} ({summary.avg_tool_calls_per_task:.1f} per task)",
        ),
        FigureLine(
            "Tool call success",
            f"{calls_ok} ({summary.tool_calls_ok} ok, {summary.tool_calls_error} error)",
        ),
        FigureLine(
            "After errors",
            f"{summary.errors_adapted} adapted, {summary.errors_repeated} repeated",
        ),
        FigureLine(
            "Natural stops",
            f"{format_percent(summary.natural_stop_rate)} ({summary.natural_stops})",
        ),
        FigureLine("Tokens", _tokens(summary)),
        FigureLine(
            "Duration",
            f"{format_seconds(summary.total_duration_ms)}"
            f" ({format_seconds(summary.avg_duration_ms)} per task)",
        ),
    ]
    if summary.total_cost_usd is not None:
        lines.append(FigureLine("Cost", _cost(summary)))
    if summary.judge_input_tokens or summary.judge_output_tokens:
        lines.append(
            FigureLine(
                "Judge",
                f"{summary.judge_input_tokens} input, {summary.judge_output_tokens} output tokens,"
                f" cost {format_dollars(summary.judge_cost_usd)}",
            )
        )
    return lines


def _not_scored(summary: EvalSummary) -> str:
    """Said beside the rate, so that 100 % of few scored tasks is not read as success."""
    if not summary.tasks_errored:
        return ""
    return f"; {summary.tasks_errored} of {summary.total_tasks} attempted have no score"


def _cost(summary: EvalSummary) -> str:
    text = format_dollars(summary.total_cost_usd)
    if summary.tasks_without_cost:
        text += f" (unknown for {summary.tasks_without_cost} of {count_noun(summary.total_tasks, 'task')})"
    return text


def _tokens(summary: EvalSummary) -> str:
    cached = format_cached(summary.total_cached_tokens, summary.total_cache_write_tokens)
    text = f"{summary.total_input_tokens} input{cached}, {summary.total_output_tokens} output"
    if summary.tasks_without_usage:
        text += f" (unknown for {count_noun(summary.tasks_without_usage, 'task')})"
    return text
