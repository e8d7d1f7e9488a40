"""`mosaico annotations`: what people say of answers."""

import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mosaico.core.console.filter_options import (
    find_named,
    flag_filter,
    id_filter,
    id_option,
    text_filter,
)
from mosaico.core.console.resource import Resource
from mosaico.core.console.row_export import STDOUT, ExportAs, ExportFile, export_rows
from mosaico.core.console.service import complete_ids, open_api
from mosaico.core.console.table import (
    JSON,
    Column,
    field,
    format_cell,
    print_change,
    print_link,
    print_table,
    tabulate,
    time_field,
)
from mosaico.core.console.terminal import (
    EXIT_UNSUCCESSFUL,
    CommandGroup,
    Format,
    OutputFormat,
    WrongUsage,
    print_json,
    print_status,
)
from mosaico.core.errors import AppError
from mosaico.core.web.page_paths import path_of, run_page_path, trace_page_path

PATH: Final = "/annotations"
RUNS: Final = "/benchmark-runs"
MAX_LINKS: Final = 3
RUN_IDS: Final = complete_ids(RUNS)

cli = CommandGroup("annotations", help="Judge answers; list, export and import what people say.")
annotations = Resource(group=cli, noun="annotation", path=PATH)

COLUMNS = (
    field("id"),
    field("runId", "run"),
    field("traceId", "trace"),
    field("itemId", "item"),
    field("judgement"),
    field("score"),
    field("annotatorName", "annotator"),
    field("expectedIsWrong", "expected wrong"),
    field("note"),
    time_field("updatedAt", "at"),
)


def _part_field(part: str, name: str, title: str) -> Column:
    """The column of a number of a part, which may be missing."""
    return Column(title, lambda item: (item[part] or {}).get(name))


JUDGE_COLUMNS = (
    field("metric"),
    field("answers"),
    _part_field("share", "value", "same"),
    _part_field("share", "low", "from"),
    _part_field("share", "high", "to"),
    _part_field("kappa", "value", "kappa"),
    _part_field("bias", "value", "bias"),
    _part_field("drift", "shift", "drift"),
    _part_field("corrected", "judgeMean", "judge says"),
    _part_field("corrected", "value", "corrected"),
    _part_field("corrected", "low", "from"),
    _part_field("corrected", "high", "to"),
)
EXPORTED: Final[dict[str, type]] = {
    "runId": str, "traceId": str, "itemId": str, "judgement": str, "score": float, "correctedAnswer": str,
    "note": str, "expectedIsWrong": bool, "annotator": str, "annotatorName": str, "benchmarkId": str,
    "createdAt": str, "updatedAt": str, "id": str,
}  # fmt: skip
# The fields of a row that are sent; the others are the service's own.
IMPORTED: Final = (
    "runId", "traceId", "judgement", "score", "correctedAnswer", "note", "expectedIsWrong",
)  # fmt: skip


annotations.add_list(
    COLUMNS,
    filters={
        "benchmarkId": id_filter("benchmark", "/benchmarks"),
        "runId": id_filter("run", "/benchmark-runs"),
        "itemId": text_filter("--item", "Filter by the ID of an item."),
        "traceId": text_filter("--trace", "Filter by the ID of a trace."),
        "annotator": text_filter("--annotator", "Filter by the ID of a person or a key."),
        "judgement": text_filter("--judgement", "Filter by right, partly or wrong."),
        "expectedIsWrong": flag_filter(
            "--expected-is-wrong/--expected-is-right",
            "Only those that call the expected answer wrong.",
        ),
        "text": text_filter("--text", "Filter by a part of the note or the corrected answer."),
    },
    help_text="List annotations, newest first.",
)
annotations.add_show(help_text="Show an annotation.")
annotations.add_delete(help_text="Delete an annotation of your own; admins delete any.")


