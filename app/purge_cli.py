"""`mosaico purge`: delete the traces of old runs now, as `keepDays` does every ten minutes."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from app.core.console.terminal import CommandGroup, DryRun, Yes, confirm, print_status

if TYPE_CHECKING:
    from app.core.resources import Resources

cli = CommandGroup("purge", help="Delete the traces of old runs.")


@cli.command("purge")
def purge(
    *,
    older_than: Annotated[
        int,
        typer.Option(
            "--older-than", min=1, max=36500, metavar="DAYS", help="Minimum age of the runs."
        ),
    ],
    benchmark: Annotated[
        str | None, typer.Option("--benchmark", help="Purge only the runs of this benchmark ID.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete the traces of old runs. Their history is kept.

    Metric aggregates and KPI values are kept. Needs the database, but no server: the command marks
    the runs, and workers delete the rows.
    """
    from app.core.settings import load_settings
    from app.runs.retention import count_runs_before
    from app.startup import opened_resources

    with opened_resources(load_settings(), name="mosaico-purge", pool_size=1) as res:
        cutoff = res.clock() - timedelta(days=older_than)
        with res.db.read() as session:
            old = count_runs_before(session, cutoff, benchmark_id=benchmark)
        summary = (
            f"{old.runs} runs with {old.traces} traces ended before {cutoff:%Y-%m-%d %H:%M} UTC"
        )
        if dry_run or not old.runs:
            print_status(summary)
            return
        confirm(f"{summary}. Delete these traces? This cannot be undone.", yes=yes)
        purged_count = _purge_before(res, cutoff, benchmark)
    print_status(f"{purged_count} runs are purged; workers delete their rows")


def _purge_before(res: "Resources", cutoff: datetime, benchmark: str | None) -> int:
    """Mark the runs batch by batch: one transaction would lock all of them at once."""
    from app.runs.retention import purge_runs_before

    now, total = res.clock(), 0
    while True:
        with res.db.begin() as session:
            count = purge_runs_before(session, cutoff, now, benchmark_id=benchmark)
        if not count:
            return total
        total += count
