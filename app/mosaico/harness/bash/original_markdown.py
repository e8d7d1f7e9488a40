"""Markdown byte for byte as the original evaluation wrote it, for comparing files with it."""

from collections.abc import Iterable
from dataclasses import replace

from mosaico.harness.bash.summary import summarize
from mosaico.harness.bash.types import EvalReport, EvalResult


def original_markdown_report(report: EvalReport) -> str:
    """The Markdown of the original evaluation, including its defects.

    Its "p/n tasks passed (R%)" shows the overall rate, table cells are not escaped, and attempts
    without a score are omitted.
    """
    results = [result for result in report.results if result.score and result.trace]
    s = summarize(replace(report, results=tuple(results)))
    rate = 100 * (1.0 if s.overall_rate is None else s.overall_rate)
    return "\n".join(
        [
            f"# Eval Report: {report.title()}",
            "",
            f"- **Date**: {report.timestamp}",
            f"- **Max turns**: {report.max_turns}",
            f"- **Turns**: {s.total_turns} total ({s.avg_turns_per_task:.1f} avg/task)",
            (
                f"- **Tool calls**: {s.total_tool_calls} total"
                f" ({s.avg_tool_calls_per_task:.1f} avg/task)"
            ),
            (
                f"- **Tool call success**: {s.tool_calls_ok} ok, {s.tool_calls_error} error"
                f" ({100 * s.tool_call_success_rate:.0f}% success rate)"
            ),
            f"- **Tokens**: {s.total_input_tokens} input, {s.total_output_tokens} output",
            (
                f"- **Duration**: {s.total_duration_ms / 1000:.1f}s total"
                f" ({s.avg_duration_ms / 1000:.1f}s avg/task)"
            ),
            "",
            "## Summary",
            "",
            f"**{s.total_passed}/{s.total_tasks} tasks passed ({rate:.0f}%)**",
            "",
            "## By Category",
            "",
            "| Category | Passed | Total | Rate |",
            "|----------|--------|-------|------|",
            *(
                f"| {name} | {category.passed} | {category.tasks} | {100 * category.rate:.0f}% |"
                for name, category in s.by_category.items()
            ),
            "",
            "## Task Details",
            "",
            *(line for result in results for line in _task(result)),
            "",
        ]
    )


def _task(result: EvalResult) -> Iterable[str]:
    assert result.trace is not None
    assert result.score is not None
    trace, score, ok = result.trace, result.score, result.trace.calls_ok()
    yield f"### [{'PASS' if score.all_passed() else 'FAIL'}] {result.task.id} ({result.task.category})"
    yield from ("", result.task.description, "")
    yield (
        f"- Turns: {trace.turns} | Tool calls: {trace.tool_call_count} ({ok} ok,"
        f" {trace.tool_call_count - ok} error) | Duration: {trace.duration_ms / 1000:.1f}s"
    )
    yield (
        f"- Tokens: {trace.total_input_tokens or 0} input, {trace.total_output_tokens or 0} output"
    )
    yield f"- Score: {score.score:.0f}/{score.max_score:.0f}"
    yield from ("", "| Check | Result | Detail |", "|-------|--------|--------|")
    for check in score.results:
        yield f"| {check.check} | {'PASS' if check.passed else 'FAIL'} | {check.detail} |"
    yield ""
