"""`mosaico datasets`: manage uploaded datasets."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from mosaico.core.console.api_client import ApiClient
from mosaico.core.console.files import iter_chunks, open_input
from mosaico.core.console.filter_options import find_named, text_filter
from mosaico.core.console.resource import Resource
from mosaico.core.console.service import open_api
from mosaico.core.console.table import (
    JSON,
    Column,
    field,
    format_bytes,
    format_cell,
    print_change,
    print_link,
    time_field,
)
from mosaico.core.console.terminal import (
    CommandGroup,
    Format,
    OutputFormat,
    WrongUsage,
    Yes,
    confirm,
    print_status,
)
from mosaico.core.web.page_paths import path_of
from mosaico.traces.files.ignored_fields import NOT_USED
from mosaico.traces.files.options import InputOptions, open_reader

PATH = "/local-datasets"

cli = CommandGroup("datasets", help="Manage uploaded datasets.")
datasets = Resource(group=cli, noun="dataset", path=PATH, page="/datasets")

COLUMNS = (
    field("id"),
    field("name"),
    field("runName", "run name"),
    field("agentId", "agent"),
    field("traceCount", "traces"),
    Column("size", lambda dataset: format_bytes(dataset["sizeBytes"])),
    time_field("createdAt", "created"),
)
DatasetName = Annotated[str, typer.Option("--name", help="Name of the dataset.")]
Replace = Annotated[
    bool, typer.Option("--replace", help="Replace an earlier upload of the same run and agent.")
]
UploadedBy = Annotated[
    str | None,
    typer.Option(
        "--agent",
        help="ID or name of the agent that produced the traces: its runs read its newest upload.",
    ),
]


@cli.command("upload")
def upload(
    *,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="File of results (docs/import.md lists the formats); - is stdin."
        ),
    ],
    name: DatasetName,
    run_name: Annotated[
        str, typer.Option("--run-name", help="Name of the run that produced the traces.")
    ],
    agent_id: UploadedBy = None,
    replace: Replace = False,
    input_options: InputOptions,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Upload the results of a run as traces and print the ID of the upload.

    If one line is invalid, nothing is stored.
    """
    reader = open_reader(input_options)
    parameters = _parameters(name, run_name, agent_id, replace=replace)
    with reader.upload_lines(file) as lines, open_api() as api:
        parameters["reader"] = reader.reader.text if reader.reader else None
        dataset = api.upload(PATH, lines, find_named(api, parameters))
        pages_url = api.pages_url
        next_step = _next_step(api, dataset["name"])
    _print_stored(dataset, next_step, pages_url, output)
    if reader.directions:
        print_status(format_cell(_describe_directions(reader.directions)))


def _describe_directions(directions: Mapping[str, str]) -> str:
    """What the file states of its scores, which is not stored with the traces, and how a benchmark says so."""
    stated = ", ".join(f"{name}: {word} is better" for name, word in directions.items())
    name, word = next(iter(directions.items()))
    metric = json.dumps(
        {"key": "SCORE", "options": {"name": name, "better": word}}, ensure_ascii=False
    )
    return f"the file states {stated}; say so in the benchmark: --metric {shlex.quote(metric)}"


@cli.command("import")
def import_results(
    *,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="RESULT.json", help="Result file of bashkit-eval or ot-bench; - is stdin."
        ),
    ],
    name: DatasetName,
    run_name: Annotated[
        str | None,
        typer.Option("--run-name", help="Name of the run (default: its model and time)."),
    ] = None,
    agent_id: UploadedBy = None,
    replace: Replace = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Import a result of bashkit-eval or ot-bench as traces and print the ID of the upload."""
    parameters = _parameters(name, run_name, agent_id, replace=replace)
    with open_input(file) as result, open_api() as api:
        dataset = api.upload(
            f"{PATH}/import",
            iter_chunks(result),
            find_named(api, parameters),
            content_type="application/json",
        )
        pages_url = api.pages_url
        next_step = _next_step(api, dataset["name"])
    _print_stored(dataset, next_step, pages_url, output)


datasets.add_list(
    COLUMNS,
    filters={
        "name": text_filter("--name", "Filter by dataset name."),
        "agentId": text_filter("--agent", "Filter by agent ID or name.", ids_of="/agents"),
    },
    help_text="List uploads, newest first.",
)
datasets.add_show(help_text="Show an upload.")
datasets.add_delete(help_text="Delete an upload. Runs that read it keep its traces.")


@cli.command("purge")
def purge_texts(
    *,
    item: Annotated[
        str | None, typer.Option("--item", metavar="ID", help="Item whose texts to erase.")
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            metavar="ID",
            help="User whose texts to erase: the attribute `user` of traces.",
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset", help="Dataset of the item, if several datasets have an item with this ID."
        ),
    ] = None,
    yes: Yes = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Erase the texts of an item or of a user from all uploads, runs and received spans.

    Values and verdicts are kept. It cannot be undone, and is recorded in the audit log.
    """
    if (item is None) == (user is None):
        raise WrongUsage("either --item or --user is required", hint="add --item ID, or --user ID")
    if dataset is not None and item is None:
        raise WrongUsage(
            "--dataset names the dataset of an --item", hint="remove it: all datasets are searched"
        )
    subject = f"item {item}" if item is not None else f"user {user}"
    confirm(f"Erase all texts of the {format_cell(subject)}? This cannot be undone.", yes=yes)
    with open_api() as api:
        # The audit log has the names of the sent fields.
        sent = {"itemId": item, "userId": user, "dataset": dataset}
        body = {name: value for name, value in sent.items() if value is not None}
        erased = api.post(f"{PATH}/purge", body)
    lines = [
        f"traces erased: {erased['traces']}",
        f"spans deleted: {erased['spans']}",
        erased["notReached"],
    ]
    print_change(erased, output, lines, str(erased["traces"]))


def _parameters(
    name: str, run_name: str | None, agent_id: str | None, *, replace: bool
) -> dict[str, str | None]:
    return {
        "name": name,
        "runName": run_name,
        "agentId": agent_id,
        "replace": "true" if replace else None,
    }


def _next_step(api: ApiClient, dataset: str) -> str:
    """The command that judges the uploads of a dataset: a run of the benchmark that reads it, if there is one."""
    for benchmark in api.items("/benchmarks"):
        if benchmark["datasetRef"] == dataset and benchmark["source"] in (None, "local"):
            agent = next(iter(benchmark["evaluates"]), "AGENT")
            return f"mosaico runs start {benchmark['id']} {agent}"
    return f"mosaico benchmarks create --dataset {format_cell(dataset)}"


def _print_stored(dataset: JSON, next_step: str, pages_url: str, output: OutputFormat) -> None:
    ignored_keys = dataset["ignoredKeys"]
    lines = [
        f"traces stored: {dataset['traceCount']} ({format_bytes(dataset['sizeBytes'])})",
        *(
            [format_cell(f"warning: keys {NOT_USED}: {', '.join(ignored_keys)}")]
            if ignored_keys
            else []
        ),
        f"next: `{next_step}`",
    ]
    print_change(dataset, output, lines, dataset["id"])
    print_link(f"{pages_url}{path_of('datasets', dataset['id'])}", output)
