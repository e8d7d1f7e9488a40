"""`mosaico notes`: read, write and delete notes about runs, items and incidents."""

from typing import Annotated

import typer

from mosaico.core.console.filter_options import text_filter
from mosaico.core.console.resource import Resource
from mosaico.core.console.service import complete_ids, open_api
from mosaico.core.console.table import (
    JSON,
    Column,
    field,
    format_cell,
    print_change,
    print_link,
    time_field,
)
from mosaico.core.console.terminal import CommandGroup, Format, OutputFormat, WrongUsage
from mosaico.core.web.page_paths import path_of

cli = CommandGroup("notes", help="Read, write and delete notes about runs, items and incidents.")
notes = Resource(group=cli, noun="note", path="/notes", list_page="/notes")


def _subject_of(note: JSON) -> str:
    if note["incidentId"]:
        return f"incident {note['incidentId']}"
    item = f", item {note['itemId']}" if note["itemId"] else ""
    return f"run {note['runId']}{item}"


COLUMNS = (
    field("id"),
    time_field("createdAt", "written"),
    Column("by", lambda note: note["createdByName"] or note["createdBy"]),
    Column("about", _subject_of),
    field("text"),
)

notes.add_list(
    COLUMNS,
    filters={
        "benchmarkId": text_filter(
            "--benchmark", "Filter by benchmark ID or name.", ids_of="/benchmarks"
        ),
        "runId": text_filter("--run", "Filter by run ID.", ids_of="/benchmark-runs"),
        "itemId": text_filter("--item", "Filter by the ID of an item."),
        "incidentId": text_filter("--incident", "Filter by incident ID.", ids_of="/incidents"),
        "createdBy": text_filter("--by", "Filter by the ID of the person or key that wrote them."),
        "text": text_filter("--text", "Filter by a part of the text, in any case."),
    },
    help_text="List notes, newest first.",
)


@cli.command("add")
def add_note(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The note.")],
    run: Annotated[
        str | None,
        typer.Option(
            "--run", help="ID of the run.", autocompletion=complete_ids("/benchmark-runs")
        ),
    ] = None,
    item: Annotated[
        str | None, typer.Option("--item", help="ID of an item of the run, for a note about it.")
    ] = None,
    incident: Annotated[
        str | None,
        typer.Option(
            "--incident", help="ID of the incident.", autocompletion=complete_ids("/incidents")
        ),
    ] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Write a note about a run, an item of a run or an incident, and print its ID.

    Everybody who sees it sees the note, with your name.
    """
    if (run is None) == (incident is None) or (item is not None and run is None):
        raise WrongUsage(
            "a note is about one thing", hint="add --run, --run with --item, or --incident"
        )
    subject = path_of("incidents", incident) if incident else path_of("benchmark-runs", run or "")
    body = {"text": text} if item is None else {"text": text, "itemId": item}
    with open_api() as api:
        note = api.post(f"{subject}/notes", body)
        page = (
            path_of("runs", note["runId"])
            if note["runId"]
            else path_of("incidents", note["incidentId"])
        )
        address = f"{api.pages_url}{page}#notes"
    line = f"the note about {format_cell(_subject_of(note))} is written"
    print_change(note, output, [line], note["id"])
    print_link(address, output)


notes.add_delete(
    help_text="Delete a note for good: your own, or as an admin any.",
    describe=lambda note: note["text"],
)
