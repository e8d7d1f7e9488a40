"""Runs a command line as a program: its exit code when nobody reads its output, and unexpected errors."""

import os
import sys
from collections.abc import Callable
from typing import Any

import typer

from mosaico.core.console.stream_encoding import set_safe_encoding
from mosaico.core.console.terminal import CommandGroup, print_result, print_status
from mosaico.core.errors import AppError

# 128 + SIGPIPE, as the shell reports it of git and gh. Not 0: a gate whose report was cut off has not passed.
EXIT_PIPE_CLOSED = 141


def run_program(cli: typer.Typer, describe_version: Callable[[], str] | None = None) -> None:
    """Run the command that the arguments of this process name, as the entry point of a program.

    `describe_version` gives the line of `--version`, of a program that is not `mosaico` itself.
    """
    # Set first: an error while the command line is built is reported in the same form.
    sys.excepthook = report_unexpected_error
    set_safe_encoding((sys.stdout, sys.stderr))
    if describe_version is not None and sys.argv[1:] == ["--version"]:
        print_result(describe_version())
        return
    command: Any = typer.main.get_command(cli)
    if isinstance(cli, CommandGroup):
        command.params.extend(typer.main.get_install_completion_arguments())
    try:
        command()  # calling `cli` itself would install an exception hook of typer
    except SystemExit as end:
        sys.exit(_exit_code(end))


def version_of(program: str) -> str:
    """The version of a program of this package, which has one version."""
    # It loads a parser of mails, which takes a tenth of the start of a program.
    from importlib.metadata import version

    return f"{program} of mosaico {version('mosaico')}"


def report_unexpected_error(kind: type[BaseException], error: BaseException, _: object) -> None:
    """Exception hook: one line instead of a traceback, and the exit code of internal errors."""
    print_status(f"error: {kind.__name__}: {error}")
    print_status("hint: this is a bug; run `mosaico --debug …` to see the traceback")
    sys.exit(AppError.exit_code)


def _exit_code(end: SystemExit) -> Any:
    """The exit code of a program that ends: `EXIT_PIPE_CLOSED` if nobody read the rest of its output.

    Output that is still in the buffer is written first. An error keeps its code: that of a gate decides a build.
    """
    if isinstance(end.__context__, BrokenPipeError):
        return EXIT_PIPE_CLOSED
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would write the rest once more, when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return end.code or EXIT_PIPE_CLOSED
    return end.code
