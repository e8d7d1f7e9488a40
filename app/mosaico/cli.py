"""`mosaico`: the command line of the service.

Start-up time counts: shell completion and scripts start the program often. `mosaico --help` reads
`command_table` and imports no command; every `cli` module imports heavy packages (pydantic, httpx,
the API client, rich) inside the functions that need them. A unit test asserts this.
"""

import gc
import importlib
import sys
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NoReturn

import typer

from mosaico.command_table import COMMANDS, Heading
from mosaico.core.console import terminal
from mosaico.core.console.program import run_program
from mosaico.core.console.table import field, print_page
from mosaico.core.console.terminal import (
    HELP_OPTIONS,
    Command,
    CommandFunction,
    DeferredCommand,
    Format,
    Group,
    OutputFormat,
    WrongUsage,
    load_command,
    print_status,
)

# Nearly all that a command imports and reads stays until its end: by default Python searches it for garbage after
# every 700 objects, which takes a tenth of the time of a command. The processes of the service are not in the table.
GARBAGE_THRESHOLDS = (50_000, 20, 20)


class Root(Group):
    """The commands of this module, followed by those of the table."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name in COMMANDS:
            if " " not in name:
                self.add_command(_defer(name))

    def list_commands(self, ctx: Any) -> list[str]:
        headings = list(Heading)
        commands: Any = self.commands
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: headings.index(commands[name].rich_help_panel))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # Parsing options takes as long as the whole start-up before it.
        if args == ["--version"]:
            _print_version()
        return super().parse_args(ctx, args)


cli = typer.Typer(
    name="mosaico",
    cls=Root,
    help="Benchmarks AI agents and reports whether they got better or worse.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": HELP_OPTIONS},
)


def _command(name: str, heading: Heading) -> Callable[[CommandFunction], CommandFunction]:
    return cli.command(name, cls=Command, rich_help_panel=heading)


def load_entry(name: str) -> Any:
    """The command or group of the table, with the commands that other domains add to it."""
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    module, _, attribute = COMMANDS[name].location.partition(":")
    command = typer.main.get_command(getattr(importlib.import_module(module), attribute))
    for child in COMMANDS:
        if child.startswith(f"{name} ") and isinstance(command, Group):
            command.add_command(_defer(child))
    return command


def _defer(name: str) -> DeferredCommand:
    entry = COMMANDS[name]
    return DeferredCommand(
        name.rpartition(" ")[2],
        partial(load_entry, name),
        help=entry.help,
        rich_help_panel=entry.heading,
    )


@cli.callback(invoke_without_command=True)
def root(
    *,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Print the traceback of an unexpected error.")
    ] = False,
) -> None:
    """Handle the options before the command."""
    if debug:
        _show_tracebacks()
    if show_version:
        _print_version()


@_command("help", Heading.ADMINISTRATION)
def show_help(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="Command to explain.")
    ] = None,
) -> None:
    """Show the help of a command, such as `mosaico help runs start`."""
    current: Any = context.parent
    for word in words or ():
        group = load_command(current.command)
        command = group.get_command(current, word) if isinstance(group, Group) else None
        if command is None:
            raise WrongUsage(
                f"{current.command_path} has no command {word!r}", hint="`mosaico help` lists all"
            )
        current = typer.Context(load_command(command), info_name=word, parent=current)
    terminal.print_result(current.get_help())


@_command("serve", Heading.SERVICE)
def serve(
    api_processes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=64,
            help="Number of API processes on the port. Default: MOSAICO_API_PROCESSES, or 1.",
        ),
    ] = None,
) -> None:
    """Run everything on this machine: embedded database, API, worker and scheduler.

    MOSAICO_HOST and MOSAICO_PORT set the address, MOSAICO_DATA_DIR the data folder.
    """
    from mosaico.core.settings import load_settings
    from mosaico.serve import serve_all

    _show_tracebacks()
    settings = load_settings()
    if api_processes is not None:
        settings = settings.model_copy(update={"api_processes": api_processes})
    serve_all(settings, print_status)


@_command("api", Heading.SERVICE)
def api() -> None:
    """Run one API process."""
    from mosaico.core.settings import load_settings
    from mosaico.main import serve_api
    from mosaico.serve import end_with_parent

    _show_tracebacks()
    end_with_parent()
    serve_api(load_settings())


@_command("worker", Heading.SERVICE)
def worker(
    queues: Annotated[
        str | None,
        typer.Option(
            metavar="QUEUE,…",
            help="Run jobs of these queues only, such as score. Default: all queues.",
        ),
    ] = None,
) -> None:
    """Run one worker process. Any number may run, on any number of machines."""
    from mosaico.core.settings import load_settings
    from mosaico.serve import end_with_parent, is_child_of_serve
    from mosaico.worker import run_worker

    _show_tracebacks()
    end_with_parent()
    run_worker(load_settings(), _split_names(queues), is_alone=not is_child_of_serve())


def _split_names(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",")]


@_command("scheduler", Heading.SERVICE)
def scheduler() -> None:
    """Run one scheduler process. Several may run: each schedule still fires once."""
    from mosaico.core.settings import load_settings
    from mosaico.scheduler import run_scheduler
    from mosaico.serve import end_with_parent

    _show_tracebacks()
    end_with_parent()
    run_scheduler(load_settings())


@_command("plugins", Heading.ADMINISTRATION)
def plugins(output: Format = OutputFormat.TABLE) -> None:
    """List the loaded plugins: metrics, trace sources, channels and evaluators.

    No server is needed. Exit codes: 0 all are loaded, 3 a plugin failed to load.
    """
    from mosaico.overview.providers import loaded_plugins
    from mosaico.plugin_loading import load_plugins

    load_plugins()
    items = [
        {"kind": plugin.kind, "name": plugin.name, "origin": plugin.origin, "error": plugin.error}
        for plugin in loaded_plugins()
    ]
    columns = [field(name) for name in ("kind", "name", "origin", "error")]
    print_page({"items": items, "nextCursor": None}, columns, output)
    if any(item["error"] for item in items):
        raise typer.Exit(terminal.EXIT_UNSUCCESSFUL)


def main() -> None:
    """Entry point of the program `mosaico`."""
    run_program(cli)


def _print_version() -> NoReturn:
    from importlib.metadata import version

    terminal.print_result(f"mosaico {version('mosaico')}")
    raise typer.Exit


def _show_tracebacks() -> None:
    sys.excepthook = sys.__excepthook__


if __name__ == "__main__":
    main()
