"""`mosaico datasets`: traces that are kept by the service itself."""

from pathlib import Path
from typing import Annotated, Any

import typer

from app.core.console.shell_completion import ids_at
from app.core.console.table import Column, bytes_text, field, format_cell, print_page, time_field
from app.core.console.terminal import (
    CommandGroup,
    DryRun,
    Format,
    OutputFormat,
    Yes,
    print_json,
    print_result,
    print_status,
)

PATH = "/local-datasets"

cli = CommandGroup("datasets", help="Traces that the service keeps itself.")


COLUMNS = (
    field("id"),
    field("name"),
    field("runName", "run name"),
    field("traceCount", "traces"),
    Column("size", lambda dataset: bytes_text(dataset["sizeBytes"])),
    time_field("createdAt", "created"),
)


@cli.command("upload")
def upload(
    *,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Traces, one JSON object a line; - is stdin.")
    ],
    name: Annotated[str, typer.Option("--name", help="Name of the dataset.")],
    run_name: Annotated[str, typer.Option("--run-name", help="Which run of it this is.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Take the place of an earlier upload.")
    ] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Upload the traces of one run, all of them or none, and print the id of the upload."""
    from app.core.console.api_client import open_api
    from app.core.console.input_files import opened, pieces

    parameters = {"name": name, "runName": run_name, "replace": "true" if replace else None}
    with opened(file) as traces, open_api() as api:
        stored = api.upload(PATH, pieces(traces), parameters)
    _tell_stored(stored, output)


@cli.command("import")
def import_results(
    *,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="RESULT.json", help="A run of bashkit-eval or ot-bench; - is stdin."
        ),
    ],
    name: Annotated[str, typer.Option("--name", help="Name of the dataset.")],
    run_name: Annotated[
        str | None, typer.Option("--run-name", help="Which run of it; by itself: model and time.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Take the place of an earlier upload.")
    ] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Import a recorded run of bashkit-eval or ot-bench as traces, and print the upload's id."""
    from app.core.console.api_client import open_api
    from app.core.console.input_files import opened, pieces

    parameters = {"name": name, "runName": run_name, "replace": "true" if replace else None}
    with opened(file) as result, open_api() as api:
        path = f"{PATH}/import"
        stored = api.upload(path, pieces(result), parameters, content_type="application/json")
    _tell_stored(stored, output)


@cli.command("list")
def list_datasets(
    name: Annotated[str | None, typer.Option("--name", help="Uploads of this dataset.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The newest so many.")] = 50,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the uploads, newest first."""
    from app.core.console.api_client import open_api

    with open_api() as api:
        page = api.page(PATH, limit=limit, name=name)
    print_page(page, COLUMNS, output)


@cli.command("delete")
def delete(
    *,
    dataset: Annotated[
        str,
        typer.Argument(metavar="DATASET", help="Id of an upload.", autocompletion=ids_at(PATH)),
    ],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete an upload; runs that read it keep their own copy of its traces."""
    from app.core.console.api_client import delete_thing, segment

    path, what = f"{PATH}/{segment(dataset)}", f"the upload {format_cell(dataset)}"
    delete_thing(path, what, yes=yes, dry_run=dry_run)


def _tell_stored(stored: dict[str, Any], output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        print_json(stored)
    else:
        print_result(format_cell(stored["id"]))
    print_status(f"{stored['traceCount']} traces ({bytes_text(stored['sizeBytes'])}) are stored")
    print_status(f"next: `mosaico benchmarks create --dataset {format_cell(stored['name'])}`")
