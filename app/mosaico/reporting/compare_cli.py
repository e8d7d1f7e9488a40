"""`mosaico compare`: two files of results, a verdict and an HTML page, without a server."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mosaico.comparison.verdict_options import AboutOption, RunSdOption
from mosaico.core.console.files import UnwritableOutput, require_file, write_text
from mosaico.core.console.table import Table, format_cell, print_table
from mosaico.core.console.terminal import (
    EXIT_UNSUCCESSFUL,
    CommandGroup,
    Format,
    OutputFormat,
    WrongUsage,
    print_json,
    print_result,
    print_warning,
    warn_failed_plugin,
)
from mosaico.core.errors import NotFound
from mosaico.gating.history_options import HistoryOption, earlier_runs
from mosaico.metrics.file_options import (
    METRICS_HELP,
    Better,
    ModelLimits,
    Ranges,
    open_models,
    parse_better,
    parse_ranges,
)
from mosaico.project_file.benchmark_options import BenchmarkOptions, choose_benchmark
from mosaico.traces.files.options import (
    BaseMap,
    InputOptions,
    RunMap,
    map_source,
    open_reader,
    reading_lines,
)

if TYPE_CHECKING:
    from mosaico.comparison.schemas import Comparison
    from mosaico.gating.file_inputs import FileInputs
    from mosaico.gating.offline_metrics import OfflineMetrics
    from mosaico.metrics.offline_models import OfflineModels
    from mosaico.project_file.file_benchmark import FileBenchmark
    from mosaico.reporting.comparison_page import ComparedFiles
    from mosaico.traces.files.result_sources import ResultSource
    from mosaico.traces.files.trace_file import TraceReader

MAX_LISTED = 5
PREVIEWED = 3

cli = CommandGroup("compare", help="Compare two files of results. No server is needed.")


@cli.command("compare")
def compare_files(
    *,
    base: Annotated[
        Path, typer.Argument(metavar="BASE", help="Earlier results: CSV, JSONL, JSON and others.")
    ],
    candidate: Annotated[Path, typer.Argument(metavar="CANDIDATE", help="Later results.")],
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="NAMES",
            help=f"{METRICS_HELP}. These metrics decide the verdict (default: the scores in the files, otherwise the metric that fits the expected answers).",
        ),
    ] = None,
    benchmark_options: BenchmarkOptions,
    better: Better = None,
    ranges: Ranges = None,
    about: AboutOption = None,
    history: HistoryOption = None,
    run_sd: RunSdOption = None,
    input_options: InputOptions,
    base_map: BaseMap = None,
    run_map: RunMap = None,
    limits: ModelLimits,
    page: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="HTML file to write (default: CANDIDATE.compare.html in the current folder).",
        ),
    ] = None,
    no_page: Annotated[bool, typer.Option("--no-html", help="Do not write an HTML file.")] = False,
    is_complete: Annotated[
        bool,
        typer.Option(
            "--all", help="Compute and list all metrics, and list ten times as many items."
        ),
    ] = False,
    is_preview: Annotated[
        bool,
        typer.Option(
            "--preview", help="Show three results of each file as they are read, and stop."
        ),
    ] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Compare two files of results: verdict, interval and flipped items. No server is needed.

    docs/import.md lists the formats. Columns are guessed and shown; --map names them.

    Exit codes: 0 compared, 2 wrong options or no result in a file, 3 a file has too few valid
    results, or a limit of model requests is too low, 65 a line of a file is invalid, or no model
    is configured, 75 the model server does not respond.
    """
    from mosaico.comparison.answer_text import describe_reading, describe_spared
    from mosaico.comparison.deciders import parse_about
    from mosaico.gating.file_inputs import FileInputs
    from mosaico.gating.offline_metrics import ScoreOptions
    from mosaico.reporting.comparison_page import html_comparison, verdict_of
    from mosaico.reporting.file_comparison import compare_results

    _refuse_stdin((base, candidate))
    target = None if no_page or is_preview else _page_file(page, base, candidate)
    remarks: list[str] = []
    sources = map_source(base, base_map), map_source(candidate, run_map)
    requested = choose_benchmark(metrics, benchmark_options)
    if is_preview:
        _print_preview(sources, open_reader(input_options, columns=requested.columns))
        return
    earlier = earlier_runs(history, base_map, base, candidate)
    warnings: list[str] = []
    with reading_lines() as lines, open_models(limits) as models:
        reader = open_reader(
            input_options,
            remarks.append,
            lines.append,
            infra_errors=requested.infra_errors,
            columns=requested.columns,
        )
        files = FileInputs(
            sources, reader, ScoreOptions(parse_better(better), parse_ranges(ranges))
        )
        selected = _select(requested, files, models, is_complete=is_complete)
        compared = compare_results(
            *sources, selected, reader, warnings.append, about=parse_about(about), earlier=earlier,
            run_sd=run_sd,
        )  # fmt: skip
        reading = describe_reading(compared.comparison, selected.refs, reader.columns)
        lines.append(format_cell(reading))
        if spared := describe_spared(compared.spared):
            lines.append(spared)
    for warning in warnings:
        print_warning(format_cell(warning))
    judged_by = filter(None, [requested.line])
    compared = replace(
        compared, remarks=[*judged_by, *remarks, reading, *filter(None, [spared]), *warnings]
    )
    if target is not None:
        write_text(target, html_comparison(compared))
    link = target and target.resolve().as_uri()
    if output is OutputFormat.JSON:
        document = compared.comparison.model_dump(mode="json", by_alias=True)
        usage = {"llmUsage": models.usage.as_json()} if models.usage else {}
        print_json({**document, "page": link, **usage})
    else:
        _print(compared, is_complete=is_complete)
        if link:
            print_result(f"page: {link}")
    if verdict_of(compared.comparison) == "INVALID":
        raise typer.Exit(EXIT_UNSUCCESSFUL)


