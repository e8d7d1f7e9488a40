from collections.abc import Callable, Mapping
from typing import Final

from app.harness.bash.reports.html import html_report
from app.harness.bash.reports.markdown import markdown_report, original_markdown_report
from app.harness.bash.reports.structured import json_report
from app.harness.bash.reports.terminal import terminal_report
from app.harness.bash.types import EvalReport

REPORTS: Final[Mapping[str, Callable[[EvalReport], str]]] = {
    "terminal": terminal_report,
    "json": json_report,
    "markdown": markdown_report,
    "markdown-original": original_markdown_report,
    "html": html_report,
}


def render(report: EvalReport, form: str) -> str:
    """The run in one of the forms of `REPORTS`."""
    return REPORTS[form](report)
