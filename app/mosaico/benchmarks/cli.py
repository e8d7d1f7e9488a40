"""`mosaico benchmarks`: manage benchmarks, their baselines and their statistical power."""

from typing import Annotated, Any

import typer

from mosaico.core.console.filter_options import flag_filter
from mosaico.core.console.generated_command import FieldOption
from mosaico.core.console.resource import Resource
from mosaico.core.console.resource_arguments import id_argument
from mosaico.core.console.service import complete_ids, open_api
from mosaico.core.console.short_ids import LATEST
from mosaico.core.console.table import (
    JSON,
    Column,
    field,
    format_cell,
    format_time,
    print_details,
    print_link,
    print_table,
    tabulate,
    time_field,
)
from mosaico.core.console.terminal import (
    CommandGroup,
    Format,
    OutputFormat,
    WrongUsage,
    print_json,
    print_result,
    print_status,
)
from mosaico.core.errors import Invalid
from mosaico.core.web.page_paths import path_of

PATH = "/benchmarks"
RUNS = "/benchmark-runs"

cli = CommandGroup("benchmarks", help="Manage benchmarks and their KPIs.")
benchmarks = Resource(group=cli, noun="benchmark", path=PATH, page="/benchmarks")

BenchmarkId = Annotated[str, id_argument("benchmark", PATH)]


def _metric_keys(benchmark: JSON) -> list[str]:
    return [metric["key"] for metric in benchmark["metrics"]]


