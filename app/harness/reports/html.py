"""A run as one HTML page with every transcript; it contains no script and loads nothing."""

from collections.abc import Iterable

from app.core.text import html_page, html_table, html_text
from app.harness.reports.view import AttemptView, ReportTable, RunReportView


def html_report(view: RunReportView) -> str:
    """The figures, the tables and plots, then one collapsed section per attempt."""
    overview = [view.overview] if view.overview is not None else []
    return html_page(
        view.title,
        [
            f"<p>{html_text(', '.join(filter(None, (view.timestamp, view.note))))}</p>",
            html_table((), view.figures),
            *(line for table in (*overview, *view.tables) for line in _table(table)),
            *view.plots,
            "<h2>Attempts</h2>",
            *(line for attempt in view.attempts for line in _attempt(attempt)),
        ],
    )


def _table(table: ReportTable) -> Iterable[str]:
    yield f"<h2>{html_text(table.title)}</h2>"
    if table.rows:
        yield html_table(table.columns, table.rows)


def _attempt(attempt: AttemptView) -> Iterable[str]:
    label = html_text(attempt.label)
    yield (
        f'<details><summary><b class="{label}">{label}</b> {html_text(attempt.title)}'
        f" {html_text(attempt.points)}</summary>"
    )
    for text in (attempt.description, attempt.facts, attempt.reason):
        if text:
            yield f"<p>{html_text(text)}</p>"
    if attempt.checks is not None and attempt.checks.rows:
        yield html_table(attempt.checks.columns, attempt.checks.rows)
    for speaker, texts in attempt.transcript:
        yield f'<p class="who">{html_text(speaker)}</p>'
        yield from (f"<pre>{html_text(text)}</pre>" for text in texts)
    yield "</details>"
