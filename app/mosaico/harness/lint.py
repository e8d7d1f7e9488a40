"""Common parts of both linters: the severity of a finding, the output and the exit code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import typer

from mosaico.core.console.terminal import (
    OutputFormat,
    escape_line,
    print_json,
    print_result,
    print_status,
)
from mosaico.core.text import count_noun
from mosaico.harness.results import HarnessExit


class LintSeverity(StrEnum):
    """An ERROR makes a file unusable; a WARNING fails with --strict only."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedFinding:
    """A finding of a linter; `location` is for people, `position` holds the same as JSON fields."""

    location: str
    position: Mapping[str, object]
    severity: LintSeverity
    text: str


def report_findings(
    findings: Sequence[LocatedFinding], *, checked: str, strict: bool, output: OutputFormat
) -> None:
    """Print the findings and exit with the code of a linter; `strict` counts warnings as failures."""
    if output is OutputFormat.JSON:
        items = [
            {**finding.position, "severity": finding.severity.value, "text": finding.text}
            for finding in findings
        ]
        print_json({"items": items, "nextCursor": None})
    else:
        for finding in findings:
            text = escape_line(finding.text)
            print_result(f"{finding.location}: {finding.severity}: {text}")
    print_status(f"{checked}, {count_noun(len(findings), 'finding')}")
    if any(finding.severity is LintSeverity.ERROR for finding in findings):
        raise typer.Exit(HarnessExit.INVALID)
    if strict and findings:
        raise typer.Exit(HarnessExit.BELOW)