COLUMNS = (
    field("id"),
    field("datasetRef", "dataset"),
    field("runName", "run name"),
    Column("metrics", _metric_keys),
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


def print_benchmark(benchmark: JSON) -> None:
    """Print a benchmark, and its KPIs as a table below."""
    kpis = benchmark.pop("measures")
    times = {name: format_time(benchmark[name]) for name in ("createdAt", "updatedAt")}
    print_details(benchmark | times | {"metrics": _metric_keys(benchmark)})
    print_result("")
    print_table(tabulate(kpis, KPI_COLUMNS))


def describe_warnings(benchmark: JSON) -> list[str]:
    """The warnings of the KPIs, each with the name of its KPI."""
    return [
        f"warning: KPI {format_cell(kpi['name'])}: {format_cell(warning)}"
        for kpi in benchmark["measures"]
        for warning in kpi["warnings"]
    ]


def describe_created(benchmark: JSON) -> list[str]:
    """Status lines after a benchmark was created."""
    benchmark_id = format_cell(benchmark["id"])
    return [
        f"benchmark {benchmark_id} is created",
        *describe_warnings(benchmark),
        f"next: `mosaico runs start {benchmark_id} AGENT --wait`",
    ]


def parse_metric(text: str) -> Any:
    """A metric on the command line: its name, or a JSON object with its options."""
    from mosaico.core.console.schema_options import parse_json

    return parse_json(text) if text.startswith("{") else text


def parse_kpi(text: str) -> Any:
    """A KPI on the command line: `NAME=FORMULA`, with its direction after the formula if it is named, or a JSON
    object. Raises: `Invalid`.
    """
    from mosaico.core.console.schema_options import parse_json
    from mosaico.metrics.formula_direction import parse_kpi_text

    if text.startswith("{"):
        return parse_json(text)
    name, equals, formula = text.partition("=")
    if not (equals and name.strip() and formula.strip()):
        raise Invalid(
            f"--kpi {text!r} has no name or no formula",
            hint="write it as --kpi 'quality=AVERAGE(ROUGE, BLEU)'",
        )
    kpi = parse_kpi_text(formula.strip())
    direction = {"direction": kpi.direction} if kpi.direction else {}
    return {"name": name.strip(), "formula": kpi.formula, **direction}


OPTIONS = {
    "datasetRef": FieldOption("--dataset"),
    "taskDef": FieldOption("--task", help="The task of the agent."),
    "evaluates": FieldOption(
        "--agent",
        help="ID of an agent that the benchmark evaluates (default: any agent).",
        ids_of="/agents",
    ),
    "metadata": FieldOption(help="Metadata as a JSON object."),
    "triggers": FieldOption(help="Triggers that start runs."),
    "redact": FieldOption(
        help="What is removed from texts before they are stored, as JSON: `patterns` (RE2) and `paths` of attributes and JSON."
    ),
    "writeBack": FieldOption(help="Which values runs write back to the trace source."),
    "judgeCalibration": FieldOption(help="Answers with gold scores that check the judge."),
    "metrics": FieldOption(
        metavar="NAME|JSON", help="Metric to compute, such as ROUGE.", parse=parse_metric
    ),
    "measures": FieldOption(
        "--kpi",
        metavar="NAME=FORMULA",
        help=(
            "KPI and its formula, such as quality=AVERAGE(ROUGE, BLEU). Its direction follows from the formula;"
            " another one is named at the end: 'words=OUTPUT_TOKENS higher'."
        ),
        parse=parse_kpi,
    ),
}

benchmarks.add_list(
    COLUMNS,
    filters={
        "archived": flag_filter("--archived", "List archived benchmarks instead of active ones.")
    },
    help_text="List benchmarks, newest first.",
)
benchmarks.add_show(help_text="Show a benchmark and its KPIs.", print_one=print_benchmark)
benchmarks.add_create(
    "mosaico.benchmarks.schemas:BenchmarkCreate",
    options=OPTIONS,
    help_text="Create a benchmark and print its ID.",
    describe=describe_created,
)
benchmarks.add_update(
    "mosaico.benchmarks.schemas:BenchmarkPatch", options=OPTIONS, describe=describe_warnings
)
benchmarks.add_delete(
    help_text="Delete a benchmark that no run refers to.",
    dependents="its schedules, alert rules and webhook secrets",
)


@cli.command("baseline")
def show_baseline(
    *,
    benchmark: BenchmarkId,
    pin: Annotated[
        str | None,
        typer.Option(
            "--pin",
            metavar="RUN",
            help=(
                "Compare later runs with this run; `latest` is the newest run that can be a "
                "baseline."
            ),
            autocompletion=complete_ids(RUNS),
        ),
    ] = None,
    unpin: Annotated[
        bool,
        typer.Option(
            "--unpin", help="Unpin the baseline: compare later runs with the runs before them."
        ),
    ] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Show the baseline of a benchmark; pin a run as the baseline, or unpin it."""
    if pin is not None and unpin:
        raise WrongUsage("--pin and --unpin cannot be used together", hint="use one of them")
    with open_api() as api:
        benchmark_id = api.find_id(PATH, benchmark)
        path = f"{PATH}{path_of(benchmark_id)}/baseline"
        if pin is not None:
            # The service knows which runs can be a baseline.
            api.put(path, {"runId": pin if pin == LATEST else api.full_id(RUNS, pin)})
        elif unpin:
            api.delete(path)
        baseline = api.get(path)
        address = f"{api.pages_url}{path_of('benchmarks', benchmark_id)}"
    if output is OutputFormat.JSON:
        print_json(baseline)
        return
    print_details({"mode": baseline["mode"], "runs": baseline["runs"]})
    if baseline["pinned"]:
        print_result("")
        print_table(tabulate(baseline["pinned"], PIN_COLUMNS))
    print_link(address, output)


@cli.command("power")
def show_power(
    benchmark: BenchmarkId,
    items: Annotated[
        int | None,
        typer.Option("--items", min=2, help="Number of items (default: as in the newest run)."),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option("--trials", min=1, help="Trials per item (default: as in the newest run)."),
    ] = None,
    drop: Annotated[
        float | None,
        typer.Option("--drop", help="Drop to detect: print the number of trials that it requires."),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent",
            help="Estimate the variance from the runs of this agent.",
            autocompletion=complete_ids("/agents"),
        ),
    ] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Show the smallest drop that a run detects with 80 % power, and the cost of a smaller one."""
    with open_api() as api:
        agent_id = agent and api.find_id("/agents", agent)
        options = {"items": items, "trials": trials, "drop": drop, "agentId": agent_id}
        body = {name: value for name, value in options.items() if value is not None}
        path = f"{PATH}{path_of(api.find_id(PATH, benchmark))}/power"
        estimates = api.post(path, body)["items"]
        address = f"{api.pages_url}{path}"
    if output is OutputFormat.JSON:
        print_json(estimates)
        return
    print_table(tabulate(estimates, POWER_COLUMNS))
    for estimate in estimates:
        print_status(format_cell(estimate["explanation"]))
    print_link(address, output)
