"""A run as Markdown: ours, and byte for byte that of the original for whoever compares files."""

import re
from collections.abc import Iterable
from dataclasses import replace

from app.harness.bash.profile import profile
from app.harness.bash.reports.figures import (
    amount,
    ending,
    headlines,
    mark,
    name_of,
    percent,
    reasons,
    seconds,
)
from app.harness.bash.summary import summarize
from app.harness.bash.types import EvalReport, EvalResult


def markdown_report(report: EvalReport) -> str:
    """Figures, categories, profile, tasks; whatever users wrote is escaped."""
    summary = summarize(report)
    found = profile(report, summary)
    return "\n".join(
        [
            f"# Bash evaluation: {cell(report.title())}",
            "",
            f"- **Date**: {cell(report.timestamp)}",
            f"- **Turn limit**: {report.max_turns}",
            *(f"- **{name}**: {text}" for name, text in headlines(summary)),
            *(f"- **{name}**: {cell(why)} ({n})" for name, why, n in reasons(summary)),
            "",
            "## By category",
            "",
            "| Category | Passed | Tasks | Points | Overall rate |",
            "|---|---|---|---|---|",
            *(
                f"| {cell(name)} | {each.passed} | {each.tasks} |"
                f" {amount(each.score)}/{amount(each.max_score)} | {percent(each.rate)} |"
                for name, each in summary.by_category.items()
            ),
            "",
            f"## Healthy profile: {'yes' if found.is_healthy else 'no'}",
            "",
            "| Trait | Met | Found |",
            "|---|---|---|",
            *(
                f"| {trait.name} | {_word(met=trait.met)} | {cell(trait.found)} |"
                for trait in found.traits
            ),
            "",
            f"## Friction signals: {len(found.signals) or 'none'}",
            "",
            *(f"- {each.name}: {cell(each.found)}; {each.meaning}" for each in found.signals),
            *([""] if found.signals else []),
            "## Tasks",
            "",
            *(line for each in report.results for line in _task(each)),
        ]
    )


def original_markdown_report(report: EvalReport) -> str:
    """The layout of the original, its defects included: R % is the overall rate, cells are raw.

    Attempts without a score are left out, as they were there.
    """
    results = [each for each in report.results if each.score and each.trace]
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
                f"| {name} | {each.passed} | {each.tasks} | {100 * each.rate:.0f}% |"
                for name, each in s.by_category.items()
            ),
            "",
            "## Task Details",
            "",
            *(line for each in results for line in _original_task(each)),
            "",
        ]
    )


def cell(text: str) -> str:
    """Text of users for any place in Markdown, a cell of a table among them."""
    flat = re.sub(r"\s+", " ", text).strip()
    safe = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", safe)


def _task(result: EvalResult) -> Iterable[str]:
    yield f"### {mark(result)} {cell(name_of(result))} ({cell(result.task.category)})"
    yield ""
    if result.task.description:
        yield from (cell(result.task.description), "")
    if result.trace is not None:
        trace, ok = result.trace, result.trace.calls_ok()
        yield (
            f"- {trace.turns} turns, {trace.tool_call_count} calls ({ok} ok,"
            f" {trace.tool_call_count - ok} error), {seconds(trace.duration_ms)},"
            f" {ending(result)}"
        )
        yield f"- Tokens: {_told(trace.total_input_tokens)} input, {_told(trace.total_output_tokens)} output"
    if result.score is None:
        yield from (f"- Not scored: {cell(result.reason or 'no reason is known')}", "")
        return
    yield f"- Score: {amount(result.score.score)}/{amount(result.score.max_score)}"
    yield from ("", "| Check | Weight | Result | Detail |", "|---|---|---|---|")
    for each in result.score.results:
        word = "pass" if each.passed else "**fail**"
        yield f"| {cell(each.check)} | {amount(each.weight)} | {word} | {cell(each.detail)} |"
    yield ""


def _original_task(result: EvalResult) -> Iterable[str]:
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
    for each in score.results:
        yield f"| {each.check} | {'PASS' if each.passed else 'FAIL'} | {each.detail} |"
    yield ""


def _word(*, met: bool | None) -> str:
    return {True: "yes", False: "**no**", None: "unknown"}[met]


def _told(tokens: int | None) -> str:
    return "unknown" if tokens is None else str(tokens)
