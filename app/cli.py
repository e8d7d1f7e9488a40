"""`mosaico`: the command line of the service. Heavy imports stand inside the commands."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from app.formula.cli import cli as formula
from app.metrics.cli import score
from app.postgres.cli import cli as db

cli = typer.Typer(
    name="mosaico",
    help="Tells a team, every morning, whether their AI agents got better or worse.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
cli.add_typer(db, name="db")
cli.add_typer(formula, name="formula")
cli.command("score")(score)


def tell(line: str) -> None:
    """Say something to a person; answers go to standard output, this does not."""
    typer.echo(line, err=True)


@cli.callback(invoke_without_command=True)
def root(
    *, show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    if show_version:
        typer.echo(f"mosaico {version('mosaico')}")
        raise typer.Exit


@cli.command()
def serve() -> None:
    """Run everything on this machine: embedded database, API, worker."""
    from app.core.settings import load_settings
    from app.serve import serve_all

    serve_all(load_settings(), tell)


@cli.command()
def api() -> None:
    """Run the API alone."""
    from app.core.settings import load_settings
    from app.main import serve_api
    from app.serve import end_with_parent

    end_with_parent()
    serve_api(load_settings())


@cli.command()
def worker() -> None:
    """Run one worker alone; start as many as you like, on as many machines."""
    from app.core.settings import load_settings
    from app.serve import end_with_parent
    from app.worker import run_worker

    end_with_parent()
    run_worker(load_settings())


def main() -> None:
    """Run a command; errors that users can mend are lines on standard error and an exit code."""
    from app.core.errors import AppError

    try:
        cli()
    except AppError as error:
        tell(f"error: {error}")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
