"""Progress of a run on standard error: a live view on a terminal, one line per attempt in a log."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mosaico.core.console.terminal import escape_line, is_interactive, print_status
from mosaico.core.text import count_noun
from mosaico.harness.reports.text import attempt_line, failure_lines
from mosaico.harness.reports.view import AttemptStatus, AttemptView
from mosaico.harness.running_attempts import (
    RunningAttempts,
    collect_running_attempts,
    describe_activity,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

ShowAttempt = Callable[[AttemptView], None]

BAR_WIDTH: Final = 20
# The waits before retries are 2, 4, 8 and 16 s; the short ones are not worth a line in a log.
LOGGED_WAIT_S: Final = 5.0
POLL_S = 1.0

_STYLES: Final = {
    AttemptStatus.PASSED: "green",
    AttemptStatus.FAILED: "red",
    AttemptStatus.ERROR: "yellow",
}
_COUNTED: Final = {
    AttemptStatus.PASSED: "passed",
    AttemptStatus.FAILED: "failed",
    AttemptStatus.NEUTRAL: "without a verdict",
    AttemptStatus.ERROR: "errored",
    AttemptStatus.SKIPPED: "not reached",
}


@dataclass(slots=True)
class RunProgress:
    """The attempts of a run so far; `done_before` were finished by an earlier run."""

    total: int
    done_before: int = 0
    counts: Counter[AttemptStatus] = field(default_factory=Counter)

    @property
    def done(self) -> int:
        return self.done_before + self.counts.total()

    def describe(self) -> str:
        """`12 of 58: 10 passed, 2 failed`; a status without attempts is left out."""
        counts = [
            f"{self.counts[status]} {name}"
            for status, name in _COUNTED.items()
            if self.counts[status]
        ]
        return f"{self.done} of {self.total}" + (f": {', '.join(counts)}" if counts else "")

    def remaining_s(self, elapsed_s: float) -> float | None:
        """The estimated time to the end, by the mean pace so far; None before the first attempt."""
        finished = self.counts.total()
        return elapsed_s / finished * (self.total - self.done) if finished else None


def is_shown_live() -> bool:
    """Return whether a person saw every finished attempt and reads the report in the same
    terminal.
    """
    return is_interactive(sys.stderr) and is_interactive(sys.stdout)


@contextmanager
def show_progress(total: int, *, done: int = 0, no_color: bool = False) -> Iterator[ShowAttempt]:
    """Yield a function that shows one finished attempt; `done` attempts are finished already.

    Attempts that were not reached are counted and reported in one line at the end.
    """
    progress = RunProgress(total, done)
    display = _live(progress, no_color=no_color) if is_interactive(sys.stderr) else _log(progress)
    with display as print_attempt:

        def show(attempt: AttemptView) -> None:
            progress.counts[attempt.status] += 1
            if attempt.status is not AttemptStatus.SKIPPED:
                print_attempt(attempt)

        yield show
    if skipped := progress.counts[AttemptStatus.SKIPPED]:
        print_status(f"{count_noun(skipped, 'attempt was', 'attempts were')} not reached")


@contextmanager
def _log(progress: RunProgress) -> Iterator[ShowAttempt]:
    print_status(count_noun(progress.total - progress.done, "attempt"))
    with collect_running_attempts() as board, _logged_waits(board):
        yield lambda attempt: print_status(
            f"{progress.done}/{progress.total} {attempt_line(attempt)}"
        )


@contextmanager
def _logged_waits(board: RunningAttempts) -> Iterator[None]:
    """Print a line for each long wait before a retry: a run that only waits must not look dead."""
    ended = threading.Event()
    log = WaitLog(board)

    def watch() -> None:
        while not ended.wait(POLL_S):
            for line in log.new_lines(time.time()):
                print_status(line)

    # A thread, because the log is used by runs with and without an event loop.
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


@dataclass(slots=True)
class WaitLog:
    """The waits of running attempts that a log has not shown yet."""

    board: RunningAttempts
    shown: set[tuple[str, float]] = field(default_factory=set)

    def new_lines(self, now: float) -> list[str]:
        """A line for each wait that ends in `LOGGED_WAIT_S` or more; `now` is since the epoch."""
        lines = []
        # A copy: the run changes the list while another thread reads it.
        for attempt in list(self.board.attempts):
            wait = attempt.llm.current_wait() if attempt.llm is not None else None
            if wait is None or wait.until - now < LOGGED_WAIT_S:
                continue
            key = (attempt.label, wait.until)
            if key not in self.shown:
                self.shown.add(key)
                lines.append(describe_activity(attempt, time.monotonic()))
        return lines


@contextmanager
def _live(progress: RunProgress, *, no_color: bool) -> Iterator[ShowAttempt]:
    # rich takes long to import; runs without a terminal do without.
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    # None, not False: rich then reads NO_COLOR.
    console = Console(stderr=True, highlight=False, no_color=no_color or None)
    with collect_running_attempts() as board:
        view = _LiveView(progress, board, time.monotonic())
        # Drawn again four times a second: a wait goes on without any event.
        with Live(get_renderable=view.render, console=console, transient=True) as live:

            def print_attempt(attempt: AttemptView) -> None:
                # Text, because rich would read [PASS] in a plain string as markup.
                style = _STYLES.get(attempt.status, "")
                live.console.print(Text(attempt_line(attempt), style=style))
                for line in failure_lines(attempt):
                    live.console.print(Text(line))

            yield print_attempt


@dataclass(slots=True)
class _LiveView:
    """A bar with the counts and the estimate, and a line per attempt in progress."""

    progress: RunProgress
    board: RunningAttempts
    started_s: float

    def render(self) -> "RenderableType":
        # Only a terminal needs rich, which takes long to import.
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        now_s = time.monotonic()
        # A copy: the run changes the list while another thread draws it.
        running = [
            Text(
                f"  {escape_line(describe_activity(attempt, now_s))}",
                no_wrap=True,
                overflow="ellipsis",
            )
            for attempt in list(self.board.attempts)
        ]
        total = max(self.progress.total, 1)
        line = Table.grid(padding=(0, 1))
        line.add_row(
            ProgressBar(total=total, completed=self.progress.done, width=BAR_WIDTH),
            Text(self._summary(now_s), no_wrap=True, overflow="ellipsis"),
        )
        return Group(*running, line)

    def _summary(self, now_s: float) -> str:
        elapsed_s = now_s - self.started_s
        remaining_s = self.progress.remaining_s(elapsed_s)
        parts = [self.progress.describe(), f"{_clock(elapsed_s)} elapsed"]
        if remaining_s is not None:
            parts.append(f"about {_clock(remaining_s)} left")
        return ", ".join(parts)


def _clock(seconds: float) -> str:
    """`0:41`, `1:02:03`."""
    minutes, remaining_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours}:{minutes:02}:{remaining_seconds:02}"
        if hours
        else f"{minutes}:{remaining_seconds:02}"
    )
