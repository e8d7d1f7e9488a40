"""A run as plain text for a terminal or a log, and as Markdown; foreign text is escaped."""

from collections import Counter
from collections.abc import Iterable

from mosaico.core.console.terminal import escape_line
from mosaico.core.reports import markdown_table, markdown_text
from mosaico.core.text import aligned_lines, count_noun
from mosaico.harness.reports.view import AttemptStatus, AttemptView, ReportTable, RunReportView


def terminal_report(view: RunReportView, *, attempts: bool = True) -> str:
    """The attempts with their failures, the figures, then the tables. Foreign text is escaped.

    Without `attempts` only those that were not reached are named: the others were shown already.
    """
    lines = [
        f"{escape_line(view.title)}, {escape_line(view.timestamp)}",
        "",
        *(_attempts(view) if attempts else _overview(view)),
        *_not_reached(view),
        "",
        "Summary",
        *_figures(view),
        *(line for table in view.tables for line in ["", *table_lines(table)]),
    ]
    return "\n".join(lines) + "\n"


def attempt_line(attempt: AttemptView) -> str:
    """`[PASS] title - points, facts` or `[ERROR] title - reason`, on one line."""
    details = [attempt.error] if attempt.error else [attempt.points, attempt.facts]
    text = ", ".join(detail for detail in details if detail)
    return escape_line(f"[{attempt.label}] {attempt.title}" + (f" - {text}" if text else ""))


def failure_lines(attempt: AttemptView) -> list[str]:
    """The unmet expectations of an attempt, one per line, indented below its line."""
    return [f"       {escape_line(failure)}" for failure in attempt.failures]


def _attempts(view: RunReportView) -> Iterable[str]:
    yield from _overview(view)
    for attempt in _reached(view):
        if view.overview is None:
            yield attempt_line(attempt)
            yield from failure_lines(attempt)
        elif notes := list(filter(None, (attempt.early_ending, attempt.reason))):
            yield escape_line(f"[{attempt.label}] {attempt.title}: {'; '.join(notes)}")


def _overview(view: RunReportView) -> Iterable[str]:
    return table_lines(view.overview) if view.overview is not None else ()


def _reached(view: RunReportView) -> list[AttemptView]:
    return [attempt for attempt in view.attempts if attempt.status is not AttemptStatus.SKIPPED]


def _not_reached(view: RunReportView) -> Iterable[str]:
    """One line per reason; a run that ended early leaves many attempts."""
    skipped = [attempt for attempt in view.attempts if attempt.status is AttemptStatus.SKIPPED]
    for reason, count in Counter(attempt.reason for attempt in skipped).items():
        attempts = count_noun(count, "attempt was", "attempts were")
        yield escape_line(f"[SKIP] {attempts} not reached: {reason}")


def _figures(view: RunReportView) -> Iterable[str]:
    width = max((len(figure.name) for figure in view.figures), default=0)
    return (f"  {name:<{width}} {escape_line(text)}" for name, text in view.figures)


def table_lines(table: ReportTable) -> Iterable[str]:
    """The title, the columns and the rows of a table; a table without rows is its title."""
    yield table.title
    if not table.rows:
        return
    rows = [[escape_line(cell) for cell in row] for row in (table.columns, *table.rows)]
    yield from (f"  {line}" for line in aligned_lines(rows))


def markdown_report(view: RunReportView) -> str:
    """The figures and tables, then a section per attempt with its checks."""
    overview = [view.overview] if view.overview is not None else []
    lines = [
        f"# {markdown_text(view.title)}",
        "",
        f"- **Date**: {markdown_text(view.timestamp)}",
        *([f"- **Setting**: {markdown_text(view.note)}"] if view.note else []),
        *(f"- **{name}**: {markdown_text(text)}" for name, text in view.figures),
        "",
        *(line for table in (*overview, *view.tables) for line in titled_table(table)),
        "## Attempts",
        "",
        *(line for attempt in view.attempts for line in _attempt(attempt)),
    ]
    return "\n".join(lines)


def titled_table(table: ReportTable) -> Iterable[str]:
    """A table below a heading of the second level."""
    yield from (f"## {markdown_text(table.title)}", "")
    yield from _table(table)


def _table(table: ReportTable) -> Iterable[str]:
    if not table.rows:
        return
    rows = (map(markdown_text, row) for row in table.rows)
    yield from (*markdown_table([*map(markdown_text, table.columns)], rows), "")


def _attempt(attempt: AttemptView) -> Iterable[str]:
    yield from (f"### {attempt.label} {markdown_text(attempt.title)}", "")
    if attempt.description:
        yield from (markdown_text(attempt.description), "")
    for name, text in (
        ("", attempt.facts),
        ("Score: ", attempt.points),
        ("Error: ", attempt.error),
    ):
        if text:
            yield f"- {name}{markdown_text(text)}"
    yield ""
    if attempt.checks is not None:
        yield from _table(attempt.checks)
