"""Progress of a run on standard error: a live bar on a terminal, one line per attempt in a log."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.core.console.terminal import is_interactive, print_status

ShowAttempt = Callable[[str], None]


@contextmanager
def show_progress(total: int, *, done: int = 0) -> Iterator[ShowAttempt]:
    """Yield a function that shows one finished attempt; `done` attempts are finished already."""
    display = _live(total, done) if is_interactive(sys.stderr) else _plain(total, done)
    with display as show:
        yield show


@contextmanager
def _plain(total: int, done: int) -> Iterator[ShowAttempt]:
    def show(line: str) -> None:
        nonlocal done
        done += 1
        print_status(f"{done}/{total} {line}")

    print_status(f"{total - done} attempts")
    yield show


@contextmanager
def _live(total: int, done: int) -> Iterator[ShowAttempt]:
    # rich takes long to import; runs without a terminal do without.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        bar = progress.add_task("attempts", total=total, completed=done)

        def show(line: str) -> None:
            progress.advance(bar)
            # Text, because rich would read [PASS] in a plain string as markup.
            progress.console.print(Text(line))

        yield show