def _refuse_stdin(inputs: Iterable[Path]) -> None:
    """Refuse standard input: each file is read twice, to choose its metrics and to compute them."""
    if any(str(path) == "-" for path in inputs):
        raise WrongUsage(
            "a comparison reads its files twice, and standard input only once",
            hint="write the results to a file first",
        )


def _page_file(requested: Path | None, base: Path, candidate: Path) -> Path | None:
    """The page to write; None with a warning if nobody asked for a page, and the folder is read-only.

    Raises: `WrongUsage` for a page that is an input, `UnwritableOutput` for a requested page.
    """
    page = requested or Path(f"{candidate.stem}.compare.html")
    if page.resolve() in {path.resolve() for path in (base, candidate)}:
        raise WrongUsage(f"--html {page} is an input file", hint="name another file")
    try:
        require_file(page)
    except UnwritableOutput as error:
        if requested:
            raise
        print_warning(
            f"no page is written: {error.detail}; --html FILE writes it to another folder"
        )
        return None
    return page


def _select(
    requested: "FileBenchmark", files: "FileInputs", models: "OfflineModels", *, is_complete: bool
) -> "OfflineMetrics":
    from mosaico.gating.file_inputs import select_all
    from mosaico.gating.offline_metrics import kpi_warnings
    from mosaico.metrics.registry import load_metrics

    load_metrics(warn_failed_plugin)
    try:
        selected = select_all(
            requested.metrics, files, models, requested.kpis, is_complete=is_complete
        )._replace(benchmark=requested)
    except NotFound as error:
        if error.error_code != "unknown-metric":  # an unknown --input-format
            raise
        raise WrongUsage(str(error), hint="`mosaico plugins` lists the metrics") from error
    for warning in kpi_warnings(selected):
        print_warning(warning)
    return selected


def _print_preview(files: "tuple[ResultSource, ResultSource]", reader: "TraceReader") -> None:
    """Print the first results of each file as they are read."""
    from mosaico.comparison.answer_text import short_text

    for path in files:
        rows = [
            [
                trace.item_id,
                *(short_text(text) for text in (trace.input, trace.expected_output, trace.output)),
                ", ".join(f"{name} {score:g}" for name, score in trace.scores.items()),
            ]
            for trace in reader.preview(path, PREVIEWED)
        ]
        print_result(str(path))
        _print_rows(("item", "input", "expected", "output", "scores"), rows)


def _print(files: "ComparedFiles", *, is_complete: bool) -> None:
    from mosaico.comparison.answer_text import draw_interval, short_text
    from mosaico.comparison.attribute_text import explain_drop
    from mosaico.comparison.whole_run_text import describe_whole_runs
    from mosaico.reporting.comparison_page import (
        METRIC_TITLES,
        count_changes,
        deciding_metric,
        describe_others,
        flip_values,
        headline,
        metric_rows,
    )
    from mosaico.statistics.verdict_rules import Verdict

    comparison = files.comparison
    deciding = deciding_metric(comparison)
    print_result(format_cell(headline(comparison)))
    if deciding is not None:
        # The headline of values that could not be compared is their reason.
        if deciding.verdict.verdict is not Verdict.INVALID:
            print_result(format_cell(deciding.verdict.explanation))
        if interval := draw_interval(deciding.verdict):
            print_result(interval)
    verdicts = [deciding.verdict] if deciding else []
    remarks = describe_whole_runs(verdicts, is_file=True)
    for sentence in filter(None, (count_changes(files), _pairing_hint(comparison), *remarks)):
        print_result(sentence)
    for line in explain_drop(comparison.what_changed):
        print_result(f"changed: {format_cell(line)}")
    flips = comparison.flipped_items
    if flips and files.items:
        print_result("")
        shown = files.items[: MAX_LISTED * (10 if is_complete else 1)]
        rows = [
            [item.item_id, *flip_values(item), short_text(files.texts[item.item_id].output_after)]
            for item in shown
        ]
        _print_rows(("item", f"{flips.metric} before", "after", "answer"), rows)
    if is_complete:
        print_result("")
        _print_rows(METRIC_TITLES, metric_rows(comparison))
    elif hidden_metrics := describe_others(comparison):
        print_result(f"{hidden_metrics}; --all lists them.")


def _pairing_hint(comparison: "Comparison") -> str | None:
    items = comparison.verdict.items
    if items is None or items.compared:
        return None
    return (
        "The files share too few items, so the verdict is less certain. Name the column that"
        " identifies an item: --map item=COLUMN"
    )


def _print_rows(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    print_table(Table(list(titles), [list(map(format_cell, row)) for row in rows]))
