"""`mosaico runs export` and `mosaico history`: traces and KPI values as rows for other programs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple
from urllib.parse import urlencode

import typer

from mosaico.core.console.filter_options import REPEAT, check_filters, find_named, id_option
from mosaico.core.console.resource import page_query
from mosaico.core.console.resource_arguments import Fields, Limit, id_argument
from mosaico.core.console.row_export import STDOUT, ExportAs, ExportFile, export_rows
from mosaico.core.console.service import open_api
from mosaico.core.console.table import (
    JSON,
    Column,
    field,
    format_cell,
    format_time,
    print_link,
    print_page,
    time_field,
)
from mosaico.core.console.terminal import CommandGroup, Format, OutputFormat, print_status
from mosaico.core.web.page_paths import path_of, run_page_path

if TYPE_CHECKING:
    from mosaico.core.console.api_calls import QueryValue
    from mosaico.core.console.api_client import ApiClient

PATH = "/benchmark-runs"
HISTORY = "/kpi-history"
NOUN = "KPI value"

export = CommandGroup("export", help="Write the traces of a run as rows.")
history = CommandGroup("history", help="Read and export the history of KPIs.")

RunId = Annotated[str, id_argument("run", PATH)]


class HistoryFilter(NamedTuple):
    """The options that select and sort KPI values."""

    benchmark: Annotated[list[str] | None, id_option("benchmark", "/benchmarks")] = None
    agent: Annotated[list[str] | None, id_option("agent", "/agents")] = None
    kpi: Annotated[
        list[str] | None, typer.Option("--kpi", help=f"Filter by the ID or name of a KPI. {REPEAT}")
    ] = None
    since: Annotated[
        str | None, typer.Option("--from", help="Only runs that ended at or after this time.")
    ] = None
    until: Annotated[
        str | None, typer.Option("--to", help="Only runs that ended before this time.")
    ] = None
    sort: Annotated[
        str | None, typer.Option("--sort", help="Sort key, for example recorded or -agent.")
    ] = None

    def parameters(self) -> "dict[str, QueryValue]":
        return {
            "benchmarkId": self.benchmark,
            "agentId": self.agent,
            "kpi": self.kpi,
            "from": self.since,
            "to": self.until,
            "sort": self.sort,
        }


TRACE_COLUMNS: dict[str, type] = {
    "itemId": str, "trial": int, "traceId": str, "outcome": str, "input": str,
    "expectedOutput": str, "output": str, "error": str, "tags": str, "attributes": str, "url": str,
}  # fmt: skip
HISTORY_COLUMNS: dict[str, type] = {
    "runId": str, "benchmarkId": str, "agentId": str, "recordedAt": str, "name": str,
    "formula": str, "value": float, "intervalLow": float, "intervalHigh": float, "unit": str,
    "validity": str, "verdict": str, "effect": float, "withinThresholds": bool,
    "undefinedReason": str,
}  # fmt: skip
TABLE_COLUMNS = (
    time_field("recordedAt", "recorded"),
    field("name", "kpi"),
    field("value"),
    Column("verdict", lambda row: (row["verdict"] or {}).get("verdict")),
    field("benchmarkId", "benchmark"),
    field("agentId", "agent"),
    field("runId", "run"),
    field("validity"),
    field("unit"),
)


@export.command("export")
def export_run(run: RunId, file: ExportFile = STDOUT, export_as: ExportAs = None) -> None:
    """Write the traces of a run as rows: texts, outcome, and a column for each metric.

    `mosaico compare` reads the file again. In CSV an apostrophe precedes a text that a spreadsheet
    would run as a formula; JSONL and Parquet have the texts as they are.
    """
    with open_api() as api:
        run_id = api.full_id(PATH, run)
        path = f"{PATH}{path_of(run_id)}"
        metrics = [metric["metric"] for metric in api.get(f"{path}/metrics")["items"]]
        columns = TRACE_COLUMNS | dict.fromkeys(metrics, float)
        rows = (trace | trace["values"] for trace in api.items(f"{path}/results"))
        export_rows(rows, columns, file, export_as)
        run_row = api.get(path)
        address = f"{api.pages_url}{run_page_path(run_id)}/traces"
    for line in _describe_texts(run_row):
        print_status(line)
    if file != STDOUT:
        print_status(f"the traces of run {format_cell(run_id)} are written to {file}")
        print_link(address)


def _describe_texts(run: JSON) -> Iterator[str]:
    """What is not in the texts of a run."""
    if run["redactedTexts"]:
        yield (
            f"{run['redactedTexts']} texts were redacted by the rules of benchmarks before they were stored"
        )
    if run["textsRemovedAt"]:
        yield f"texts were removed at {format_time(run['textsRemovedAt'])}; values stay"


@history.command("list")
def list_history(
    *,
    selected: HistoryFilter,
    limit: Limit = 50,
    fields: Fields = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the values of KPIs, newest first unless sorted."""
    with open_api() as api:
        filters = find_named(api, selected.parameters())
        page = api.page(HISTORY, limit=limit, **filters)
        check_filters(api, page["items"], filters, NOUN)
        address = f"{api.pages_url}{_history_page(page['items'], filters)}"
    print_page(page, TABLE_COLUMNS, output, fields)
    print_link(address, output)


@history.command("export")
def export_history(
    *,
    file: ExportFile = STDOUT,
    selected: HistoryFilter,
    export_as: ExportAs = None,
) -> None:
    """Write the values of KPIs as rows, newest first unless sorted."""
    with open_api() as api:
        filters = find_named(api, selected.parameters())
        # Before a file is written: the newest row shows whether the filters match anything.
        newest = api.page(HISTORY, limit=1, **filters)["items"]
        check_filters(api, newest, filters, NOUN)
        export_rows(_history_rows(api, filters), HISTORY_COLUMNS, file, export_as)
        address = f"{api.pages_url}{_history_page(newest, filters)}"
    if file != STDOUT:
        print_status(f"the history is written to {file}")
        print_link(address)


def _history_page(rows: Sequence[JSON], filters: "Mapping[str, QueryValue]") -> str:
    """The trend of a KPI that all values are of, of the same agents and period; otherwise the page of their
    benchmark, or of all.
    """
    benchmarks = {row["benchmarkId"] for row in rows}
    kpis = {row["kpiId"] for row in rows}
    if len(benchmarks) != 1:
        return "/benchmarks"
    if len(kpis) != 1:
        return path_of("benchmarks", *benchmarks)
    query = page_query({name: filters[name] for name in ("agentId", "from", "to")})
    return f"{path_of('benchmarks', *benchmarks, 'kpis', *kpis)}?{urlencode(query, doseq=True)}".rstrip(
        "?"
    )


def _history_rows(api: "ApiClient", filters: "Mapping[str, QueryValue]") -> Iterator[JSON]:
    for row in api.items(HISTORY, **filters):
        verdict = row["verdict"] or {}
        yield row | {"verdict": verdict.get("verdict"), "effect": verdict.get("effect")}
