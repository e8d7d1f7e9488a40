"""`mosaico db`: start, stop, inspect and upgrade the database."""

import dataclasses
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mosaico.core.console.table import print_details
from mosaico.core.console.terminal import (
    CommandGroup,
    Format,
    OutputFormat,
    Yes,
    confirm,
    print_json,
    print_result,
    print_status,
)

if TYPE_CHECKING:
    from mosaico.postgres.server import EmbeddedPostgres

cli = CommandGroup("db", help="Start, stop, inspect and upgrade the database.")


@cli.command("start")
def start() -> None:
    """Start the embedded database and keep it running until `mosaico db stop`."""
    database = _embedded("start")
    database.start()
    status = database.status()
    print_status(f"Postgres {status.version} runs on port {status.port} (pid {status.pid})")
    print_status("print its URL with `mosaico db url`; stop it with `mosaico db stop`")


@cli.command("stop")
def stop(yes: Yes = False) -> None:  # noqa: FBT002 - an option
    """Stop the embedded database that runs on its own; no committed data is lost. Asks first when it is in use."""
    database = _embedded("stop")
    # A database with an owner cannot be stopped: no question.
    session_count = 0 if database.status().owner else database.count_sessions()
    if session_count:
        confirm(
            f"{session_count} sessions use the database: a running service answers 503 until"
            " `mosaico db start`. Stop it?",
            yes=yes,
        )
    print_status("the database is stopped" if database.stop() else "no database was running")


@cli.command("status")
def status(output: Format = OutputFormat.TABLE) -> None:
    """Show whether the database is running, its address, and the process that owns it."""
    server_status = _status()
    if output is OutputFormat.JSON:
        print_json(server_status)
    else:
        print_details(server_status)


@cli.command("url")
def url() -> None:
    """Print the URL of the database, with its password."""
    print_result(_url())


@cli.command("psql", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def psql(context: typer.Context) -> None:
    """Open psql on the database; further arguments are handed to it."""
    from mosaico.postgres.errors import PostgresBinariesMissing
    from mosaico.postgres.external import psql_environment
    from mosaico.postgres.programs import packaged_binaries

    environment = {**os.environ, **psql_environment(_url())}
    packaged = str(packaged_binaries().program("psql")) if not _external_url() else None
    program = packaged or shutil.which("psql") or str(packaged_binaries().program("psql"))
    try:
        os.execvpe(program, ["psql", *context.args], environment)  # noqa: S606 - it takes our place
    except OSError as error:
        raise PostgresBinariesMissing(
            f"{program} cannot be run ({error.strerror}); install psql or run `make install` again"
        ) from error


@cli.command("upgrade")
def upgrade(
    check: Annotated[  # noqa: FBT002 - an option
        bool,
        typer.Option(
            "--check", help="Change nothing: say what would run. Exit code 1 if anything would."
        ),
    ] = False,
) -> None:
    """Bring the schema to the version of this program. An embedded database that does not run is started for it."""
    from mosaico.core.migrations import upgrade as run_migrations

    with _reachable_url() as url:
        if check:
            _require_nothing_pending(url)
        else:
            if not _external_url():
                # The policies of the schema are for this role.
                _embedded("upgrade").add_missing_role()
            run_migrations(url)
    print_status("the schema is up to date")


def _require_nothing_pending(url: str) -> None:
    """Print the migrations that an upgrade would run, and exit with 1 if there are any."""
    from mosaico.core.migrations import pending_revisions

    pending = pending_revisions(url)
    for migration in pending:
        print_result(migration)
    if pending:
        print_status("`mosaico db upgrade` runs these migrations; make a backup first")
        raise typer.Exit(1)


def _external_url() -> str | None:
    from mosaico.core.settings import load_settings

    settings = load_settings()
    secret = settings.database_direct_url or settings.database_url
    return (secret.get_secret_value() or None) if secret else None


def _embedded(action: str) -> "EmbeddedPostgres":
    from mosaico.core.settings import load_settings
    from mosaico.postgres.errors import ExternalDatabase
    from mosaico.postgres.server import EmbeddedPostgres

    if _external_url():
        raise ExternalDatabase(
            f"DATABASE_URL names an external server, and `mosaico db {action}` is for the "
            "embedded one; ask the operator of that server, or unset DATABASE_URL"
        )
    return EmbeddedPostgres(load_settings().data_dir)


def _url() -> str:
    return _external_url() or _embedded("url").url()


@contextmanager
def _reachable_url() -> Iterator[str]:
    """The URL; an embedded database that does not run is started for the block."""
    if external := _external_url():
        yield external
        return
    with _embedded("upgrade").running(create=False) as url:
        yield url


def _status() -> Mapping[str, Any]:
    from pydantic.alias_generators import to_camel

    from mosaico.postgres.external import external_status

    external = _external_url()
    server_status = external_status(external) if external else _embedded("status").status()
    return {to_camel(name): value for name, value in dataclasses.asdict(server_status).items()}
