"""What both harnesses have around a run: common options, Ctrl-C, the outputs, the gate."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import typer

from app.core.console import terminal
from app.core.console.terminal import print_status
from app.harness.gate import GateFigures, HarnessExit, decide_exit

Report = TypeVar("Report")

BaseUrl = Annotated[
    str | None, typer.Option("--base-url", help="A compatible server, such as a local one.")
]
Trials = Annotated[
    int, typer.Option("--trials", min=1, max=1000, help="How often each task is tried.")
]
Concurrency = Annotated[
    int, typer.Option("--concurrency", min=1, max=64, help="How many attempts at once.")
]
RunTokens = Annotated[
    int | None, typer.Option("--run-tokens", min=1, help="Token limit of the run.")
]
RunUsd = Annotated[float | None, typer.Option("--run-usd", min=0, help="Cost limit of the run.")]
PricesFile = Annotated[
    Path | None, typer.Option("--prices", help='Prices: {"MODEL": {"input": 1, "output": 5}}.')
]
Resume = Annotated[Path | None, typer.Option("--resume", help="Result of a run to go on with.")]
MinPassRate = Annotated[
    float, typer.Option("--min-pass-rate", min=0, max=1, help="Gate of the exit code.")
]
JunitFile = Annotated[
    Path | None, typer.Option("--junit", help="Write the outcome as JUnit XML there.")
]
ToLangfuse = Annotated[
    bool, typer.Option("--langfuse", help="Write the run to Langfuse as a dataset run, too.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Warnings fail, too.")]


class Interrupted(Exception, Generic[Report]):
    """Somebody ended the run early; `report` holds what was reached."""

    def __init__(self, report: Report) -> None:
        super().__init__("interrupted")
        self.report = report


def run_to_its_exit(
    run: Callable[[], Report],
    *,
    show: Callable[[Report], None],
    export: Callable[[Report], None] | None,
    figures: Callable[[Report], GateFigures],
    least: float,
) -> None:
    """Run, write and show what came of it, also after Ctrl-C, and exit as it deserves."""
    try:
        made = run()
    except Interrupted as interrupted:
        show(interrupted.report)
        raise typer.Exit(terminal.EXIT_INTERRUPTED) from None
    show(made)
    if export is not None:
        export(made)
    _leave_by_the_gate(figures(made), least)


def leave_with_findings(*, errors: bool, warnings: bool) -> None:
    """Exit as a file deserves that was only looked at; `warnings` are those that count."""
    if errors:
        raise typer.Exit(HarnessExit.MISTAKES)
    if warnings:
        raise typer.Exit(HarnessExit.BELOW)


def run_command(cli: typer.Typer) -> None:
    """Run a command of the arguments of this process."""
    sys.excepthook = terminal.report_unexpected_error
    terminal.set_safe_encoding((sys.stdout, sys.stderr))
    typer.main.get_command(cli)()


def _leave_by_the_gate(found: GateFigures, least: float) -> None:
    decided = decide_exit(found, least)
    if decided is HarnessExit.ERRORS:
        print_status(f"{found.errored} attempts errored, {found.missing} were not reached")
    elif decided is HarnessExit.BELOW:
        print_status(f"the pass rate {found.pass_rate or 0:.1%} is below the gate {least:.1%}")
    elif found.pass_rate is None:
        print_status("no attempt has a verdict: nothing was to be met")
    if decided:
        raise typer.Exit(int(decided))
