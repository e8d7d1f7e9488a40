"""Writes the report files that a command names."""

from pathlib import Path

from app.core.console.files import require_file, write_text
from app.core.console.terminal import print_status
from app.harness.reports.html import html_report
from app.harness.reports.junit import junit_report
from app.harness.reports.markdown import markdown_report
from app.harness.reports.view import RunReportView


def write_reports(
    view: RunReportView,
    *,
    junit: Path | None = None,
    html: Path | None = None,
    markdown: Path | None = None,
) -> None:
    """Write the reports that have a path. Raises: `UnwritableOutput`."""
    if junit is not None:
        write_report(junit, junit_report(view))
    if html is not None:
        write_report(html, html_report(view))
    if markdown is not None:
        write_report(markdown, markdown_report(view))


def write_report(path: Path, text: str) -> None:
    """Write a report into a folder that is created if necessary. Raises: `UnwritableOutput`."""
    require_file(path)
    write_text(path, text)
    print_status(f"written to {path}")
