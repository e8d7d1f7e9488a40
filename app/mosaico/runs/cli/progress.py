"""Follows a run on the command line until it has ended: its progress, what to print when, and its outcome."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from mosaico.core.console.api_client import ApiClient
from mosaico.core.console.api_responses import ServiceUnreachable, parse_response
from mosaico.core.console.event_stream import ServerSentEvent
from mosaico.core.console.table import format_cell
from mosaico.core.console.terminal import (
    EXIT_INTERRUPTED,
    EXIT_UNSUCCESSFUL,
    is_interactive,
    print_json,
    print_status,
)
from mosaico.core.errors import Unavailable
from mosaico.core.web.page_paths import path_of
from mosaico.run_store.rules import RunStatus, Validity
from mosaico.runs.schemas import RunView

STEP_PERCENT = 10
SILENCE_S = 30.0
MAX_OUTAGE_S = 60.0
RECONNECT_S = 0.5


def percent(run: RunView) -> int | None:
    """Percentage of the traces that the current step has done; None while their number is unknown."""
    total = run.traces_total
    done = run.traces_processed if _is_measuring(run) else run.traces_collected
    return 100 * done // total if total else None


def _is_measuring(run: RunView) -> bool:
    # The first measured traces arrive after the last one is collected.
    return bool(run.traces_processed)


def _stage_name(run: RunView) -> str:
    return f"{run.status} {'measuring' if _is_measuring(run) else 'collecting'}"


def describe_run(run: RunView) -> str:
    """Return one line about a run: its progress, or its outcome with the reasons."""
    if run.status is RunStatus.PENDING:
        return "PENDING waits for a worker"
    if not run.status.is_final:
        share = percent(run)
        if run.waiting_for:
            return f"{run.status} waits for {format_cell(run.waiting_for)}"
        if share is None:
            return f"{run.status} collecting traces"
        total = run.traces_total
        if _is_measuring(run):
            return f"{run.status} {share} % ({run.traces_processed} of {total} traces measured)"
        return f"{run.status} {share} % ({run.traces_collected} of {total} traces collected)"
    parts = [str(run.status)]
    if run.validity:
        parts.append(run.validity)
    parts.append(f"{run.traces_processed} traces")
    seconds = duration_s(run)
    if seconds is not None:
        parts.append(f"in {seconds:.1f} s")
    reasons = [
        *(run.validity_reasons or []),
        run.error_message or "",
        run.source_warning or "",
        run.metric_warning or "",
    ]
    why = "; ".join(format_cell(reason) for reason in reasons if reason)
    return " ".join(parts) + (f": {why}" if why else "")


def duration_s(run: RunView) -> float | None:
    """Seconds from the start of a run to its end; None while it runs."""
    if not (run.started_at and run.completed_at):
        return None
    return (run.completed_at - run.started_at).total_seconds()


def run_exit_code(run: RunView) -> int:
    """0 when the run completed and is valid, 3 otherwise."""
    is_valid = run.status is RunStatus.COMPLETED and run.validity is Validity.VALID
    return 0 if is_valid else EXIT_UNSUCCESSFUL


class RunFollower:
    """The state of a run that is followed until it has ended, over one connection after the other."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.last_id: str | None = None
        self._run: RunView | None = None
        self._clock = clock
        self._last_event_at = clock()

    @property
    def ended_run(self) -> RunView | None:
        """The run if it has ended."""
        return self._run if self._run is not None and self._run.status.is_final else None

    @contextmanager
    def tolerate_outage(self) -> Iterator[None]:
        """Ignore that a connection fails, for a minute; the first connection must not fail."""
        try:
            yield
        except (ServiceUnreachable, Unavailable):
            if self._run is None or self._clock() - self._last_event_at > MAX_OUTAGE_S:
                raise

    def read(self, event: ServerSentEvent) -> RunView | None:
        """The run after an event; None if no event had it yet."""
        self._last_event_at, self.last_id = self._clock(), event.id or self.last_id
        if event.data:
            self._run = parse_response(RunView, event.data)
        return self._run


def follow_run(
    api: ApiClient,
    path: str,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[RunView]:
    """The run, again at each change and each keep-alive event, until it has ended.

    When the service becomes unreachable, it is tried again for up to a minute.
    Raises: `ServiceUnreachable` or `Unavailable` after that, or immediately at the first request.
    """
    follower = RunFollower(clock)
    while follower.ended_run is None:
        with follower.tolerate_outage():
            for event in api.events(f"{path}/events", follower.last_id):
                run = follower.read(event)
                if run is not None:
                    yield run
        if follower.ended_run is None:
            sleep(RECONNECT_S)


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


class ProgressLog:
    """Progress in a log: a line at the start, at each tenth of the traces, and after 30 s without a line."""

    def __init__(self) -> None:
        self._printed_stage: tuple[str, int] | None = None
        self._printed_at = 0.0

    def __call__(self, run: RunView) -> None:
        if self.is_due(run, time.monotonic()):
            print_status(f"run {format_cell(run.id)} {describe_run(run)}")

    def is_due(self, run: RunView, now_s: float) -> bool:
        stage = (_stage_name(run), (percent(run) or 0) // STEP_PERCENT)
        due = stage != self._printed_stage or now_s - self._printed_at >= SILENCE_S
        if due:
            self._printed_stage, self._printed_at = stage, now_s
        return due


def _print_nothing(run: RunView) -> None:
    """Progress of --quiet."""


def _progress_printer() -> _ProgressLine | ProgressLog:
    is_dumb = os.environ.get("TERM", "dumb") == "dumb"
    return _ProgressLine() if is_interactive(sys.stderr) and not is_dumb else ProgressLog()


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
    if run.verdict is not None:
        # A first run has only the explanation.
        name = f"{run.verdict.verdict}: " if run.verdict.verdict else ""
        print_status(f"{name}{format_cell(run.verdict.explanation)}")
    if run.status is RunStatus.COMPLETED:
        print_status(f"next: `mosaico runs show {format_cell(run.id)}`")
    if exit_status and run_exit_code(run):
        raise typer.Exit(run_exit_code(run))
