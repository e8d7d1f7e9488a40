"""`mosaico items`: the items of datasets, and their versions."""

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Annotated

import typer

from mosaico.core.console.api_client import ApiClient
from mosaico.core.console.files import open_input, write_text
from mosaico.core.console.resource_arguments import Limit
from mosaico.core.console.service import complete_ids, open_api
from mosaico.core.console.table import (
    JSON,
    Column,
    field,
    print_change,
    print_link,
    print_page,
    print_table,
    tabulate,
    time_field,
)
from mosaico.core.console.terminal import (
    CommandGroup,
    Format,
    OutputFormat,
    WrongUsage,
    Yes,
    confirm,
    print_json,
    print_result,
    print_status,
)
from mosaico.core.errors import NotFound
from mosaico.core.web.page_paths import path_of
from mosaico.traces.datasets.health_text import FINDING_COLUMNS, describe_health, list_findings
from mosaico.traces.files.options import InputOptions, open_reader

PATH = "/datasets"

cli = CommandGroup("items", help="Manage the items of datasets, and their versions.")

SET_COLUMNS = (
    field("name", "dataset"),
    field("version"),
    field("itemCount", "items"),
    time_field("updatedAt", "changed"),
)
ITEM_COLUMNS = (
    field("id"),
    field("input"),
    field("expectedOutput", "expected"),
    field("version", "changed in"),
)
VERSION_COLUMNS = (
    field("version"),
    field("itemCount", "items"),
    field("added"),
    field("changed"),
    field("retired"),
    Column("by", lambda version: version["createdByName"] or version["createdBy"]),
    time_field("createdAt", "created"),
    field("note"),
)
DatasetName = Annotated[str, typer.Argument(metavar="DATASET", help="Name of the dataset.")]
VersionOption = Annotated[
    int | None, typer.Option("--version", min=1, help="Version (default: the newest one).")
]
BaseOption = Annotated[
    int | None,
    typer.Option(
        "--base-version",
        min=0,
        help="Version that the edit was made from: items that changed since are a conflict (default: the newest one).",
    ),
]
NoteOption = Annotated[
    str | None, typer.Option("--note", help="Reason, stored with the new version.")
]


@cli.command("datasets")
def list_datasets(*, limit: Limit = 50, output: Format = OutputFormat.TABLE) -> None:
    """List the datasets whose items have versions, newest first."""
    with open_api() as api:
        page, pages_url = api.page(PATH, limit=limit), api.pages_url
    print_page(page, SET_COLUMNS, output)
    print_link(f"{pages_url}/datasets", output)


