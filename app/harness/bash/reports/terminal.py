"""A run as plain lines, for a terminal or a log."""

from collections.abc import Iterable

from app.core.console.terminal import escape_line
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
from app.harness.bash.types import EvalReport, EvalResult, EvalSummary


def terminal_report(report: EvalReport) -> str:
    """Each task on a line with what it failed, then the figures, categories and profile."""
    summary = summarize(report)
    lines = [
        f"Bash evaluation: {escape_line(report.title())}, {escape_line(report.timestamp)}",
        "",
        *(line for each in report.results for line in task_lines(each)),
        "",
        "Summary",
        *(f"  {name:<18}{text}" for name, text in headlines(summary)),
        *(f"  {name:<18}{escape_line(why)} ({n})" for name, why, n in reasons(summary)),
        "",
        "By category",
        *_categories(summary),
        "",
        *profile_lines(profile(report, summary)),
    ]
    return "\n".join(lines) + "\n"


def task_lines(result: EvalResult) -> Iterable[str]:
    """One line, and one more for each expectation that was not met."""
    head = f"[{mark(result)}] {escape_line(name_of(result))} ({escape_line(result.task.category)})"
    if result.score is None:
        yield f"{head} - {escape_line(result.reason or 'no reason is known')}"
        return
    score = f"{amount(result.score.score)}/{amount(result.score.max_score)}"
    told = f", {seconds(result.trace.duration_ms)}, {ending(result)}" if result.trace else ""
    yield f"{head} - {score}{told}"
    for each in result.score.results:
        if not each.passed:
            yield f"       {escape_line(each.check)}: {escape_line(each.detail)}"


def profile_lines(found: Profile) -> Iterable[str]:
    yield f"Healthy profile: {'yes' if found.is_healthy else 'no'}"
    words = {True: "yes", False: "NO", None: "?"}
    for trait in found.traits:
        yield f"  {words[trait.met]:<4}{trait.name:<26}{escape_line(trait.found)}"
    yield f"Friction signals: {len(found.signals) or 'none'}"
    for signal in found.signals:
        yield f"  {signal.name}: {escape_line(signal.found)}; {signal.meaning}"


def _categories(summary: EvalSummary) -> Iterable[str]:
    width = max((len(escape_line(name)) for name in summary.by_category), default=0)
    for name, each in summary.by_category.items():
        yield (
            f"  {escape_line(name):<{width}}  {each.passed}/{each.tasks} passed,"
            f" {amount(each.score)}/{amount(each.max_score)} points, {percent(each.rate)}"
        )
