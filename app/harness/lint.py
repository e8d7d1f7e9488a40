"""What both linters share: the severity of a finding and the exit code of a check."""

from enum import StrEnum

import typer

from app.harness.gate import HarnessExit


class LintSeverity(StrEnum):
    """An ERROR makes a file unusable; a WARNING fails with --strict only."""

    ERROR = "error"
    WARNING = "warning"


def exit_by_findings(*, errors: bool, warnings: bool) -> None:
    """Exit with the code of a linter; `warnings` are those that count as failures."""
    if errors:
        raise typer.Exit(HarnessExit.INVALID)
    if warnings:
        raise typer.Exit(HarnessExit.BELOW)
