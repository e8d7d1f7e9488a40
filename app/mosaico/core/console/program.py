"""Runs a command line as a program: its exit code when nobody reads its output, and unexpected errors."""

import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from mosaico.core.console.stream_encoding import set_safe_encoding
from mosaico.core.console.terminal import CommandGroup, print_status
from mosaico.core.errors import AppError

# 128 + SIGPIPE, as the shell reports it of git and gh. Not 0: a gate whose report was cut off has not passed.
EXIT_PIPE_CLOSED = 141


def run_program(cli: typer.Typer, show_version: Callable[[], None] | None = None) -> None:
    """Run the command that the arguments of this process name, as the entry point of a program.

    `show_version` is the option `--version` of a program that is not `mosaico` itself.
    """
    # Set first: an error while the command line is built is reported in the same form.
    sys.excepthook = report_unexpected_error
    set_safe_encoding((sys.stdout, sys.stderr))
    if show_version is not None:
        _add_version(cli, show_version)
    command: Any = typer.main.get_command(cli)
    if isinstance(cli, CommandGroup):
        command.params.extend(typer.main.get_install_completion_arguments())
    try:
        command()  # calling `cli` itself would install an exception hook of typer
    except SystemExit as end:
        sys.exit(_exit_code(end))


def _add_version(cli: typer.Typer, show_version: Callable[[], None]) -> None:
    """Add the option `--version` to a program."""

    def show(is_given: bool) -> None:  # noqa: FBT001 - a callback
        if is_given:
            show_version()
            raise typer.Exit

    @cli.callback(help=cli.info.help)
    def root(
        *,
        version: Annotated[
            bool,
            typer.Option(
                "--version", help="Print the version and exit.", is_eager=True, callback=show
            ),
        ] = False,
    ) -> None:
        del version


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
