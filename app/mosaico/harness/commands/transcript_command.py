"""The commands `show` and `view` of both programs: what a model did, as text and as a page."""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from mosaico.core.console.terminal import (
    OutputFormat,
    WrongUsage,
    escape_line,
    print_json,
    print_result,
)
from mosaico.harness.reports.files import write_report
from mosaico.harness.reports.html import html_report
from mosaico.harness.reports.text import attempt_line
from mosaico.harness.reports.transcript import transcript_lines
from mosaico.harness.reports.view import AttemptView, RunReportView
from mosaico.harness.transcript import document_of


def show_attempts(view: RunReportView, task: str, output: OutputFormat) -> None:
    """Print the attempts at a task with their checks and transcripts. Raises: WrongUsage."""
    attempts = find_attempts(view, task)
    if output is OutputFormat.JSON:
        print_json({"items": [_document(attempt) for attempt in attempts], "nextCursor": None})
        return
    for position, attempt in enumerate(attempts):
        if position:
            print_result("")
        print_result("\n".join(_lines(attempt)))


def write_page(file: Path, view: RunReportView, other: RunReportView | None = None) -> None:
    """Write the page of one run, or of two runs side by side."""
    write_report(file, html_report(view, other))


def find_attempts(view: RunReportView, task: str) -> list[AttemptView]:
    """The attempts at a task, named by its ID or by the last part of it. Raises: WrongUsage."""
    names = list(dict.fromkeys(attempt.task for attempt in view.attempts))
    matching_names = [name for name in names if name == task]
    matching_names = matching_names or [name for name in names if name.rpartition("/")[2] == task]
    if not matching_names:
        raise WrongUsage(f"the result has no task {task!r}", hint=_suggestion(task, names))
    return [attempt for attempt in view.attempts if attempt.task in matching_names]


def _suggestion(task: str, names: Sequence[str]) -> str:
    close = get_close_matches(task, names, cutoff=0.4) or names[:5]
    return f"tasks of this result: {', '.join(close)}" if close else "the result has no tasks"


def _lines(attempt: AttemptView) -> list[str]:
    checks = attempt.checks.rows if attempt.checks is not None else ()
    transcript = attempt.transcript
    nothing_done = "no request was sent to the model" if attempt.asks_model else "no call was made"
    return [
        attempt_line(attempt),
        *(f"  {escape_line('  '.join(filter(None, row)))}" for row in checks),
        "",
        *(transcript_lines(transcript) if transcript else [nothing_done]),
    ]


def _document(attempt: AttemptView) -> dict[str, object]:
    checks = attempt.checks
    return {
        "task": attempt.task,
        "case": attempt.case,
        "result": attempt.label,
        "reason": attempt.reason or None,
        "durationSeconds": attempt.duration_s,
        "checks": [dict(zip(checks.columns, row, strict=True)) for row in checks.rows]
        if checks
        else [],
        "transcript": None if attempt.transcript is None else document_of(attempt.transcript),
    }
