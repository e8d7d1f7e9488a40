"""`mosaico doctor`: checks the installation and prints a remedy for each error."""

from typing import TYPE_CHECKING

import typer

from mosaico.core.console.table import Table, format_cell, print_table
from mosaico.core.console.terminal import (
    CommandGroup,
    Format,
    OutputFormat,
    print_json,
    print_status,
)

if TYPE_CHECKING:
    from mosaico.overview.diagnosis import Diagnosis

EXIT_FAILED = 1

cli = CommandGroup("doctor", help="Check the installation.")


@cli.command("doctor")
def doctor(output: Format = OutputFormat.TABLE) -> None:
    """Check the installation: database, ports, clock, worker, keys and more.

    Where the service answers, it makes the checks itself, with its own settings; this needs a key with the role
    admin. Otherwise the settings of this environment are checked. Changes nothing. Exit codes: 0 everything is ok, 1 a check failed.
    """
    from mosaico.core.console.service_address import find_pages_url, find_service
    from mosaico.core.settings import load_settings
    from mosaico.doctor import diagnose

    settings = load_settings()
    diagnoses = list(diagnose(settings))
    if output is OutputFormat.JSON:
        print_json({"items": [diagnosis.model_dump(mode="json") for diagnosis in diagnoses]})
    else:
        rows = [
            [
                _describe_state(diagnosis),
                diagnosis.name,
                _describe_finding(diagnosis),
            ]
            for diagnosis in diagnoses
        ]
        print_table(Table(["", "check", "finding"], [list(map(format_cell, row)) for row in rows]))
        print_status(f"page: {find_pages_url(find_service().url)}/system")
    if not all(diagnosis.ok for diagnosis in diagnoses):
        raise typer.Exit(EXIT_FAILED)


def _describe_finding(diagnosis: "Diagnosis") -> str:
    if not diagnosis.remedy:
        return diagnosis.finding
    return f"{diagnosis.finding.removesuffix('.')}; {diagnosis.remedy}"


def _describe_state(diagnosis: "Diagnosis") -> str:
    if not diagnosis.checked:
        return "not checked"
    return "ok" if diagnosis.ok else "FAILED"
