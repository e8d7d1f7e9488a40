"""`mosaico runs`: start, watch and read benchmark runs."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from mosaico.comparison.cli import COMPARISON_TIMEOUT_S, print_explanations
from mosaico.core.console.filter_options import choice_filter, id_filter, text_filter
from mosaico.core.console.resource import Resource
from mosaico.core.console.resource_arguments import id_argument, note_option
from mosaico.core.console.service import open_api
from mosaico.core.console.table import (
    JSON,
    field,
    format_cell,
    format_time,
    print_change,
    print_details,
    print_link,
    print_table,
    tabulate,
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
from mosaico.core.web.page_paths import path_of, run_page_path
from mosaico.run_store.rules import RunStatus, TriggerType, Validity
from mosaico.runs.cli.run_tables import (
    CATEGORY_COLUMNS,
    COLUMNS,
    EVALUATION_COLUMNS,
    KPI_COLUMNS,
    METRIC_COLUMNS,
    TRIAL_COLUMNS,
    trial_rows,
    verdict_of,
)
from mosaico.statistics.verdict_rules import Verdict

if TYPE_CHECKING:
    from mosaico.core.console.api_client import ApiClient

PATH = "/benchmark-runs"

cli = CommandGroup("runs", help="Start, watch and compare benchmark runs.")
runs = Resource(group=cli, noun="run", path=PATH, page="/runs")

RunId = Annotated[str, id_argument("run", PATH)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")]


WindowStart = Annotated[
    str | None,
    typer.Option("--from", help="Read production traces that started at or after this time."),
]
WindowEnd = Annotated[
    str | None, typer.Option("--to", help="Read production traces that started before this time.")
]


def _window(since: str | None, until: str | None) -> JSON | None:
    if (since is None) != (until is None):
        raise WrongUsage("--from and --to belong together", hint="give both, or none of them")
    return {"from": since, "to": until} if since else None


def describe_cancelled(run: JSON) -> list[str]:
    """Status lines after a run was cancelled."""
    run_id = format_cell(run["id"])
    return [f"run {run_id} is cancelled", f"to start it again: `mosaico runs retry {run_id}`"]


def describe_accepted(run: JSON) -> list[str]:
    """Status line after the level of a run was accepted."""
    run_id = format_cell(run["id"])
    return [f"the level of run {run_id} is accepted: the run is a baseline of later runs"]


@cli.command("start")
def start_run(
    *,
    benchmark: Annotated[str, id_argument("benchmark", "/benchmarks")],
    agent: Annotated[str, id_argument("agent", "/agents")],
    run_name: Annotated[
        str | None,
        typer.Option("--run-name", help="Run of the dataset to read, instead of the benchmark's."),
    ] = None,
    since: WindowStart = None,
    until: WindowEnd = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the run has ended.")] = False,
    exit_status: Annotated[
        bool | None,
        typer.Option(
            "--exit-status/--no-exit-status",
            help="With --wait: exit with 3 unless the run is completed and valid (the default).",
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Start a run and print its ID.

    Exit codes: 0 accepted; with --wait, 0 completed and valid, 3 failed, cancelled or invalid.
    """
    from mosaico.core.console.api_responses import parse_response
    from mosaico.runs.cli.progress import finish_watching, watch_run_until_end
    from mosaico.runs.schemas import RunView

    if exit_status is not None and not wait:
        raise WrongUsage("--exit-status requires --wait", hint="add --wait")
    window = _window(since, until)
    with open_api() as api:
        body = {
            "benchmarkId": api.find_id("/benchmarks", benchmark),
            "agentId": api.find_id("/agents", agent),
            "runName": run_name,
            "traceWindow": window,
        }
        fields = {name: value for name, value in body.items() if value is not None}
        run = parse_response(RunView, api.post(PATH, fields))
        _print_started(api, run.id)
        if output is OutputFormat.TABLE:
            print_result(format_cell(run.id))
            sys.stdout.flush()
        if not wait:
            print_status(f"next: `mosaico runs watch {run.id}`")
        else:
            run = watch_run_until_end(api, run.id, quiet=quiet)
    if output is OutputFormat.JSON:
        print_json(run.model_dump(mode="json"))
    if wait:
        finish_watching(run, exit_status=exit_status is not False)


