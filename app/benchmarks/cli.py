"""`mosaico benchmarks`: what is measured on which traces, and the KPIs made of it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from app.core.console.shell_completion import ids_at
from app.core.console.table import (
    JSON,
    Column,
    field,
    format_cell,
    format_time,
    print_details,
    print_page,
    print_table,
    tabulate,
    time_field,
)
from app.core.console.terminal import (
    CommandGroup,
    DryRun,
    Format,
    OutputFormat,
    WrongUsage,
    Yes,
    print_json,
    print_result,
    print_status,
)
from app.core.errors import Invalid

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
PIN_COLUMNS = (field("agentId", "agent"), field("runId", "run"), time_field("pinnedAt", "pinned"))
POWER_COLUMNS = (
    field("kind"),
    field("name"),
    field("items"),
    field("trials"),
    field("minDetectableEffect", "min. detectable effect"),
    field("trialsNeeded", "trials needed"),
    field("itemsNeeded", "items needed"),
)


@cli.command("list")
def list_benchmarks(
    *,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The newest so many.")] = 50,
    archived: Annotated[bool, typer.Option("--archived", help="Those that were put away.")] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the benchmarks, newest first."""
    from app.core.console.api_client import open_api

    with open_api() as api:
        page = api.page(PATH, limit=limit, archived=archived)
    print_page(page, COLUMNS, output)


@cli.command("show")
def show_benchmark(benchmark: BenchmarkId, output: Format = OutputFormat.TABLE) -> None:
    """Show one benchmark and its KPIs."""
    from app.core.console.api_client import open_api, segment

    with open_api() as api:
        found = api.get(f"{PATH}/{segment(benchmark)}")
    if output is OutputFormat.JSON:
        print_json(found)
        return
    measures = found.pop("measures")
    times = {name: format_time(found[name]) for name in ("createdAt", "updatedAt")}
    print_details(found | times | {"metrics": _metrics(found)})
    print_result("")
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
    from app.core.console.api_client import open_api
    from app.core.console.input_files import read_object

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
        print_json(created)
    else:
        print_result(format_cell(created["id"]))
    print_status(f"benchmark {format_cell(created['id'])} is defined")
    print_status(f"next: `mosaico runs start {format_cell(created['id'])} AGENT --wait`")


@cli.command("delete")
def delete_benchmark(*, benchmark: BenchmarkId, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Delete a benchmark that no run refers to."""
    from app.core.console.api_client import delete_thing, segment

    path, what = f"{PATH}/{segment(benchmark)}", f"the benchmark {format_cell(benchmark)}"
    delete_thing(path, what, yes=yes, dry_run=dry_run)


@cli.command("baseline")
def show_baseline(
    *,
    benchmark: BenchmarkId,
    pin: Annotated[
        str | None, typer.Option("--pin", metavar="RUN", help="Compare later runs with this one.")
    ] = None,
    unpin: Annotated[
        bool, typer.Option("--unpin", help="Compare runs with those before them again.")
    ] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Show what runs are compared with; pin a run, or unpin it."""
    from app.core.console.api_client import open_api, segment

    if pin is not None and unpin:
        raise WrongUsage("--pin and --unpin exclude each other", hint="give one of them")
    path = f"{PATH}/{segment(benchmark)}/baseline"
    with open_api() as api:
        if pin is not None:
            api.put(path, {"runId": pin})
        elif unpin:
            api.delete(path)
        found = api.get(path)
    if output is OutputFormat.JSON:
        print_json(found)
        return
    print_details({"mode": found["mode"], "runs": found["runs"]})
    if found["pinned"]:
        print_result("")
        print_table(tabulate(found["pinned"], PIN_COLUMNS))


@cli.command("power")
def show_power(
    benchmark: BenchmarkId,
    items: Annotated[
        int | None, typer.Option("--items", min=2, help="As in the newest run if left out.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option("--trials", min=1, help="Of each item; as in the newest run.")
    ] = None,
    drop: Annotated[
        float | None, typer.Option("--drop", help="A drop that should be seen.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Of its runs.", autocompletion=ids_at("/agents"))
    ] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Tell the smallest drop that so many items and trials show, and what a smaller one would cost."""
    from app.core.console.api_client import open_api, segment

    asked = {"items": items, "trials": trials, "drop": drop, "agentId": agent}
    body = {name: value for name, value in asked.items() if value is not None}
    with open_api() as api:
        found = api.post(f"{PATH}/{segment(benchmark)}/power", body)["items"]
    if output is OutputFormat.JSON:
        print_json(found)
        return
    print_table(tabulate(found, POWER_COLUMNS))
    for each in found:
        print_status(format_cell(each["explanation"]))


def _kpi(text: str) -> JSON:
    """A KPI as an option gives it: what stands before the first `=` is its name."""
    name, found, formula = text.partition("=")
    if not (found and name.strip() and formula.strip()):
        raise Invalid(
            f"--kpi {text!r} has no name or no formula",
            hint="write it as --kpi 'quality=AVERAGE(ROUGE, BLEU)'",
        )
    return {"name": name.strip(), "formula": formula.strip()}