@cli.command("add")
def add_annotation(
    run: Annotated[str, typer.Option("--run", help="ID of the run.", autocompletion=RUN_IDS)],
    trace: Annotated[
        str, typer.Option("--trace", help="ID of the trace; `mosaico runs traces RUN` lists them.")
    ],
    judgement: Annotated[str, typer.Option("--judgement", help="right, partly or wrong.")],
    score: Annotated[float | None, typer.Option("--score", help="A score of your own.")] = None,
    corrected: Annotated[
        str | None, typer.Option("--corrected", help="What would have been right.")
    ] = None,
    note: Annotated[str | None, typer.Option("--note", help="Why.")] = None,
    *,
    is_wrong: Annotated[
        bool,
        typer.Option("--expected-is-wrong", help="The expected answer of the item is wrong."),
    ] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Judge an answer of a run, in place of what you said of it before."""
    body = {
        "traceId": trace,
        "judgement": judgement,
        "score": score,
        "correctedAnswer": corrected,
        "note": note,
        "expectedIsWrong": is_wrong,
    }
    with open_api() as api:
        run_id = api.full_id(RUNS, run)
        annotation = api.post(f"{RUNS}{path_of(run_id)}{PATH}", body)
        address = f"{api.pages_url}{trace_page_path(run_id, trace)}"
    line = f"{format_cell(annotation['itemId'])} is judged: {annotation['judgement']}"
    print_change(annotation, output, [line], annotation["id"])
    print_link(address, output)


@cli.command("judges")
def show_judges(
    benchmark: Annotated[
        str, typer.Argument(metavar="BENCHMARK", autocompletion=complete_ids("/benchmarks"))
    ],
    min_agreement: Annotated[
        float | None,
        typer.Option(
            "--min-agreement",
            min=0,
            max=1,
            help="Exit with 3 if a judge agrees with people on a smaller share of the answers, or nobody knows.",
        ),
    ] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Compare the judges of a benchmark with annotations: agreement, bias, drift, and corrected means."""
    with open_api() as api:
        benchmark_id = api.find_id("/benchmarks", benchmark)
        path = f"/benchmarks{path_of(benchmark_id)}/judges"
        limit = None if min_agreement is None else str(min_agreement)
        judges = api.get(path, minAgreement=limit)["items"]
        address = f"{api.pages_url}{path}"
    if output is OutputFormat.JSON:
        print_json(judges)
    else:
        print_table(tabulate(judges, JUDGE_COLUMNS))
        for judge in judges:
            for reason in _why_missing(judge):
                print_status(f"{format_cell(judge['metric'])}: {format_cell(reason)}")
    print_link(address, output)
    below = [judge["metric"] for judge in judges if judge["isBelow"]]
    if below or (min_agreement is not None and not judges):
        names = ", ".join(map(format_cell, below)) or "no judge"
        print_status(f"below the agreement of {min_agreement:g}, or not known: {names}")
        raise typer.Exit(EXIT_UNSUCCESSFUL)


def _why_missing(judge: JSON) -> list[str]:
    """Why numbers of a judge are missing: each reason once, after the names of its numbers."""
    if judge["reason"]:
        return [judge["reason"]]
    numbers = defaultdict[str, list[str]](list)
    for part, name in (
        ("share", "same"),
        ("kappa", "kappa"),
        ("bias", "bias"),
        ("corrected", "corrected"),
    ):
        if reason := (judge[part] or {}).get("reason"):
            numbers[reason].append(name)
    return [f"{', '.join(names)}: {reason}" for reason, names in numbers.items()]


@cli.command("export")
def export_annotations(
    file: ExportFile = STDOUT,
    run: Annotated[list[str] | None, id_option("run", "/benchmark-runs")] = None,
    benchmark: Annotated[list[str] | None, id_option("benchmark", "/benchmarks")] = None,
    export_as: ExportAs = None,
) -> None:
    """Write annotations as rows, newest first: CSV, JSONL or Parquet. `mosaico annotations import` reads them."""
    with open_api() as api:
        filters = find_named(api, api.full_parameters({"runId": run, "benchmarkId": benchmark}))
        run_ids: dict[str, None] = {}

        def read_rows() -> Iterator[JSON]:
            for row in api.items(PATH, **filters):
                run_ids[row["runId"]] = None
                yield row

        export_rows(read_rows(), EXPORTED, file, export_as)
        _print_pages(api.pages_url, run_ids)


@cli.command("import")
def import_annotations(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV or JSON Lines.")],
) -> None:
    """Store the annotations of a file as yours, in place of what you said of the same answers before.

    Its columns are runId, traceId and judgement (right, partly, wrong), and if you like score,
    correctedAnswer, note and expectedIsWrong. Other columns are left out, such as the annotator of an
    export: nobody judges in the name of somebody else.
    """
    with open_api() as api:
        count = 0
        run_ids: dict[str, None] = {}
        for number, row in enumerate(_read_file(file), 1):
            run_id = row.pop("runId", "")
            if not run_id:
                raise WrongUsage(f"row {number} of {file} has no runId; {count} rows are stored")
            try:
                api.post(f"{RUNS}{path_of(run_id)}{PATH}", row)
            except AppError as error:
                error.detail = f"row {number} of {file}: {error.detail}; {count} rows are stored"
                raise
            count += 1
            run_ids[run_id] = None
        print_status(f"{count} annotations are stored")
        _print_pages(api.pages_url, run_ids)


def _print_pages(pages_url: str, run_ids: Iterable[str]) -> None:
    """Print the address of the page of a few runs; that of many would hide the result."""
    for run_id in islice(run_ids, MAX_LINKS):
        print_link(f"{pages_url}{run_page_path(run_id)}/annotations")


def _read_file(file: Path) -> list[dict[str, Any]]:
    """The bodies of the requests for a file. Raises: `WrongUsage` before anything is stored."""
    try:
        return list(_read_rows(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise WrongUsage(f"{file} cannot be read: {error}") from error


def _read_rows(file: Path) -> Iterator[dict[str, Any]]:
    """The bodies of the requests. Raises: `WrongUsage` for a row that is not readable."""
    with file.open(encoding="utf-8-sig", newline="") as stream:
        if file.suffix.lower() in (".jsonl", ".ndjson"):
            for number, line in enumerate(filter(str.strip, stream), 1):
                try:
                    row = json.loads(line)
                except ValueError:
                    row = None
                if not isinstance(row, dict):
                    raise WrongUsage(f"row {number} of {file} is not a JSON object")
                yield {name: row[name] for name in IMPORTED if row.get(name) is not None}
            return
        for row in csv.DictReader(stream):
            yield _read_cells(row)


def _read_cells(row: dict[str, str]) -> dict[str, Any]:
    """The fields of a row of CSV, as an export writes them; empty cells are left out."""
    from mosaico.core.reports import unescape_cell

    cells: dict[str, Any] = {
        name: unescape_cell(text) for name in IMPORTED if (text := (row.get(name) or "").strip())
    }
    if "score" in cells:
        # What is no number is refused by the service, which names the field.
        with suppress(ValueError):
            cells["score"] = float(cells["score"])
    if "expectedIsWrong" in cells:
        cells["expectedIsWrong"] = cells["expectedIsWrong"].lower() == "true"
    return cells
