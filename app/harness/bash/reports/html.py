"""A run as one HTML file with every transcript: no script, nothing fetched from anywhere."""

import json
from collections.abc import Iterable
from html import escape

from app.harness.bash.profile import Profile, profile
from app.harness.bash.reports.figures import (
    amount,
    ending,
    headlines,
    mark,
    name_of,
    percent,
    seconds,
)
from app.harness.bash.summary import summarize
from app.harness.bash.types import EvalReport, EvalResult, EvalSummary, TaskScore
from app.harness.llm.conversation import Block, TextBlock, ToolUseBlock

_STYLE = """
:root { color-scheme: light dark; --line: #8885; --good: #1a7f37; --bad: #cf222e; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: .5rem 0 1.5rem }
th, td { text-align: left; padding: .25rem .75rem; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere }
details { border: 1px solid var(--line); border-radius: .4rem; margin: .4rem 0; padding: .4rem .8rem }
summary { cursor: pointer }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #8881; padding: .5rem; margin: .3rem 0 }
.who { font-weight: 600; margin: .8rem 0 0 }
.PASS { color: var(--good) } .FAIL, .ERROR { color: var(--bad) }
"""


def html_report(report: EvalReport) -> str:
    """The figures on top, then a fold for each task with checks and conversation."""
    summary = summarize(report)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            (
                '<meta http-equiv="Content-Security-Policy"'
                " content=\"default-src 'none'; style-src 'unsafe-inline'\">"
            ),
            f"<title>Bash evaluation: {_text(report.title())}</title>",
            f"<style>{_STYLE}</style></head><body>",
            f"<h1>Bash evaluation: {_text(report.title())}</h1>",
            f"<p>{_text(report.timestamp)}, at most {report.max_turns} turns a task</p>",
            _table((), headlines(summary)),
            *_errors(summary),
            *_categories(summary),
            *_profile(profile(report, summary)),
            "<h2>Tasks</h2>",
            *(line for each in report.results for line in _task(each)),
            "</body></html>\n",
        ]
    )


def _errors(summary: EvalSummary) -> Iterable[str]:
    if summary.error_reasons:
        yield "<h2>Errors</h2>"
        rows = [(why, str(count)) for why, count in summary.error_reasons.items()]
        yield _table(("Why", "Tasks"), rows)


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
    yield _table(("Category", "Passed", "Points", "Overall rate"), rows)


def _profile(found: Profile) -> Iterable[str]:
    words = {True: "yes", False: "no", None: "unknown"}
    yield f"<h2>Healthy profile: {words[found.is_healthy]}</h2>"
    traits = [(trait.name, words[trait.met], trait.found) for trait in found.traits]
    yield _table(("Trait", "Met", "Found"), traits)
    yield f"<h2>Friction signals: {len(found.signals) or 'none'}</h2>"
    if found.signals:
        signals = [(each.name, each.found, each.meaning) for each in found.signals]
        yield _table(("Signal", "Found", "Hints at"), signals)


def _task(result: EvalResult) -> Iterable[str]:
    word = mark(result)
    points = (
        f"{amount(result.score.score)}/{amount(result.score.max_score)}" if result.score else ""
    )
    yield (
        f'<details><summary><b class="{word}">{word}</b> {_text(name_of(result))}'
        f" ({_text(result.task.category)}) {points}</summary>"
    )
    yield f"<p>{_text(result.task.description)}</p>"
    if result.reason:
        yield f"<p>{_text(result.reason)}</p>"
    if result.score is not None:
        yield _checks(result.score)
    yield from _transcript(result)
    yield "</details>"


def _checks(score: TaskScore) -> str:
    rows = [
        (each.check, amount(each.weight), "pass" if each.passed else "fail", each.detail)
        for each in score.results
    ]
    return _table(("Check", "Weight", "Result", "Detail"), rows)


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
        yield from (f"<pre>{_text(_said(block))}</pre>" for block in message.content)


def _said(block: Block) -> str:
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, ToolUseBlock):
        commands = block.input.get("commands", block.input.get("script"))
        if isinstance(commands, str):
            return f"$ {commands}"
        return json.dumps(block.input, ensure_ascii=False)
    return block.content


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{_text(title)}</th>" for title in titles)
    body = "\n".join(
        f"<tr>{''.join(f'<td>{_text(value)}</td>' for value in row)}</tr>" for row in rows
    )
    return (
        f"<table>{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"
    )


def _text(text: str) -> str:
    return escape(text.replace("\x00", "�"))