@cli.command("list")
def list_items(
    *,
    name: DatasetName,
    version: VersionOption = None,
    limit: Limit = 50,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the items of a version of a dataset, in their order."""
    with open_api() as api:
        dataset, pages_url = _find(api, name), api.pages_url
        page = api.page(f"{PATH}{path_of(dataset['id'])}/items", limit=limit, version=version)
    print_page(page, ITEM_COLUMNS, output)
    print_link(f"{pages_url}{path_of('datasets', dataset['id'], 'items')}", output)


@cli.command("versions")
def list_versions(
    *, name: DatasetName, limit: Limit = 50, output: Format = OutputFormat.TABLE
) -> None:
    """List the versions of a dataset, newest first."""
    with open_api() as api:
        dataset, pages_url = _find(api, name), api.pages_url
        page = api.page(f"{PATH}{path_of(dataset['id'])}/versions", limit=limit)
    print_page(page, VERSION_COLUMNS, output)
    print_link(f"{pages_url}{path_of('datasets', dataset['id'], 'items')}#versions", output)


@cli.command("add")
def add_item(
    *,
    name: DatasetName,
    item_id: Annotated[str, typer.Option("--id", help="ID of the item.")],
    question: Annotated[str, typer.Option("--input", help="What the agent is asked.")],
    expected: Annotated[str | None, typer.Option("--expected", help="The expected answer.")] = None,
    base_version: BaseOption = None,
    note: NoteOption = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Add an item to a dataset, or change the item with this ID, which keeps its tags, its attributes and, without
    --expected, its expected answer; a new dataset is created.
    """
    with open_api() as api:
        dataset = _find_or_create(api, name)
        item = {**_read_kept(api, dataset, item_id, expected), "id": item_id, "input": question}
        result = _edit(api, dataset, base_version, note, items=[item])
        pages_url = api.pages_url
    _print_edit(result, pages_url, output)


@cli.command("retire")
def retire_items(
    *,
    name: DatasetName,
    item_ids: Annotated[list[str], typer.Argument(metavar="ITEM...", help="IDs of the items.")],
    base_version: BaseOption = None,
    note: NoteOption = None,
    yes: Yes = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Retire items of a dataset: later runs leave them out, earlier versions keep them."""
    confirm(f"Retire {', '.join(item_ids)} of the dataset {name}?", yes=yes)
    with open_api() as api:
        result = _edit(api, _find(api, name), base_version, note, retire=item_ids)
        pages_url = api.pages_url
    _print_edit(result, pages_url, output)


@cli.command("import")
def import_items(
    *,
    name: DatasetName,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Export, or a file with questions and expected answers (docs/import.md); - is stdin.",
        ),
    ],
    replace: Annotated[
        bool, typer.Option("--replace", help="Retire the items that the file does not have.")
    ] = False,
    base_version: BaseOption = None,
    note: NoteOption = None,
    input_options: InputOptions,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Add and change the items of a file: one new version. A new dataset is created."""
    lines = _read_lines(file, input_options)
    with open_api() as api:
        dataset = _find_or_create(api, name)
        result = api.upload(
            f"{PATH}/import",
            lines,
            {
                "name": name,
                "baseVersion": str(_base(dataset, base_version)),
                "replace": "true" if replace else None,
                "note": note,
            },
        )
        pages_url = api.pages_url
    _print_edit(result, pages_url, output)


@cli.command("export")
def export_items(
    *,
    name: DatasetName,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File, .csv or .jsonl; - is stdout, as CSV.")
    ],
    version: VersionOption = None,
) -> None:
    """Write the items of a version as CSV or JSON Lines, which an import reads as the same items."""
    file_format = "csv" if str(file) == "-" else file.suffix.removeprefix(".").lower()
    if file_format not in ("csv", "jsonl"):
        raise WrongUsage(f"{file} is neither .csv nor .jsonl", hint="choose one of these endings")
    with open_api() as api:
        dataset, pages_url = _find(api, name), api.pages_url
        path = f"{PATH}{path_of(dataset['id'])}/export"
        content = api.get_text(path, version=version, format=file_format)
    if str(file) == "-":
        print_result(content.removesuffix("\n"))
    else:
        write_text(file, content)
        print_link(f"{pages_url}{path_of('datasets', dataset['id'], 'items')}", OutputFormat.TABLE)


@cli.command("from-trace")
def add_trace(
    *,
    name: DatasetName,
    trace_id: Annotated[str, typer.Argument(metavar="TRACE", help="ID of the trace.")],
    run: Annotated[
        str | None, typer.Option("--run", metavar="RUN", help="Run that has the trace.")
    ] = None,
    upload: Annotated[
        str | None, typer.Option("--upload", metavar="UPLOAD", help="Upload that has the trace.")
    ] = None,
    item_id: Annotated[
        str | None, typer.Option("--id", help="ID of the item (default: that of the trace).")
    ] = None,
    expected: Annotated[
        str | None,
        typer.Option("--expected", help="The right answer (default: that of the trace)."),
    ] = None,
    note: NoteOption = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Make a trace of a run or an upload an item of a dataset; a new dataset is created."""
    if (run is None) == (upload is None):
        raise WrongUsage(
            "either --run or --upload is required", hint="add --run ID, or --upload ID"
        )
    with open_api() as api:
        body = {
            "dataset": name,
            "traceId": trace_id,
            "itemId": item_id,
            "expectedOutput": expected,
            "note": note,
        }
        if run is not None:
            source = path_of("benchmark-runs", api.full_id("/benchmark-runs", run))
        else:
            source = path_of("local-datasets", upload or "")
        result = api.post(f"{source}/dataset-items", body)
        pages_url = api.pages_url
    _print_edit(result, pages_url, output)


@cli.command("health")
def show_health(
    *,
    benchmark: Annotated[
        str, typer.Argument(metavar="BENCHMARK", autocompletion=complete_ids("/benchmarks"))
    ],
    output: Format = OutputFormat.TABLE,
) -> None:
    """Show what is wrong with the items of the dataset of a benchmark: those that never vary, that flip while the agent
    stays the same, that are there twice, or whose expected answer annotators call wrong; and the size for a smaller drop.
    """
    with open_api() as api:
        path = f"/benchmarks{path_of(api.find_id('/benchmarks', benchmark))}/dataset-health"
        health, address = api.get(path), f"{api.pages_url}{path}"
    if output is OutputFormat.JSON:
        print_json(health)
    else:
        print_table(tabulate(list_findings(health), FINDING_COLUMNS))
        for sentence in describe_health(health):
            print_status(sentence)
    print_link(address, output)


def _find(api: ApiClient, name: str) -> JSON:
    # It brings pydantic along, which `--help` must not import.
    from mosaico.traces.datasets.errors import DatasetNotFound

    datasets: list[JSON] = api.page(PATH, limit=1, name=name)["items"]
    if not datasets:
        raise DatasetNotFound(
            f"no dataset with versions has the name {name!r}; `mosaico items datasets` lists them"
        )
    return datasets[0]


def _find_or_create(api: ApiClient, name: str) -> JSON:
    datasets: list[JSON] = api.page(PATH, limit=1, name=name)["items"]
    return datasets[0] if datasets else api.post(PATH, {"name": name})


def _base(dataset: JSON, base_version: int | None) -> int:
    newest: int = dataset["version"]
    return newest if base_version is None else base_version


def _edit(
    api: ApiClient, dataset: JSON, base_version: int | None, note: str | None, **changes: object
) -> JSON:
    body = {"baseVersion": _base(dataset, base_version), "note": note, **changes}
    return api.post(f"{PATH}{path_of(dataset['id'])}/versions", body)


def _read_kept(api: ApiClient, dataset: JSON, item_id: str, expected: str | None) -> JSON:
    """What an item keeps beside a new question; nothing of one that is new or whose texts were erased."""
    answers = {"expectedOutput": expected}
    try:
        path = f"{PATH}{path_of(dataset['id'])}/item-history"
        [item] = api.page(path, limit=1, itemId=item_id)["items"]
    except NotFound:
        return answers
    if item["input"] is None:
        return answers
    if expected is None:
        answers = {name: item[name] for name in ("expectedOutput", "expectedAny", "expectedAll")}
    return {**answers, "tags": item["tags"], "attributes": item["attributes"]}


def _read_lines(file: Path, options: InputOptions) -> Iterable[bytes]:
    """The items of a file as the service reads them: an export as it is, of any other file what its columns say."""
    from mosaico.traces.datasets.items_file import is_export, read_items_file, write_partial_items
    from mosaico.traces.execution.items import items_of

    with open_input(file) as source:
        content = source.read()
    if is_export(content.partition(b"\n")[0]):
        return [content]
    if str(file) == "-":
        items = read_items_file("stdin", BytesIO(content)).items
    else:
        with open_reader(options).open_items(file) as traces:
            items = items_of(traces, str(file))
    return [line.encode() for line in write_partial_items(items)]


def _print_edit(result: JSON, pages_url: str, output: OutputFormat) -> None:
    version = f"{result['name']} v{result['version']}"
    changes = ", ".join(f"{result[name]} {name}" for name in ("added", "changed", "retired"))
    line = f"{version}: {changes}" if result["isNew"] else f"{version}: nothing has changed"
    print_change(result, output, [line], result["version"])
    print_link(f"{pages_url}{path_of('datasets', result['datasetId'], 'items')}", output)
