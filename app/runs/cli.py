"""`mosaico runs`: start, watch and read benchmark runs."""

import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from app.comparison.cli import compare_runs, plot_run, print_explanations
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
    ENDED_BADLY,
    INTERRUPTED,
    CommandGroup,
    Format,
    OutputFormat,
    WrongUsage,
    is_interactive,
    print_json,
    print_result,
    print_status,
)
from app.results.rules import RunStatus

if TYPE_CHECKING:
    from app.core.console.api_client import Api

PATH = "/benchmark-runs"
SECOND_THOUGHTS_S = 2.0

cli = CommandGroup("runs", help="Benchmark runs: start, watch, read.")


RunId = Annotated[
    str, typer.Argument(metavar="RUN", help="Id of a run.", autocompletion=ids_at(PATH))
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing on the way.")]


def _traces(run: JSON) -> str:
    return f"{run['tracesProcessed']}/{format_cell(run['tracesTotal']) or '?'}"


def _interval(of: JSON) -> str | None:
    """From where to where a value lies, at 95 %."""
    low, high = of["intervalLow"], of["intervalHigh"]
    return None if low is None or high is None else f"{format_cell(low)} to {format_cell(high)}"


def _verdict(of: JSON) -> str | None:
    """The word of a verdict; nothing where no comparison was made."""
    return (of["verdict"] or {}).get("verdict")


COLUMNS = (
    field("id"),
    field("status"),
    field("validity"),
    Column("verdict", _verdict),
    field("benchmarkId", "benchmark"),
    field("agentId", "agent"),
    field("runName", "run name"),
    Column("traces", _traces),
    time_field("createdAt", "created"),
    time_field("completedAt", "completed"),
)
METRIC_COLUMNS = (
    field("metric"),
    field("mean"),
    Column("95 %", _interval),
    Column("verdict", _verdict),
    *(field(name) for name in ("n", "std", "min", "max", "p50", "p95", "p99", "coverage")),
)
REPEATS_COLUMNS = (
    field("metric"),
    field("k"),
    field("passAtK", "pass@k"),
    field("passHatK", "pass^k"),
    field("atLeastK", "at least k"),
    field("items"),
)
KPI_COLUMNS = (
    field("name", "kpi"),
    field("value"),
    Column("95 %", _interval),
    Column("verdict", _verdict),
    field("unit"),
    Column("within thresholds", lambda kpi: kpi["withinThresholds"]),
    field("formula"),
    Column("undefined because", lambda kpi: kpi["undefinedReason"]),
)


@cli.command("start")
def start_run(
    *,
    benchmark: Annotated[
        str,
        typer.Argument(
            metavar="BENCHMARK", help="Id of a benchmark.", autocompletion=ids_at("/benchmarks")
        ),
    ],
    agent: Annotated[
        str,
        typer.Argument(metavar="AGENT", help="Id of an agent.", autocompletion=ids_at("/agents")),
    ],
    run_name: Annotated[
        str | None, typer.Option("--run-name", help="Run of the dataset to read instead.")
    ] = None,
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
    """Start a run and print its id.

    Exit codes: 0 accepted; with --wait 0 completed and valid, 3 failed, cancelled or invalid.
    """
    from app.core.console.api_client import open_api

    if exit_status is not None and not wait:
        raise WrongUsage("--exit-status needs the end of the run", hint="add --wait")
    body = {"benchmarkId": benchmark, "agentId": agent, "runName": run_name}
    with open_api() as api:
        run = api.post(PATH, {name: value for name, value in body.items() if value is not None})
        _tell_started(api, run)
        if output is OutputFormat.TABLE:
            print_result(format_cell(run["id"]))
            sys.stdout.flush()
        if not wait:
            print_status(f"next: `mosaico runs watch {run['id']}`")
        else:
            run = _watched(api, run["id"], quiet=quiet)
    if output is OutputFormat.JSON:
        print_json(run)
    if wait:
        _end(run, exit_status=exit_status is not False)


@cli.command("list")
def list_runs(
    benchmark: Annotated[
        str | None,
        typer.Option("--benchmark", help="Of this one.", autocompletion=ids_at("/benchmarks")),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Of this one.", autocompletion=ids_at("/agents"))
    ] = None,
    status: Annotated[
        RunStatus | None, typer.Option("--status", case_sensitive=False, help="In this state.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The newest so many.")] = 20,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the runs, newest first."""
    from app.core.console.api_client import open_api

    with open_api() as api:
        page = api.page(PATH, limit=limit, benchmarkId=benchmark, agentId=agent, status=status)
    print_page(page, COLUMNS, output)


@cli.command("show")
def show_run(run_id: RunId, output: Format = OutputFormat.TABLE) -> None:
    """Show a run: its state, whether it can be trusted, its metrics, its KPIs."""
    from app.core.console.api_client import open_api
    from app.reporting.run_report import repeats_of_metrics

    path = _path(run_id)
    with open_api() as api:
        run = api.get(path)
        metrics = api.get(f"{path}/metrics")["items"]
        kpis = api.get(f"{path}/kpis")["items"]
    if output is OutputFormat.JSON:
        print_json(run | {"metrics": metrics, "kpis": kpis})
        return
    times = {name: format_time(run[name]) for name in ("createdAt", "startedAt", "completedAt")}
    print_details(run | times | {"verdict": _verdict(run)})
    tables = (
        (metrics, METRIC_COLUMNS),
        (repeats_of_metrics(metrics), REPEATS_COLUMNS),
        (kpis, KPI_COLUMNS),
    )
    for items, columns in tables:
        if items:
            print_result("")
            print_table(tabulate(items, columns))
    print_explanations([run, *kpis])


@cli.command("watch")
def watch_run(
    *,
    run_id: RunId,
    exit_status: Annotated[
        bool,
        typer.Option("--exit-status", help="Exit with 3 unless the run is completed and valid."),
    ] = False,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Print the run as a line of JSON at every change.")
    ] = False,
    quiet: Quiet = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Follow a run until it has ended, then print how. Ctrl-C leaves it alone.

    Exit codes: 0 it has ended; with --exit-status 3 when it failed, was cancelled or is invalid.
    """
    from app.core.console.api_client import open_api

    with open_api() as api:
        run = _watched(api, run_id, quiet=quiet, jsonl=jsonl)
    if output is OutputFormat.JSON and not jsonl:
        print_json(run)
    elif not jsonl:
        print_result("\t".join(filter(None, (run["status"], run["validity"]))))
    _end(run, exit_status=exit_status)


@cli.command("report")
def report_run(
    *,
    run: RunId,
    html: Annotated[bool, typer.Option("--html", help="As one page that fetches nothing.")] = False,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to write it; - is stdout.")
    ] = Path("-"),
) -> None:
    """Write a run as a page: KPIs with their history, metrics, alerts, the worst traces."""
    from app.core.console.api_client import open_api
    from app.core.console.output_files import write_text
    from app.reporting.report_data import report_of
    from app.reporting.run_report import html_report

    if not html:
        raise WrongUsage("no form is named", hint="mosaico runs report RUN --html run.html")
    with open_api() as api:
        page = html_report(report_of(api, run))
    if file == Path("-"):
        print_result(page)
        return
    write_text(file, page)
    print_status(f"run {format_cell(run)} is reported in {file}")


cli.command("compare")(compare_runs)
cli.command("plot")(plot_run)


@cli.command("cancel")
def cancel_run(run_id: RunId, output: Format = OutputFormat.TABLE) -> None:
    """Cancel a run that is pending or running."""
    from app.core.console.api_client import open_api

    with open_api() as api:
        run = api.post(f"{_path(run_id)}/cancel")
    if output is OutputFormat.JSON:
        print_json(run)
    print_status(
        f"run {format_cell(run['id'])} is cancelled; `mosaico runs retry {format_cell(run['id'])}` runs it anew"
    )


@cli.command("retry")
def retry_run(run_id: RunId, output: Format = OutputFormat.TABLE) -> None:
    """Start a new run like one that failed or was cancelled, and print its id."""
    from app.core.console.api_client import open_api

    with open_api() as api:
        run = api.post(f"{_path(run_id)}/retry")
        _tell_started(api, run)
    if output is OutputFormat.JSON:
        print_json(run)
    else:
        print_result(format_cell(run["id"]))
    print_status(f"next: `mosaico runs watch {format_cell(run['id'])}`")


@cli.command("rescore")
def rescore_run(run_id: RunId, output: Format = OutputFormat.TABLE) -> None:
    """Judge the traces of a run once more, by the metrics and formulas of now; print the new id."""
    from app.core.console.api_client import open_api

    with open_api() as api:
        run = api.post(f"{_path(run_id)}/rescore")
        _tell_started(api, run)
    if output is OutputFormat.JSON:
        print_json(run)
    else:
        print_result(format_cell(run["id"]))
    print_status(f"next: `mosaico runs watch {format_cell(run['id'])}`")


def _path(run_id: str) -> str:
    from app.core.console.api_client import segment

    return f"{PATH}/{segment(run_id)}"


def _tell_started(api: "Api", run: JSON) -> None:
    from app.core.console.api_client import PREFIX

    print_status(f"run {format_cell(run['id'])} started → {api.url}{PREFIX}{_path(run['id'])}")


def _watched(api: "Api", run_id: str, *, quiet: bool, jsonl: bool = False) -> JSON:
    """The run after it has ended; Ctrl-C leaves it alone and ends the command."""
    from app.runs.progress import follow

    told = _silent if quiet else _liveness()
    latest: JSON | None = None
    try:
        for run in follow(api, _path(run_id)):
            if jsonl and run != latest:
                print_json(run, flush=True)
            latest = run
            if not RunStatus(run["status"]).is_final:
                told(run)
    except KeyboardInterrupt:
        _detach(api, run_id)
    assert latest is not None, "a run that cannot be followed is an error"
    return latest


class _LiveLine:
    """One line on a terminal that is written over."""

    def __call__(self, run: JSON) -> None:
        from app.runs.progress import describe

        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r{describe(run)[:width]}\x1b[K")
        sys.stderr.flush()


class _PlainLines:
    """Lines that stay, few of them."""

    def __init__(self) -> None:
        from app.runs.progress import Progress

        self._progress = Progress()

    def __call__(self, run: JSON) -> None:
        from app.runs.progress import describe

        if self._progress.is_due(run, time.monotonic()):
            print_status(f"run {format_cell(run['id'])} {describe(run)}")


def _silent(run: JSON) -> None:
    """What `--quiet` says on the way."""


def _liveness() -> "_LiveLine | _PlainLines":
    dumb = os.environ.get("TERM", "dumb") == "dumb"
    return _LiveLine() if is_interactive(sys.stderr) and not dumb else _PlainLines()


def _detach(api: "Api", run_id: str) -> NoReturn:
    """Leave the run alone; on a terminal a second Ctrl-C in time cancels it."""
    asks = is_interactive(sys.stderr)
    print_status(
        f"\ndetached: the run goes on, `mosaico runs watch {format_cell(run_id)}` watches it again"
    )
    if asks:
        try:  # what is promised holds from the moment it can be read
            print_status(f"Ctrl-C once more within {SECOND_THOUGHTS_S:g} s cancels it")
            time.sleep(SECOND_THOUGHTS_S)
        except KeyboardInterrupt:
            api.post(f"{_path(run_id)}/cancel")
            print_status(f"\nrun {format_cell(run_id)} is cancelled")
            raise typer.Exit(ENDED_BADLY) from None
    raise typer.Exit(INTERRUPTED)


def _end(run: JSON, *, exit_status: bool) -> None:
    from app.runs.progress import describe, exit_code_of

    clear = "\r\x1b[K" if isinstance(_liveness(), _LiveLine) else ""
    print_status(f"{clear}run {format_cell(run['id'])} {describe(run)}")
    if run["status"] == RunStatus.COMPLETED:
        print_status(f"next: `mosaico runs show {format_cell(run['id'])}`")
    if exit_status and exit_code_of(run):
        raise typer.Exit(exit_code_of(run))
