"""`mosaico`: the command line of the service.

Start-up time counts: shell completion and scripts start the program often. `mosaico --help` reads
the table below and imports no command; every `cli` module imports heavy packages (pydantic, httpx,
the API client, rich) inside the functions that need them. A unit test asserts this.
"""

import gc
import importlib
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, NamedTuple, NoReturn

import typer

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


class Heading(StrEnum):
    """The headings of `mosaico --help`, in their order."""

    FILES = "Results in files, without a server"
    BENCHMARKS = "Agents, benchmarks and runs"
    ALERTS = "Alerts and notifications"
    HARNESSES = "Harnesses"
    SERVICE = "The service"
    ADMINISTRATION = "Administration"


class Entry(NamedTuple):
    """Location (`module:attribute`), help line and heading of a command or group of another module.

    A command in the group of another domain has no heading.
    """

    location: str
    help: str
    heading: Heading | None = None


# Nearly all that a command imports and reads stays until its end: by default Python searches it for garbage after
# every 700 objects, which takes a tenth of the time of a command. The processes of the service are not in the table.
GARBAGE_THRESHOLDS = (50_000, 20, 20)

# A name of two words adds a command to the group of another domain: `runs report` belongs to
# reporting, which is above runs in the import order.
COMMANDS = {
    "init": Entry(
        "mosaico.project_file.init_cli:cli",
        "Write a mosaico.yaml for what this folder and the environment hold.",
        Heading.BENCHMARKS,
    ),
    "compare": Entry(
        "mosaico.reporting.compare_cli:cli",
        "Compare two files of results: verdict, interval and flipped items. No server is needed.",
        Heading.FILES,
    ),
    "watch": Entry(
        "mosaico.reporting.watch_cli:cli",
        "Compare two files of results again when one of them changes.",
        Heading.FILES,
    ),
    "score": Entry(
        "mosaico.reporting.score_cli:cli",
        "Compute metrics of a file of results. No server is needed.",
        Heading.FILES,
    ),
    "gate": Entry(
        "mosaico.gating.cli:cli", "Pass or fail a run against its baseline, for CI.", Heading.FILES
    ),
    "db": Entry(
        "mosaico.postgres.cli:cli",
        "Start, stop, inspect and upgrade the database.",
        Heading.SERVICE,
    ),
    "apply": Entry(
        "mosaico.project_file.cli:apply_cli",
        "Create and change agents, benchmarks, alert rules and schedules as a file describes them.",
        Heading.BENCHMARKS,
    ),
    "export": Entry(
        "mosaico.project_file.cli:export_cli",
        "Write agents, benchmarks, alert rules and schedules of the service as such a file.",
        Heading.BENCHMARKS,
    ),
    "agents": Entry("mosaico.agents.cli:cli", "Manage agents.", Heading.BENCHMARKS),
    "benchmarks": Entry(
        "mosaico.benchmarks.cli:cli", "Manage benchmarks and their KPIs.", Heading.BENCHMARKS
    ),
    "datasets": Entry(
        "mosaico.traces.uploads.cli:cli", "Manage uploaded datasets.", Heading.BENCHMARKS
    ),
    "items": Entry(
        "mosaico.traces.datasets.cli:cli",
        "Manage the items of datasets, and their versions.",
        Heading.BENCHMARKS,
    ),
    "runs": Entry(
        "mosaico.runs.cli.runs:cli", "Start, watch and compare benchmark runs.", Heading.BENCHMARKS
    ),
    "runs execute": Entry(
        "mosaico.runs.cli.execute:execute_runs",
        "Run your own agent over a dataset: a command, once per item. No server is needed.",
    ),
    "runs compare": Entry(
        "mosaico.comparison.cli:compare",
        "Compare a run with others: verdicts, flipped items, and the features common to flipped items.",
    ),
    "runs report": Entry(
        "mosaico.reporting.cli:report",
        "Write a report of a run: its page as one self-contained HTML file, with its worst traces.",
    ),
    "runs traces": Entry(
        "mosaico.runs.cli.traces:list_traces",
        "List the traces of a run, in the order of the source.",
    ),
    "runs trace": Entry(
        "mosaico.runs.cli.traces:show_trace",
        ("Show a trace: metric values, texts, and the steps of the agent if the source has them."),
    ),
    "runs export": Entry(
        "mosaico.runs.cli.export:export",
        "Write the traces of a run as rows: texts, outcome, and a column for each metric.",
    ),
    "history": Entry(
        "mosaico.runs.cli.export:history",
        "Read and export the history of KPIs.",
        Heading.BENCHMARKS,
    ),
    "runs view": Entry(
        "mosaico.reporting.cli:view",
        "Write the traces of a run as an HTML page: transcripts, filters by result and category.",
    ),
    "annotations": Entry(
        "mosaico.annotations.cli:cli",
        "Judge answers; list, export and import what people say.",
        Heading.BENCHMARKS,
    ),
    "schedules": Entry("mosaico.schedules.cli:cli", "Manage schedules.", Heading.BENCHMARKS),
    "cron": Entry(
        "mosaico.schedules.cli:cron_cli", "Preview cron expressions.", Heading.BENCHMARKS
    ),
    "alerts": Entry(
        "mosaico.alerts.cli:cli", "Read alerts; manage alert rules and silences.", Heading.ALERTS
    ),
    "incidents": Entry(
        "mosaico.alerts.incident_cli:cli",
        "Read incidents; acknowledge and assign them; accept new levels.",
        Heading.ALERTS,
    ),
    "notes": Entry(
        "mosaico.notes.cli:cli",
        "Read, write and delete notes about runs, items and incidents.",
        Heading.ALERTS,
    ),
    "notify": Entry(
        "mosaico.notifications.cli:cli",
        "Manage notification endpoints and deliveries.",
        Heading.ALERTS,
    ),
    "inbox": Entry(
        "mosaico.notifications.cli:inbox", "Read the notifications of the service.", Heading.ALERTS
    ),
    "bash-eval": Entry(
        "mosaico.harness.bash.cli:cli",
        "Evaluate how well a model works in a sandboxed bash.",
        Heading.HARNESSES,
    ),
    "ot-bench": Entry(
        "mosaico.harness.mcp.cli.ot_bench:cli",
        "Evaluate models and MCP servers, and measure the cost of their tools.",
        Heading.HARNESSES,
    ),
    "mcp": Entry(
        "mosaico.mcp_server.cli:cli",
        "Serve the results to coding agents, over the Model Context Protocol.",
        Heading.BENCHMARKS,
    ),
    "formula": Entry(
        "mosaico.metrics.formula_cli:cli", "Check and evaluate KPI formulas.", Heading.FILES
    ),
    "demo": Entry(
        "mosaico.overview.cli:cli",
        "Load sample data: two runs of an agent, the second one worse.",
        Heading.SERVICE,
    ),
    "doctor": Entry(
        "mosaico.doctor_cli:cli",
        "Check the installation: database, ports, clock, worker, keys and more.",
        Heading.ADMINISTRATION,
    ),
    "backup": Entry(
        "mosaico.backup_cli:backup_cli",
        "Write the whole database as one file, while the service runs.",
        Heading.SERVICE,
    ),
    "restore": Entry(
        "mosaico.backup_cli:restore_cli",
        "Fill an empty database from a backup.",
        Heading.SERVICE,
    ),
    "purge": Entry(
        "mosaico.purge_cli:cli",
        "Delete the traces of old runs. Their history is kept.",
        Heading.ADMINISTRATION,
    ),
    "secrets": Entry(
        "mosaico.secrets_cli:cli",
        "Manage the master keys that encrypt stored secrets.",
        Heading.ADMINISTRATION,
    ),
    "keys": Entry("mosaico.access.cli:cli", "Manage API keys.", Heading.ADMINISTRATION),
    "people": Entry(
        "mosaico.access.cli:people_cli",
        "Show the people who have logged in, and block them.",
        Heading.ADMINISTRATION,
    ),
    "audit": Entry(
        "mosaico.access.cli:audit",
        "Show the audit log, newest first. Requires an admin key.",
        Heading.ADMINISTRATION,
    ),
}


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
    from mosaico.serve import end_with_parent
    from mosaico.worker import run_worker

    _show_tracebacks()
    end_with_parent()
    run_worker(load_settings(), _split_names(queues))


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
