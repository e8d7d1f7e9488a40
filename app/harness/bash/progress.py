"""How a run is followed: a live bar for a person, a line for each task for a log."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.core.console.terminal import is_interactive, print_status
from app.harness.bash.reports.terminal import task_lines
from app.harness.bash.types import EvalResult

Show = Callable[[EvalResult], None]


@contextmanager
def followed(total: int) -> Iterator[Show]:
    """Shows each result on standard error as it comes."""
    with _live(total) if is_interactive(sys.stderr) else _plain(total) as show:
        yield show


@contextmanager
def _plain(total: int) -> Iterator[Show]:
    done = 0

    def show(result: EvalResult) -> None:
        nonlocal done
        done += 1
        print_status(f"{done}/{total} {next(iter(task_lines(result)))}")

    print_status(f"{total} attempts")
    yield show


@contextmanager
def _live(total: int) -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        bar = progress.add_task("tasks", total=total)

        def show(result: EvalResult) -> None:
            progress.advance(bar)
            progress.console.print(Text(next(iter(task_lines(result)))))

        yield show
