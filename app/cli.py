"""`mosaico`: the command line of the service.

Start-up time counts: shell completion and scripts start the program often. `mosaico --help` reads
the table below and imports no command; every `cli` module imports heavy packages (pydantic, httpx,
the API client, rich) inside the functions that need them. A unit test asserts this.
"""

import gc
import importlib
import sys
from functools import partial
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
from typer.core import TyperGroup

from app.core.console import terminal
from app.core.console.table import field, print_page
from app.core.console.terminal import (
    HELP_OPTIONS,
    Command,
    DeferredCommand,
    Format,
    OutputFormat,
    WrongUsage,
    load_command,
    print_status,
)

GC_THRESHOLD = 50_000


class Entry(NamedTuple):
    """Location (`module:attribute`) and help line of a command or group of another module."""

    location: str
    help: str


# A name of two words adds a command to the group of another domain: `runs report` belongs to
# reporting, which is above runs in the import order.
COMMANDS = {
    "db": Entry("app.postgres.cli:cli", "Start, stop, inspect and upgrade the database."),
    "agents": Entry("app.agents.cli:cli", "Manage agents."),
    "benchmarks": Entry("app.benchmarks.cli:cli", "Manage benchmarks and their KPIs."),
    "datasets": Entry("app.traces.cli:cli", "Manage uploaded datasets."),
    "runs": Entry("app.runs.cli:cli", "Start, watch and compare benchmark runs."),
    "runs compare": Entry(
        "app.comparison.cli:compare",
        "Compare two runs: verdicts, flipped items, and the features that these have in common.",
    ),
    "runs report": Entry(
        "app.reporting.cli:report",
        "Write a report of a run: KPIs with their history, metrics, alerts and the worst traces.",
    ),
    "runs plot": Entry(
        "app.reporting.cli:plot",
        "Draw a run as SVG: the history of a KPI, the changes since a run, or one metric per item.",
    ),
    "runs traces": Entry(
        "app.runs.trace_cli:list_traces",
        "List the traces of a run, in the order of the source.",
    ),
    "runs trace": Entry(
        "app.runs.trace_cli:show_trace",
        "Show a trace: its values, its texts, and every step of the agent where the source has them.",
    ),
    "runs view": Entry(
        "app.reporting.cli:view",
        "Write the traces of a run as an HTML page: transcripts, filters by result and category.",
    ),
    "gate": Entry("app.gate.cli:cli", "Pass or fail a run against its baseline, for CI."),
    "schedules": Entry("app.schedules.cli:cli", "Manage schedules."),
    "cron": Entry("app.schedules.cli:cron_cli", "Preview cron expressions."),
    "alerts": Entry("app.alerts.cli:cli", "Read alerts; manage alert rules and silences."),
    "incidents": Entry(
        "app.alerts.incident_cli:cli", "Read incidents; acknowledge them; accept new levels."
    ),
    "notify": Entry("app.notifications.cli:cli", "Manage notification endpoints and deliveries."),
    "inbox": Entry("app.notifications.cli:inbox", "Read the notifications of the service."),
    "compare": Entry(
        "app.reporting.compare_cli:cli",
        "Compare two files of results: verdict, interval and flipped items. No server is needed.",
    ),
    "score": Entry(
        "app.metrics.cli:cli", "Compute metrics of a file of results. No server is needed."
    ),
    "bash-eval": Entry(
        "app.harness.bash.cli:cli", "Evaluate how well a model works in a sandboxed bash."
    ),
    "ot-bench": Entry(
        "app.harness.mcp.cli:cli",
        "Evaluate models and MCP servers, and measure the cost of their tools.",
    ),
    "formula": Entry("app.formula.cli:cli", "Check and evaluate KPI formulas."),
    "purge": Entry("app.purge_cli:cli", "Delete the traces of old runs. Their history is kept."),
    "secrets": Entry("app.secrets_cli:cli", "Manage the master keys that encrypt stored secrets."),
    "keys": Entry("app.access.cli:cli", "Manage API keys."),
    "audit": Entry(
        "app.access.cli:audit", "Show the audit log, newest first. Requires an admin key."
    ),
}


class Root(TyperGroup):
    """The commands of this module, followed by those of the table."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name in COMMANDS:
            if " " not in name:
                self.add_command(_defer(name))

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


def load_entry(name: str) -> Any:
    """The command or group of the table, with the commands that other domains add to it."""
    module, _, attribute = COMMANDS[name].location.partition(":")
    command = typer.main.get_command(getattr(importlib.import_module(module), attribute))
    for child in COMMANDS:
        if child.startswith(f"{name} ") and isinstance(command, TyperGroup):
            command.add_command(_defer(child))
    return command


def _defer(name: str) -> DeferredCommand:
    return DeferredCommand(
        name.rpartition(" ")[2], partial(load_entry, name), help=COMMANDS[name].help
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
    """Options that stand before the command."""
    if debug:
        _show_tracebacks()
    if show_version:
        _print_version()


@cli.command("help", cls=Command)
def show_help(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Command to explain.")
    ] = None,
) -> None:
    """Show the help of a command, such as `mosaico help runs start`."""
    current: Any = context.parent
    for word in words or ():
        group = load_command(current.command)
        command = group.get_command(current, word) if isinstance(group, TyperGroup) else None
        if command is None:
            raise WrongUsage(
                f"{current.command_path} has no command {word!r}", hint="`mosaico help` lists all"
            )
        current = typer.Context(load_command(command), info_name=word, parent=current)
    terminal.print_result(current.get_help())


@cli.command(cls=Command)
def serve() -> None:
    """Run everything on this machine: embedded database, API, worker and scheduler."""
    from app.core.settings import load_settings
    from app.serve import serve_all

    _show_tracebacks()
    serve_all(load_settings(), print_status)


@cli.command(cls=Command)
def api() -> None:
    """Run one API process."""
    from app.core.settings import load_settings
    from app.main import serve_api
    from app.serve import end_with_parent

    _show_tracebacks()
    end_with_parent()
    serve_api(load_settings())


@cli.command(cls=Command)
def worker() -> None:
    """Run one worker process. Any number may run, on any number of machines."""
    from app.core.settings import load_settings
    from app.serve import end_with_parent
    from app.worker import run_worker

    _show_tracebacks()
    end_with_parent()
    run_worker(load_settings())


@cli.command(cls=Command)
def scheduler() -> None:
    """Run one scheduler process. Several may run: each schedule still fires once."""
    from app.core.settings import load_settings
    from app.scheduler import run_scheduler
    from app.serve import end_with_parent

    _show_tracebacks()
    end_with_parent()
    run_scheduler(load_settings())


@cli.command(cls=Command)
def plugins(output: Format = OutputFormat.TABLE) -> None:
    """List the loaded plugins: metrics, trace sources, channels and evaluators.

    No server is needed. Exit codes: 0 all are loaded, 3 a plugin failed to load.
    """
    from app.plugins import load_plugins, loaded_plugins

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
    # Start-up creates objects that live until exit: collecting garbage meanwhile costs 20 % of it.
    gc.set_threshold(GC_THRESHOLD)
    terminal.run_program(cli)


def _print_version() -> NoReturn:
    from importlib.metadata import version

    terminal.print_result(f"mosaico {version('mosaico')}")
    raise typer.Exit


def _show_tracebacks() -> None:
    sys.excepthook = sys.__excepthook__


if __name__ == "__main__":
    main()
