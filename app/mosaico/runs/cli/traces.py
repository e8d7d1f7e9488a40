"""`mosaico runs traces` and `mosaico runs trace`: what the agent did in a run."""

from typing import Annotated

import typer

from mosaico.core.console.resource_arguments import Limit, id_argument
from mosaico.core.console.service import open_api
from mosaico.core.console.table import JSON, Column, field, print_details, print_link, print_page
from mosaico.core.console.terminal import (
    CommandGroup,
    Format,
    OutputFormat,
    escape_lines,
    print_json,
    print_result,
)
from mosaico.core.text import format_number
from mosaico.core.web.page_paths import path_of, trace_page_path

PATH = "/benchmark-runs"

list_traces = CommandGroup("traces", help="List the traces of a run.")
show_trace = CommandGroup("trace", help="Show a trace.")

RunId = Annotated[str, id_argument("run", PATH)]


def _values(trace: JSON) -> str:
    return ", ".join(
        f"{name} {format_number(value)}"
        for name, value in trace["values"].items()
        if value is not None
    )


LIST_COLUMNS = (
    field("traceId", "trace"),
    field("outcome"),
    Column("values", _values),
    Column("error", lambda trace: (trace["error"] or "").partition("\n")[0]),
)
DETAILS = (
    "traceId", "itemId", "trial", "outcome", "error", "tags", "attributes", "url", "turns", "inputTokens",
    "outputTokens", "costUsd", "latencyMs",
)  # fmt: skip
TEXTS = ("input", "expectedOutput", "output")


@list_traces.command("traces")
def list_run_traces(run: RunId, limit: Limit = 100, output: Format = OutputFormat.TABLE) -> None:
    """List the traces of a run, in the order of the source.

    While the run is in progress, the values of a trace are empty until it is measured.
    """
    with open_api() as api:
        run = api.full_id(PATH, run)
        page = api.page(f"{PATH}{path_of(run)}/results", limit=limit)
        address = f"{api.pages_url}{path_of('runs', run, 'traces')}"
    print_page(page, LIST_COLUMNS, output)
    print_link(address, output)


@show_trace.command("trace")
def show_run_trace(
    run: RunId,
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="ID of the trace.")],
    output: Format = OutputFormat.TABLE,
) -> None:
    """Show a trace: metric values, texts, and the steps of the agent if the source has them.

    `mosaico runs traces RUN` lists the IDs.
    """
    with open_api() as api:
        run = api.full_id(PATH, run)
        document = api.get(f"{PATH}{path_of(run)}/traces{path_of(trace)}")
        address = f"{api.pages_url}{trace_page_path(run, trace)}"
    if output is OutputFormat.JSON:
        print_json(document)
        return
    print_details({name: document[name] for name in DETAILS} | document["values"])
    for name in TEXTS:
        if document[name] is not None:
            print_result(f"\n{name}\n{escape_lines(document[name])}")
    if document["transcript"] is not None:
        from mosaico.harness.reports.transcript import transcript_lines
        from mosaico.harness.transcript import parse_transcript

        print_result("\ntranscript")
        print_result("\n".join(transcript_lines(parse_transcript(document["transcript"]))))
    print_link(address, output)
