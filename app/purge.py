"""`mosaico purge`: what an operator does once that `keepDays` does every ten minutes."""

from datetime import timedelta
from typing import Annotated

import typer

from app.core.console.terminal import Command, DryRun, Yes, confirm, print_status

cli = typer.Typer(rich_markup_mode=None)


@cli.command("purge", cls=Command)
def purge(
    *,
    older_than: Annotated[
        int, typer.Option("--older-than", min=1, max=36500, metavar="DAYS", help="Age of the runs.")
    ],
    benchmark: Annotated[
        str | None, typer.Option("--benchmark", help="Only the runs of this benchmark.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Forget the traces of old runs; their history stays.

    Their aggregates and KPIs are kept. Needs the database and no server; workers delete the rows.
    """
    from app.core.settings import load_settings
    from app.runs.retention import purge_runs_before, runs_before
    from app.startup import opened_resources

    with opened_resources(load_settings(), name="mosaico-purge", pool_size=1) as res:
        now = res.clock()
        moment = now - timedelta(days=older_than)
        with res.db.read() as session:
            old = runs_before(session, moment, benchmark_id=benchmark)
        found = f"{old.runs} runs of {old.traces} traces ended before {moment:%Y-%m-%d %H:%M} UTC"
        if dry_run or not old.runs:
            print_status(found)
            return
        confirm(f"{found}; forget these traces?", yes=yes)
        purged = 0
        while True:
            with res.db.begin() as session:
                some = purge_runs_before(session, moment, now, benchmark_id=benchmark)
            if not some:
                break
            purged += some
    print_status(f"{purged} runs are purged; workers delete their rows")
