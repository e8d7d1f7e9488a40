"""Writes the report files that a command names; JUnit XML is made here."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mosaico.core.console.files import replaced_file, require_file, write_text
from mosaico.core.console.terminal import print_status
from mosaico.core.reports import JUnitCase, JUnitProblem, junit_xml
from mosaico.harness.reports.html import html_report
from mosaico.harness.reports.inspect_log import inspect_archive, inspect_json
from mosaico.harness.reports.text import markdown_report
from mosaico.harness.reports.view import AttemptStatus, AttemptView, RunReportView


def write_reports(
    view: RunReportView,
    *,
    junit: Path | None,
    html: Path | None,
    inspect: Path | None = None,
    markdown: Path | None = None,
) -> None:
    """Write the reports that have a path. Raises: `UnwritableOutput`."""
    if junit is not None:
        write_report(junit, junit_report(view))
    if html is not None:
        write_report(html, html_report(view))
    if markdown is not None:
        write_report(markdown, markdown_report(view))
    if inspect is not None:
        is_json = inspect.suffix == ".json"
        write_report(inspect, inspect_json(view) if is_json else inspect_archive(view))


def write_report(path: Path, content: str | bytes) -> None:
    """Write a report into a folder that is created if necessary. Raises: `UnwritableOutput`."""
    require_file(path)
    if isinstance(content, str):
        write_text(path, content)
    else:
        with replaced_file(path) as draft:
            draft.write_bytes(content)
    print_status(f"written to {path}")


_PROBLEMS: Final[Mapping[AttemptStatus, JUnitProblem]] = {
    AttemptStatus.FAILED: "failure",
    AttemptStatus.ERROR: "error",
    AttemptStatus.SKIPPED: "skipped",
}


def junit_report(view: RunReportView) -> str:
    """One test suite with a test case per attempt."""
    cases = list(map(_case, view.attempts))
    return junit_xml(view.program, cases, timestamp=view.timestamp.removesuffix("Z"))


def _case(attempt: AttemptView) -> JUnitCase:
    problem = _PROBLEMS.get(attempt.status)
    return JUnitCase(
        classname=attempt.group,
        name=attempt.case,
        problem=problem,
        message=attempt.reason,
        type=attempt.error_kind if problem == "error" else None,
        text="\n".join(attempt.failures) if problem == "failure" else None,
        duration_s=attempt.duration_s,
    )
