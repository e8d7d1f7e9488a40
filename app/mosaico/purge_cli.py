"""`mosaico purge`: delete the traces of old runs now, as `keepDays` does every ten minutes."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from mosaico.core.clock import utc_now
from mosaico.core.console.terminal import (
    CommandGroup,
    DryRun,
    WrongUsage,
    Yes,
    confirm,
    print_status,
)
from mosaico.core.text import format_utc

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from sqlalchemy.orm import Session

    from mosaico.core.resources import Resources

cli = CommandGroup("purge", help="Delete the traces of old runs.")


@cli.command("purge")
def purge(
    *,
    older_than: Annotated[
        int | None,
        typer.Option(
            "--older-than", min=1, max=36500, metavar="DAYS", help="Minimum age of the runs."
        ),
    ] = None,
    benchmark: Annotated[
        str | None, typer.Option("--benchmark", help="Purge only the runs of this benchmark ID.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    undo: Annotated[
        bool,
        typer.Option(
            "--undo", help="Restore the runs whose traces are marked but not deleted yet."
        ),
    ] = False,
) -> None:
    """Delete the traces of old runs. Their history is kept.

    Metric aggregates and KPI values are kept. Needs the database, but no server: the command marks
    the runs, and workers delete the rows a day later. Deletes nothing if the clocks of this machine
    and of the database differ too much (`mosaico doctor` shows it).
    """
    if undo == (older_than is not None):
        raise WrongUsage(
            "--older-than or --undo is required", hint="add --older-than DAYS, or --undo"
        )
    if older_than is None:
        _undo()
    else:
        _purge(older_than, benchmark, yes=yes, dry_run=dry_run)


def _purge(older_than: int, benchmark: str | None, *, yes: bool, dry_run: bool) -> None:
    from mosaico.benchmarks.queries import get_benchmark
    from mosaico.core.batch_delete import trusted_now
    from mosaico.runs.retention import count_runs_before

    with _opened_resources() as res:
        with res.db.read() as session:
            if benchmark is not None:
                get_benchmark(session, benchmark)
            cutoff = trusted_now(session, utc_now()) - timedelta(days=older_than)
        old = count_runs_before(res.db, cutoff, benchmark_id=benchmark)
        summary = f"{old.runs} runs with {old.traces} traces ended before {format_utc(cutoff)}"
        if dry_run or not old.runs:
            print_status(summary)
            return
        confirm(
            f"{summary}. Delete these traces? `mosaico purge --undo` restores them within a day.",
            yes=yes,
        )
        purged_count = _purge_before(res, cutoff, benchmark)
    print_status(
        f"{purged_count} runs are purged; workers delete their rows after a day; until then "
        "`mosaico purge --undo` restores them"
    )


def _undo() -> None:
    from mosaico.runs.retention import restore_purged_runs

    with _opened_resources() as res:
        restored_count = restore_purged_runs(res.db)
    print_status(f"{restored_count} runs are restored")


def _opened_resources() -> "AbstractContextManager[Resources]":
    from mosaico.core.engine import COMMAND_TIMEOUT_FACTOR
    from mosaico.core.settings import load_settings
    from mosaico.startup import opened_resources

    return opened_resources(
        load_settings(), name="mosaico-purge", pool_size=1, timeout_factor=COMMAND_TIMEOUT_FACTOR
    )


def _purge_before(res: "Resources", cutoff: datetime, benchmark: str | None) -> int:
    from mosaico.core.batch_delete import trusted_now
    from mosaico.runs.retention import purge_runs_before

    def purge_batch(session: "Session") -> int:
        now = trusted_now(session, utc_now())
        return purge_runs_before(session, cutoff, now, benchmark_id=benchmark)

    return _sum_batches(res, purge_batch)


def _sum_batches(res: "Resources", change_batch: "Callable[[Session], int]") -> int:
    """Change the runs batch by batch: one transaction would lock all of them at once."""
    total = 0
    while True:
        with res.db.begin() as session:
            count = change_batch(session)
        if not count:
            return total
        total += count
