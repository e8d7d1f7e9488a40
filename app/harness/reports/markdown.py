"""A run as Markdown; foreign text is escaped."""

from collections.abc import Iterable

from app.core.reports.markdown import markdown_table, markdown_text
from app.harness.reports.view import AttemptView, ReportTable, RunReportView


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
