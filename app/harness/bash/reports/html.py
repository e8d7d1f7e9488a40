"""A run as one HTML file with every transcript: no script, nothing fetched from anywhere."""

import json
from collections.abc import Iterable

from app.core.text import html_page, html_table, html_text
from app.harness.bash.profile import Profile, profile
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
from app.harness.bash.types import EvalReport, EvalResult, EvalSummary, TaskScore
from app.llm.conversation import Block, TextBlock, ToolUseBlock


def html_report(report: EvalReport) -> str:
    """The figures on top, then a fold for each task with checks and conversation."""
    summary = summarize(report)
    return html_page(
        f"Bash evaluation: {report.title()}",
        [
            f"<p>{html_text(report.timestamp)}, at most {report.max_turns} turns a task</p>",
            html_table((), headlines(summary)),
            *_reasons(summary),
            *_categories(summary),
            *_profile(profile(report, summary)),
            "<h2>Tasks</h2>",
            *(line for each in report.results for line in _task(each)),
        ],
    )


def _reasons(summary: EvalSummary) -> Iterable[str]:
    rows = [(name, why, str(count)) for name, why, count in reasons(summary)]
    if rows:
        yield "<h2>Without a score</h2>"
        yield html_table(("", "Why", "Tasks"), rows)


def _categories(summary: EvalSummary) -> Iterable[str]:
    yield "<h2>By category</h2>"
    rows = [
        (
            name,
            f"{each.passed} of {each.tasks}",
            f"{amount(each.score)}/{amount(each.max_score)}",
            percent(each.rate),
        )
        for name, each in summary.by_category.items()
    ]
    yield html_table(("Category", "Passed", "Points", "Overall rate"), rows)


def _profile(found: Profile) -> Iterable[str]:
    words = {True: "yes", False: "no", None: "unknown"}
    yield f"<h2>Healthy profile: {words[found.is_healthy]}</h2>"
    traits = [(trait.name, words[trait.met], trait.found) for trait in found.traits]
    yield html_table(("Trait", "Met", "Found"), traits)
    yield f"<h2>Friction signals: {len(found.signals) or 'none'}</h2>"
    if found.signals:
        signals = [(each.name, each.found, each.meaning) for each in found.signals]
        yield html_table(("Signal", "Found", "Hints at"), signals)


def _task(result: EvalResult) -> Iterable[str]:
    word = mark(result)
    points = (
        f"{amount(result.score.score)}/{amount(result.score.max_score)}" if result.score else ""
    )
    yield (
        f'<details><summary><b class="{word}">{word}</b> {html_text(name_of(result))}'
        f" ({html_text(result.task.category)}) {points}</summary>"
    )
    yield f"<p>{html_text(result.task.description)}</p>"
    if result.reason:
        yield f"<p>{html_text(result.reason)}</p>"
    if result.score is not None:
        yield _checks(result.score)
    yield from _transcript(result)
    yield "</details>"


def _checks(score: TaskScore) -> str:
    rows = [
        (each.check, amount(each.weight), "pass" if each.passed else "fail", each.detail)
        for each in score.results
    ]
    return html_table(("Check", "Weight", "Result", "Detail"), rows)


def _transcript(result: EvalResult) -> Iterable[str]:
    trace = result.trace
    if trace is None:
        return
    yield (
        f"<p>{trace.turns} turns, {trace.tool_call_count} calls, {trace.calls_ok()} of them ok,"
        f" {seconds(trace.duration_ms)}, {ending(result)}</p>"
    )
    for message in trace.messages:
        yield f'<p class="who">{message.role.replace("_", " ")}</p>'
        yield from (f"<pre>{html_text(_said(block))}</pre>" for block in message.content)


def _said(block: Block) -> str:
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, ToolUseBlock):
        commands = block.input.get("commands", block.input.get("script"))
        if isinstance(commands, str):
            return f"$ {commands}"
        return json.dumps(block.input, ensure_ascii=False)
    return block.content
