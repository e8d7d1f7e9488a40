"""Follows a run on the command line until it has ended, and prints its progress and its outcome."""

import os
import shutil
import sys
import time
from typing import NoReturn

import typer

from app.core.console.api_client import ApiClient
from app.core.console.table import format_cell
from app.core.console.terminal import (
    EXIT_INTERRUPTED,
    EXIT_UNSUCCESSFUL,
    is_interactive,
    print_json,
    print_status,
)
from app.core.web.page_paths import path_of
from app.results.rules import RunStatus
from app.runs.cli.progress import ProgressReporter, describe_run, follow_run, run_exit_code
from app.runs.schemas import RunView

PATH = "/benchmark-runs"
CANCEL_WINDOW_S = 2.0
CLEAR_LINE = "\r\x1b[K"


def watch_run_until_end(
    api: ApiClient, run_id: str, *, quiet: bool, jsonl: bool = False
) -> RunView:
    """The run after it has ended. Ctrl-C ends the command, not the run."""
    # Once: `latest` may be another run a moment later.
    run_id = api.full_id(PATH, run_id)
    print_progress = _print_nothing if quiet else _progress_printer()
    latest: RunView | None = None
    try:
        for run in follow_run(api, f"{PATH}{path_of(run_id)}"):
            if jsonl and run != latest:
                print_json(run.model_dump(mode="json"), flush=True)
            latest = run
            if not run.status.is_final:
                print_progress(run)
    except KeyboardInterrupt:
        detach(api, run_id)
    assert latest is not None, "follow() raises if it cannot read the run"
    return latest


class _ProgressLine:
    """Progress on a terminal: one line that is overwritten."""

    def __call__(self, run: RunView) -> None:
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r{describe_run(run)[:width]}\x1b[K")
        sys.stderr.flush()


class _ProgressLog:
    """Progress in a log: few lines, at most one per tenth of the traces or 30 s."""

    def __init__(self) -> None:
        self._progress = ProgressReporter()

    def __call__(self, run: RunView) -> None:
        if self._progress.is_due(run, time.monotonic()):
            print_status(f"run {format_cell(run.id)} {describe_run(run)}")


def _print_nothing(run: RunView) -> None:
    """Progress of --quiet."""


def _progress_printer() -> _ProgressLine | _ProgressLog:
    is_dumb = os.environ.get("TERM", "dumb") == "dumb"
    return _ProgressLine() if is_interactive(sys.stderr) and not is_dumb else _ProgressLog()


def detach(api: ApiClient, run_id: str) -> NoReturn:
    """Stop watching; on a terminal, a second Ctrl-C within two seconds cancels the run."""
    can_cancel = is_interactive(sys.stderr)
    print_status(
        f"\ndetached: the run continues; to watch it again: `mosaico runs watch {format_cell(run_id)}`"
    )
    if can_cancel:
        # The line is printed inside the `try`: Ctrl-C must work as soon as the user can read it.
        try:
            print_status(f"press Ctrl-C once more within {CANCEL_WINDOW_S:g} s to cancel the run")
            time.sleep(CANCEL_WINDOW_S)
        except KeyboardInterrupt:
            api.post(f"{PATH}{path_of(run_id)}/cancel")
            print_status(f"\nrun {format_cell(run_id)} is cancelled")
            raise typer.Exit(EXIT_UNSUCCESSFUL) from None
    raise typer.Exit(EXIT_INTERRUPTED)


def finish_watching(run: RunView, *, exit_status: bool) -> None:
    clear = CLEAR_LINE if isinstance(_progress_printer(), _ProgressLine) else ""
    print_status(f"{clear}run {format_cell(run.id)} {describe_run(run)}")
    if run.status is RunStatus.COMPLETED:
        print_status(f"next: `mosaico runs show {format_cell(run.id)}`")
    if exit_status and run_exit_code(run):
        raise typer.Exit(run_exit_code(run))