@cli.command("estimate")
def estimate_run(
    *,
    benchmark: Annotated[str, id_argument("benchmark", "/benchmarks")],
    agent: Annotated[str, id_argument("agent", "/agents")],
    since: WindowStart = None,
    until: WindowEnd = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Count the traces of a run, and the requests that it would send to their source.

    No run is started. The count of production traces is requested from Langfuse; uploads need no
    requests.
    """
    window = _window(since, until)
    with open_api() as api:
        benchmark_id, agent_id = (
            api.find_id("/benchmarks", benchmark),
            api.find_id("/agents", agent),
        )
        body = {"benchmarkId": benchmark_id, "agentId": agent_id, "traceWindow": window}
        estimate = api.post(f"{PATH}/estimate", body)
        address = f"{api.pages_url}{path_of('benchmarks', benchmark_id)}"
    if output is OutputFormat.JSON:
        print_json(estimate)
        return
    limit = "at most " if estimate["atMost"] else ""
    if window := estimate["traceWindow"]:
        print_status(f"window {format_time(window['from'])} to {format_time(window['to'])}")
    print_status(f"{limit}{estimate['traces']} traces, of which {estimate['selected']} are read")
    print_status("requests, exact if all traces have as many spans and scores:")
    rows = [{"for": purpose, "requests": count} for purpose, count in estimate["requests"].items()]
    total = {"for": "total", "requests": estimate["totalRequests"]}
    print_table(tabulate([*rows, total], (field("for"), field("requests"))))
    # Only a benchmark over production traces has a page of its estimate.
    print_link(f"{address}/estimate" if window else address, output)


runs.add_list(
    COLUMNS,
    filters={
        "benchmarkId": id_filter("benchmark", "/benchmarks"),
        "agentId": id_filter("agent", "/agents"),
        "status": choice_filter("--status", RunStatus, "Filter by status."),
        "triggeredBy": choice_filter("--trigger", TriggerType, "Filter by what started the run."),
        "scheduleId": id_filter("schedule", "/schedule-configs"),
        "validity": choice_filter("--validity", Validity, "Filter by validity."),
        "verdict": choice_filter("--verdict", Verdict, "Filter by verdict."),
        "datasetName": text_filter("--dataset", "Filter by the dataset whose items live here."),
        "datasetVersion": text_filter(
            "--dataset-version", "Filter by the version of the dataset that the run tests."
        ),
        "text": text_filter(
            "--text", "Filter by a part of an ID, an error, or a name of a run, agent or benchmark."
        ),
        "from": text_filter("--from", "Only runs created at or after this time."),
        "to": text_filter("--to", "Only runs created before this time."),
        "sort": text_filter("--sort", "Sort key, for example verdict or -completed."),
    },
    help_text="List runs, newest first.",
    limit=20,
)


def _joined_rows(metrics: Sequence[JSON]) -> list[JSON]:
    """One row for metrics with the same values on all items."""
    same_as = {row["metric"]: (row["verdict"] or {}).get("sameAs") for row in metrics}
    return [
        {
            **row,
            "metric": ", ".join(
                [row["metric"], *(name for name, of in same_as.items() if of == row["metric"])]
            ),
        }
        for row in metrics
        if not same_as[row["metric"]]
    ]


@cli.command("show")
def show_run(run_id: RunId, output: Format = OutputFormat.TABLE) -> None:
    """Show a run: its status, validity, metrics and KPIs, and what the alert rules made of it."""
    with open_api() as api:
        # Once: `latest` may be another run a moment later.
        path = _path(api.full_id(PATH, run_id))
        run = api.get(path)
        metrics = api.get(f"{path}/metrics")["items"]
        kpis = api.get(f"{path}/kpis")["items"]
        evaluations = api.get(f"{path}/evaluations")["items"]
        page_url = f"{api.pages_url}{run_page_path(run['id'])}"
    if output is OutputFormat.JSON:
        print_json(run | {"metrics": metrics, "kpis": kpis, "evaluations": evaluations})
        return
    instants = ("createdAt", "startedAt", "completedAt", "acceptedAt")
    times = {name: format_time(run[name]) for name in instants}
    print_details(run | times | {"verdict": verdict_of(run)})
    tables = (
        (_joined_rows(metrics), METRIC_COLUMNS),
        (trial_rows(metrics), TRIAL_COLUMNS),
        (kpis, KPI_COLUMNS),
        (evaluations, EVALUATION_COLUMNS),
    )
    for rows, columns in tables:
        if rows:
            print_result("")
            print_table(tabulate(rows, columns))
    print_explanations([run, *kpis])
    print_link(page_url, output)


@cli.command("watch")
def watch_run(
    *,
    run_id: RunId,
    exit_status: Annotated[
        bool,
        typer.Option("--exit-status", help="Exit with 3 unless the run is completed and valid."),
    ] = False,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Print the run as one line of JSON at every change.")
    ] = False,
    quiet: Quiet = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Follow a run until it has ended and print its outcome. Ctrl-C does not cancel the run.

    Exit codes: 0 ended; with --exit-status, 3 if the run failed, was cancelled or is invalid.
    """
    from mosaico.runs.cli.progress import finish_watching, watch_run_until_end

    with open_api() as api:
        run = watch_run_until_end(api, run_id, quiet=quiet, jsonl=jsonl)
        address = f"{api.pages_url}{run_page_path(run.id)}"
    if output is OutputFormat.JSON and not jsonl:
        print_json(run.model_dump(mode="json"))
    elif not jsonl:
        print_result("\t".join(filter(None, (run.status, run.validity))))
        print_link(address, output)
    finish_watching(run, exit_status=exit_status)


runs.add_action(
    "cancel", help_text="Cancel a run that is pending or running.", describe=describe_cancelled
)


@cli.command("categories")
def list_categories(
    *,
    run_id: RunId,
    field_name: Annotated[
        str, typer.Option("--field", help="Field of the tags that name the categories.")
    ] = "category",
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Maximum number of categories, by name.")
    ] = 50,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the metrics and KPIs of a completed run by category, with 95 % intervals.

    An item with the tag `category:scripting` is in the category scripting. A run without such tags
    has no categories.
    """
    with open_api(COMPARISON_TIMEOUT_S) as api:
        run_id = api.full_id(PATH, run_id)
        page = api.page(f"{_path(run_id)}/categories", limit=limit, field=field_name)
        address = f"{api.pages_url}{run_page_path(run_id)}"
    if output is OutputFormat.JSON:
        print_json(page)
        return
    rows = [
        {"category": category["category"], "items": category["items"], **row}
        for category in page["items"]
        for row in (*category["kpis"], *category["metrics"])
    ]
    print_table(tabulate(rows, CATEGORY_COLUMNS))
    if page["nextCursor"]:
        count = f"{len(page['items'])} of {page['total']} categories"
        print_status(f"{count} are shown; raise --limit to see more")
    print_link(address, output)


runs.add_action(
    "accept",
    help_text="Accept the level of a run that regressed, so that later runs are compared with it."
    "\n\nUntil then later runs are compared with the runs before it. Requires the role admin.",
    parameters={"note": Annotated[str | None, note_option("run")]},
    describe=describe_accepted,
    question="Accept the level of {}? Later runs are compared with it. This cannot be undone.",
)


runs.add_delete(
    help_text="Delete a run that has ended, with its values and its KPI history. Requires the role admin.",
    describe=lambda run: f"{run['status']}, benchmark {run['benchmarkId']}, agent {run['agentId']}",
)


@cli.command("retry")
def retry_run(run_id: RunId, output: Format = OutputFormat.TABLE) -> None:
    """Start a new run with the settings of a failed or cancelled one, and print its ID."""
    _start_from(run_id, "retry", output)


@cli.command("rescore")
def rescore_run(run_id: RunId, output: Format = OutputFormat.TABLE) -> None:
    """Score the traces of a run again with the current metrics and KPIs, and print the new ID."""
    _start_from(run_id, "rescore", output)


def _start_from(run_id: str, action: str, output: OutputFormat) -> None:
    with open_api() as api:
        run = api.post(f"{_path(run_id)}/{action}")
        _print_started(api, run["id"])
    print_change(run, output, [f"next: `mosaico runs watch {format_cell(run['id'])}`"], run["id"])


def _path(run_id: str) -> str:
    return f"{PATH}{path_of(run_id)}"


def _print_started(api: "ApiClient", run_id: str) -> None:
    url = f"{api.pages_url}{run_page_path(run_id)}"
    print_status(f"run {format_cell(run_id)} started → {url}")
