"""`mosaico runs report` and `view`: a run as HTML pages."""

from pathlib import Path
from typing import Annotated

import typer

from mosaico.comparison.cli import COMPARISON_TIMEOUT_S
from mosaico.core.console.files import write_text
from mosaico.core.console.resource_arguments import id_argument
from mosaico.core.console.service import complete_ids, open_api
from mosaico.core.console.table import format_cell, print_link
from mosaico.core.console.terminal import CommandGroup, print_result, print_status
from mosaico.core.web.page_paths import path_of, run_page_path

PATH = "/benchmark-runs"
STDOUT = Path("-")

report = CommandGroup("report", help="Write a report of a run.")
view = CommandGroup("view", help="Write the traces of a run as a page.")

RunId = Annotated[str, id_argument("run", PATH)]


@report.command("report")
def report_run(
    *,
    run: RunId,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Output file; - is stdout.")
    ] = STDOUT,
) -> None:
    """Write a report of a run: its page as one self-contained HTML file, with its worst traces."""
    with open_api(COMPARISON_TIMEOUT_S) as api:
        page = api.get_text(f"{PATH}{path_of(run)}/report")
        address = f"{api.pages_url}{run_page_path(api.full_id(PATH, run))}"
    _write(file, page, f"the report of run {format_cell(run)} is written to {file}", address)


@view.command("view")
def view_run(
    *,
    run: RunId,
    other: Annotated[
        str | None,
        typer.Argument(
            metavar="OTHER",
            help="Second run, to show both side by side.",
            autocompletion=complete_ids(PATH),
        ),
    ] = None,
    file: Annotated[Path, typer.Option("--file", help="HTML file to write; - is stdout.")],
) -> None:
    """Write the traces of a run as an HTML page: transcripts, filters by result and category."""
    from mosaico.reporting.trace_page import load_trace_page

    with open_api() as api:
        run_id = api.full_id(PATH, run)
        page = load_trace_page(api, run_id, other and api.full_id(PATH, other))
        address = f"{api.pages_url}{run_page_path(run_id)}/traces"
    _write(file, page, f"the traces of run {format_cell(run)} are written to {file}", address)


def _write(file: Path, text: str, status: str, address: str) -> None:
    if file == STDOUT:
        print_result(text.rstrip("\n"))
        return
    write_text(file, text)
    print_status(status)
    print_link(address)
