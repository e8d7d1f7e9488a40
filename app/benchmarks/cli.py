"""`mosaico benchmarks`: what is measured on which traces, and the KPIs made of it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from app.core.completion import ids_at
from app.core.errors import Invalid
from app.core.tabular import (
    JSON,
    Column,
    cell,
    field,
    print_details,
    print_page,
    print_table,
    tabulate,
    time_field,
    when,
)
from app.core.terminal import (
    CommandGroup,
    DryRun,
    Format,
    OutputFormat,
    Yes,
    answer,
    answer_json,
    tell,
)

PATH = "/benchmarks"

cli = CommandGroup("benchmarks", help="What is measured on which traces, and the KPIs of it.")


BenchmarkId = Annotated[
    str,
    typer.Argument(metavar="BENCHMARK", help="Id of a benchmark.", autocompletion=ids_at(PATH)),
]


def _metrics(benchmark: JSON) -> list[str]:
    return [metric["key"] for metric in benchmark["metrics"]]


COLUMNS = (
    field("id"),
    field("datasetRef", "dataset"),
    field("runName", "run name"),
    Column("metrics", _metrics),
    Column("kpis", lambda benchmark: [kpi["name"] for kpi in benchmark["measures"]]),
    time_field("createdAt", "created"),
)
KPI_COLUMNS = (
    field("name", "kpi"),
    field("formula"),
    field("unit"),
    field("direction"),
    field("thresholdMin", "min"),
    field("thresholdMax", "max"),
    field("revision"),
)


@cli.command("list")
def list_benchmarks(
    *,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The newest so many.")] = 50,
    archived: Annotated[bool, typer.Option("--archived", help="Those that were put away.")] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the benchmarks, newest first."""
    from app.core.client import open_api

    with open_api() as api:
        page = api.page(PATH, limit=limit, archived=archived)
    print_page(page, COLUMNS, output)


@cli.command("show")
def show_benchmark(benchmark: BenchmarkId, output: Format = OutputFormat.TABLE) -> None:
    """Show one benchmark and its KPIs."""
    from app.core.client import open_api, segment

    with open_api() as api:
        found = api.get(f"{PATH}/{segment(benchmark)}")
    if output is OutputFormat.JSON:
        answer_json(found)
        return
    measures = found.pop("measures")
    times = {name: when(found[name]) for name in ("createdAt", "updatedAt")}
    print_details(found | times | {"metrics": _metrics(found)})
    answer("")
    print_table(tabulate(measures, KPI_COLUMNS))


@cli.command("create")
def create_benchmark(
    benchmark_id: Annotated[str | None, typer.Option("--id", help="Made when left out.")] = None,
    dataset: Annotated[str | None, typer.Option("--dataset", help="Dataset it reads.")] = None,
    run_name: Annotated[
        str | None, typer.Option("--run-name", help="Run of the dataset; its newest if left out.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", help="What the agent has to do.")] = None,
    source: Annotated[str | None, typer.Option("--source", help="Where traces come from.")] = None,
    metrics: Annotated[
        list[str] | None, typer.Option("--metric", help="A metric, e.g. ROUGE; may be repeated.")
    ] = None,
    kpis: Annotated[
        list[str] | None,
        typer.Option("--kpi", metavar="NAME=FORMULA", help="A KPI; may be repeated."),
    ] = None,
    agents: Annotated[
        list[str] | None,
        typer.Option("--agent", help="An agent that may be benchmarked; any if left out."),
    ] = None,
    min_coverage: Annotated[
        float | None, typer.Option("--min-coverage", help="A run with less is INVALID.")
    ] = None,
    max_error_share: Annotated[
        float | None, typer.Option("--max-error-share", help="A run with more is INVALID.")
    ] = None,
    keep_days: Annotated[
        int | None, typer.Option("--keep-days", help="Age at which its runs are purged.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="The benchmark as JSON, as the API takes it; - is stdin."),
    ] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Define a benchmark and print its id; options win over the same fields of --file."""
    from app.core.client import open_api
    from app.core.input_files import read_object

    given: dict[str, Any] = {
        "id": benchmark_id,
        "datasetRef": dataset,
        "runName": run_name,
        "taskDef": task,
        "source": source,
        "metrics": metrics or None,
        "measures": [_kpi(text) for text in kpis] if kpis else None,
        "evaluates": agents or None,
        "minCoverage": min_coverage,
        "maxErrorShare": max_error_share,
        "keepDays": keep_days,
    }
    body = read_object(file) if file else {}
    body |= {key: value for key, value in given.items() if value is not None}
    with open_api() as api:
        created = api.post(PATH, body)
    if output is OutputFormat.JSON:
        answer_json(created)
    else:
        answer(cell(created["id"]))
    tell(f"benchmark {cell(created['id'])} is defined")
    tell(f"next: `mosaico runs start {cell(created['id'])} AGENT --wait`")


@cli.command("delete")
def delete_benchmark(*, benchmark: BenchmarkId, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Delete a benchmark that no run refers to."""
    from app.core.client import delete_thing, segment

    path, what = f"{PATH}/{segment(benchmark)}", f"the benchmark {cell(benchmark)}"
    delete_thing(path, what, yes=yes, dry_run=dry_run)


def _kpi(text: str) -> JSON:
    """A KPI as an option gives it: what stands before the first `=` is its name."""
    name, found, formula = text.partition("=")
    if not (found and name.strip() and formula.strip()):
        raise Invalid(
            f"--kpi {text!r} has no name or no formula",
            hint="write it as --kpi 'quality=AVERAGE(ROUGE, BLEU)'",
        )
    return {"name": name.strip(), "formula": formula.strip()}
