"""`mosaico`: the command line of the service.

A command of this table is imported when it is used, and not before: `mosaico --help` reads the
table alone.
"""

import gc
import importlib
import sys
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from app.core.console import terminal
from app.core.console.terminal import Command, Format, OutputFormat, print_status

if TYPE_CHECKING:
    from typer._click.core import Context


MANY_OBJECTS = 50_000


class Part(NamedTuple):
    """A command or group of another file: `where` is `module:attribute`."""

    where: str
    help: str


PARTS = {
    "db": Part("app.postgres.cli:cli", "Start, find, show and stop the database."),
    "agents": Part("app.agents.cli:cli", "The agents that are benchmarked."),
    "benchmarks": Part(
        "app.benchmarks.cli:cli", "What is measured on which traces, and the KPIs of it."
    ),
    "datasets": Part("app.traces.cli:cli", "Traces that the service keeps itself."),
    "runs": Part("app.runs.cli:cli", "Benchmark runs: start, watch, read."),
    "gate": Part("app.gate.cli:cli", "Hold a run against its baseline, and let it pass or not."),
    "schedules": Part(
        "app.schedules.cli:cli", "Schedules: what runs by the clock, and what became of it."
    ),
    "cron": Part("app.schedules.cli:cron", "Look at a cron expression."),
    "alerts": Part("app.alerts.cli:cli", "Alerts: rules about runs, and what they told."),
    "notify": Part(
        "app.notifications.cli:cli", "Who is told what happens, and whether it arrives."
    ),
    "inbox": Part(
        "app.notifications.cli:inbox", "List the inbox, newest first; show a message; mark as read."
    ),
    "score": Part(
        "app.metrics.cli:cli", "Score the traces of a file and print what they are worth."
    ),
    "bash-eval": Part("app.harness.bash.cli:cli", "How well a model works in a sandboxed bash."),
    "ot-bench": Part(
        "app.harness.mcp.cli:cli", "How well models work with MCP servers, and what these cost."
    ),
    "formula": Part("app.formula.cli:cli", "Check and compute KPI formulas."),
    "purge": Part("app.purge:cli", "Forget the traces of old runs; their history stays."),
    "secrets": Part("app.key_rotation:cli", "The master keys that stored secrets are sealed with."),
    "keys": Part("app.access.cli:cli", "API keys: give out, list, revoke."),
    "audit": Part(
        "app.access.cli:audit", "Show who changed what, newest first; needs an admin key."
    ),
}


class Deferred(TyperCommand):
    """Stands for a command that is imported once somebody asks for it."""

    def __init__(self, name: str, part: Part) -> None:
        super().__init__(name, help=part.help, rich_markup_mode=None)
        self._where = part.where

    def load(self) -> Any:
        """The command itself."""
        module, _, attribute = self._where.partition(":")
        return typer.main.get_command(getattr(importlib.import_module(module), attribute))

    def make_context(
        self, info_name: str | None, args: list[str], parent: "Context | None" = None, **extra: Any
    ) -> "Context":
        context: Context = self.load().make_context(info_name, args, parent, **extra)
        return context


class Root(TyperGroup):
    """The commands of this file, then those of the table."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, part in PARTS.items():
            self.add_command(Deferred(name, part))

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        if args == ["--version"]:  # reading options at all takes as long again
            _print_version()
        return super().parse_args(ctx, args)


cli = typer.Typer(
    name="mosaico",
    cls=Root,
    help="Tells a team, every morning, whether their AI agents got better or worse.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    # Every option has a variable: --limit of `mosaico runs list` is MOSAICO_RUNS_LIST_LIMIT.
    context_settings={"auto_envvar_prefix": "MOSAICO"},
)


@cli.callback(invoke_without_command=True)
def root(
    *,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version.", allow_from_autoenv=False)
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where an unforeseen error came from.")
    ] = False,
) -> None:
    if debug:
        _show_tracebacks()
    if show_version:
        _print_version()


@cli.command(cls=Command)
def serve() -> None:
    """Run everything on this machine: embedded database, API, worker, scheduler."""
    from app.core.settings import load_settings
    from app.serve import serve_all

    _show_tracebacks()
    serve_all(load_settings(), print_status)


@cli.command(cls=Command)
def api() -> None:
    """Run the API alone."""
    from app.core.settings import load_settings
    from app.main import serve_api
    from app.serve import end_with_parent

    _show_tracebacks()
    end_with_parent()
    serve_api(load_settings())


@cli.command(cls=Command)
def worker() -> None:
    """Run one worker alone; start as many as you like, on as many machines."""
    from app.core.settings import load_settings
    from app.serve import end_with_parent
    from app.worker import run_worker

    _show_tracebacks()
    end_with_parent()
    run_worker(load_settings())


@cli.command(cls=Command)
def scheduler() -> None:
    """Run one scheduler alone; several beside each other fire nothing twice."""
    from app.core.settings import load_settings
    from app.scheduler import run_scheduler
    from app.serve import end_with_parent

    _show_tracebacks()
    end_with_parent()
    run_scheduler(load_settings())


@cli.command(cls=Command)
def plugins(output: Format = OutputFormat.TABLE) -> None:
    """List what is loaded: metrics, trace sources, channels; from where, and what failed.

    Needs no server. Exit codes: 0 all is well, 3 a plugin could not be loaded.
    """
    from app.core.console.table import field, print_page
    from app.plugins import load_plugins, loaded_plugins

    load_plugins()
    items = [
        {"kind": found.kind, "name": found.name, "origin": found.origin, "error": found.error}
        for found in loaded_plugins()
    ]
    columns = [field(name) for name in ("kind", "name", "origin", "error")]
    print_page({"items": items, "nextCursor": None}, columns, output)
    if any(item["error"] for item in items):
        raise typer.Exit(terminal.ENDED_BADLY)


def main() -> None:
    """Run a command of the arguments of this process."""
    # What a start loads stays: searched for garbage all along, a start takes a fifth longer.
    gc.set_threshold(MANY_OBJECTS)
    sys.excepthook = terminal.tell_unforeseen
    terminal.set_safe_encoding((sys.stdout, sys.stderr))
    typer.main.get_command(cli)()  # `cli()` itself would put a hook of its own in place of ours


def _print_version() -> NoReturn:
    from importlib.metadata import version

    terminal.print_result(f"mosaico {version('mosaico')}")
    raise typer.Exit


def _show_tracebacks() -> None:
    sys.excepthook = sys.__excepthook__


if __name__ == "__main__":
    main()
