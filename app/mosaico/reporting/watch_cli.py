"""`mosaico watch`: compares two files of results again whenever one of them changes."""

import inspect
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import typer

from mosaico.core.console.terminal import (
    EXIT_INTERRUPTED,
    CommandGroup,
    WrongUsage,
    escape_line,
    is_interactive,
    print_result,
    print_status,
)
from mosaico.core.errors import AppError
from mosaico.project_file.benchmark_options import FILE_NAME, BenchmarkOptions
from mosaico.reporting.compare_cli import compare_files

INTERVAL_S: Final = 0.3
# Clears a terminal, and puts the cursor at its beginning.
CLEAR: Final = "\x1b[2J\x1b[H"

cli = CommandGroup("watch", help="Compare two files of results again when one of them changes.")

# The inode changes where a program writes another file and renames it.
Stamp = tuple[int, int, int] | None


def watch_files(**options: Any) -> None:
    """Compare two files of results again when one of them changes.

    Takes the options of `mosaico compare`. A file that is missing or half written is waited for. Ctrl-C ends the
    command (exit code 130).
    """
    paths = _watched(options)
    try:
        for _ in iter_changes(paths, lambda: time.sleep(INTERVAL_S)):
            _show(options)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None


# The command has the options of `compare`, whatever they are.
watch_files.__signature__ = inspect.signature(compare_files)  # type: ignore[attr-defined]
watch_files.__annotations__ = dict(compare_files.__annotations__)
cli.command("watch")(watch_files)


def iter_changes(paths: Sequence[Path], wait: Callable[[], None]) -> Iterator[None]:
    """Yields at the start and after each change of a file, when no file has changed during one `wait`. A change while
    the caller works on the last one counts, too.
    """
    seen: list[Stamp] | None = None
    last: list[Stamp] | None = None
    while True:
        stamps = [_stamp(path) for path in paths]
        if stamps == last and stamps != seen:
            seen = stamps
            yield
        last = stamps
        wait()


def _watched(options: dict[str, Any]) -> list[Path]:
    """The files that decide what a comparison shows; those that may still be written, too."""
    chosen: BenchmarkOptions = options["benchmark_options"]
    config = None if chosen.no_config else chosen.config or FILE_NAME
    optional_paths = [*(options["history"] or ()), config]
    given = (Path(path) for path in optional_paths if path is not None)
    return [options["base"], options["candidate"], *given]


def _stamp(path: Path) -> Stamp:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _show(options: dict[str, Any]) -> None:
    """One comparison on one screen. Raises: `WrongUsage`, which no change of a file corrects."""
    if is_interactive(sys.stdout):
        sys.stdout.write(CLEAR)
    try:
        compare_files(**options)
    except WrongUsage:
        raise
    except AppError as error:
        print_status(f"waiting for the next change: {escape_line(str(error))}")
        return
    except typer.Exit:
        # A file with too few valid results; the comparison says so.
        pass
    if is_interactive(sys.stdout):
        print_result("")
    sys.stdout.flush()
    names = " and ".join(str(options[name]) for name in ("base", "candidate"))
    print_status(f"watching {escape_line(names)}; Ctrl-C ends")
