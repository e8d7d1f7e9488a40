"""`mosaico gate`: pass or fail a run against its baseline, for CI."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mosaico.comparison.about_option import AboutOption
from mosaico.core.console.files import write_text
from mosaico.core.console.service import complete_ids, open_api
from mosaico.core.console.table import Table, format_cell, print_table
from mosaico.core.console.terminal import (
    CommandGroup,
    WrongUsage,
    print_json,
    print_result,
    print_status,
    print_warning,
    warn_failed_plugin,
)
from mosaico.core.errors import Invalid, NotFound
from mosaico.metrics.file_options import (
    METRICS_HELP,
    Better,
    Config,
    FileMetrics,
    ModelLimits,
    choose_metrics,
    open_models,
    parse_better,
)
from mosaico.traces.files.options import (
    BaseMap,
    InputOptions,
    RunMap,
    map_source,
    open_reader,
    reading_lines,
)

if TYPE_CHECKING:
    from mosaico.gating.offline_gate import FileInputs
    from mosaico.gating.rules import GateResult, GateTerms
    from mosaico.metrics.formula_direction import KpiFormulaText
    from mosaico.metrics.offline_models import OfflineModels

PATH = "/benchmark-runs"

cli = CommandGroup("gate", help="Pass or fail a run against its baseline, for CI.")


class GateFormat(StrEnum):
    """Format of the result on standard output."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


class Inconclusive(StrEnum):
    """The effect of an inconclusive outcome on the exit code."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"


@cli.command("gate")
def gate(
    *,
    run: Annotated[
        str,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Candidate: run ID, or a file of results (docs/import.md lists the formats).",
            autocompletion=complete_ids(PATH),
        ),
    ],
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="RUN",
            help="Baseline: run ID, or a file of results (default: the run's own baseline).",
            autocompletion=complete_ids(PATH),
        ),
    ] = None,
    max_drop: Annotated[
        list[str] | None,
        typer.Option(
            "--max-drop",
            metavar="NAME=DROP",
            help="Judge this KPI or metric, and allow it to be worse by at most DROP. Repeatable.",
        ),
    ] = None,
    non_inferiority_margin: Annotated[
        list[str] | None,
        typer.Option(
            "--non-inferiority-margin",
            metavar="NAME=MARGIN",
            help="Require a proof (95 % CI) that this KPI or metric is not worse by MARGIN. Repeatable.",
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="NAMES",
            help=(
                f"For files: {METRICS_HELP}. The gate judges these metrics (default: the scores in "
                "the files, otherwise the metric that fits the expected answers)."
            ),
        ),
    ] = None,
    config: Config = None,
    better: Better = None,
    about: AboutOption = None,
    kpi: Annotated[
        list[str] | None,
        typer.Option(
            "--kpi",
            metavar="NAME=FORMULA",
            help=(
                "KPI of trace files to judge, as a formula of metrics. Its direction follows from the"
                " formula; another one is named at the end: 'words=OUTPUT_TOKENS higher'. Repeatable."
            ),
        ),
    ] = None,
    input_options: InputOptions,
    base_map: BaseMap = None,
    run_map: RunMap = None,
    limits: ModelLimits,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="Also write the result as JUnit XML to FILE."),
    ] = None,
    inconclusive: Annotated[
        Inconclusive | None,
        typer.Option(
            "--inconclusive",
            help="Whether an inconclusive outcome passes (exit code 0) or fails (4). Default: it"
            " passes, unless --non-inferiority-margin requires a proof.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        GateFormat,
        typer.Option("--format", help="Output format; --json is short for --format json."),
    ] = GateFormat.TABLE,
) -> None:
    """Pass or fail a run against its baseline, for CI.

    Fails when a change for the worse is proved: it is not explained by chance alone (5 %) and
    reaches the limit, which is --max-drop or the minimum effect of the KPI. The options name what
    is judged; without them a run is judged by its KPIs that are marked as gates, else by all its
    KPIs, and trace files and other runs by what measures quality: pass or fail and the scores of the
    source, otherwise the metric that fits the expected answers. Several are judged together, with
    adjusted intervals.

    Exit codes: 0 pass, 1 regression, 2 wrong options or no items, 3 invalid or not measured, 4
    inconclusive and not allowed to pass, or changed without a known better direction.
    """
    from mosaico.comparison.cli import COMPARISON_TIMEOUT_S
    from mosaico.comparison.deciders import parse_about
    from mosaico.core.web.page_paths import run_page_path
    from mosaico.gating.offline_gate import FileInputs
    from mosaico.gating.reports import gate_junit
    from mosaico.gating.rules import GateTerms
    from mosaico.gating.stored_gate import gate_run
    from mosaico.metrics.registry import load_metrics
    from mosaico.traces.files.trace_file import is_file_name

    inputs = {Path(name).resolve() for name in (run, baseline or run)}
    if junit is not None and junit.resolve() in inputs:
        raise WrongUsage(f"--junit {junit} is an input file", hint="name another file")
    terms = GateTerms(
        max_drop=_parse_margins("--max-drop", max_drop),
        non_inferiority_margins=_parse_margins("--non-inferiority-margin", non_inferiority_margin),
        inconclusive_passes=None if inconclusive is None else inconclusive is Inconclusive.PASS,
        is_chosen_baseline=baseline is not None,
        about=parse_about(about),
    )
    load_metrics(warn_failed_plugin)
    usage: dict[str, Any] | None = None
    if is_file_name(run):
        base_file, run_file = _file_pair(run, baseline)
        files = map_source(base_file, base_map), map_source(run_file, run_map)
        file_metrics = choose_metrics(metrics, config)
        kpis = _parse_kpis(kpi)
        with reading_lines() as lines, open_models(limits) as models:
            reader = open_reader(
                input_options, print_line=lines.append, infra_errors=file_metrics.infra_errors
            )
            inputs_of_gate = FileInputs(files, reader, parse_better(better))
            result = _gate_files(
                inputs_of_gate, terms, file_metrics, kpis, models, announce=lines.append
            )
        usage = models.usage.as_json() if models.usage else None
    else:
        maps = base_map or run_map or any(input_options)
        if metrics or config or kpi or better or maps or any(limits):
            raise WrongUsage(
                "--metrics, --config, --kpi, --better, --map, --input-format and the options of models apply to"
                " files only; a run has its own metrics",
                hint="remove these options; --max-drop NAME=DROP names what to judge",
            )
        with open_api(COMPARISON_TIMEOUT_S) as api:
            result = api.perform(gate_run(run, baseline, terms))
            page = f"{api.pages_url}{run_page_path(result.candidate)}"
            result = replace(result, page=page)
            print_status(f"page: {page}")
    _print(result, output, usage)
    if junit is not None:
        write_text(junit, gate_junit(result))
    raise typer.Exit(result.exit_code)


def _file_pair(run: str, baseline: str | None) -> tuple[Path, Path]:
    """The two files, baseline first. Raises: `WrongUsage` without another file as baseline."""
    from mosaico.traces.files.trace_file import is_file_name

    if baseline is None or not is_file_name(baseline):
        raise WrongUsage(
            "a file needs another file as its baseline",
            hint=f"add --baseline BEFORE{Path(run).suffix}",
        )
    return Path(baseline), Path(run)


def _gate_files(
    files: "FileInputs",
    terms: "GateTerms",
    file_metrics: FileMetrics,
    kpis: "dict[str, KpiFormulaText]",
    models: "OfflineModels",
    announce: Callable[[str], None],
) -> "GateResult":
    from mosaico.gating.offline_gate import gate_files, select_gated
    from mosaico.gating.offline_metrics import judge_kpis, kpi_warnings

    try:
        selected = select_gated(
            file_metrics.metrics, file_metrics.kpis | kpis, terms, files, models
        )
    except NotFound as error:
        raise WrongUsage(str(error), hint="`mosaico plugins` lists the metrics") from error
    except Invalid as error:
        raise WrongUsage(str(error)) from error
    if file_metrics.kpis:
        selected = judge_kpis(selected)
    for warning in kpi_warnings(selected):
        print_warning(warning)
    return gate_files(
        *files.sources, selected, terms, files.reader, announce=announce, warn=print_warning
    )


def _parse_kpis(texts: Sequence[str] | None) -> "dict[str, KpiFormulaText]":
    from mosaico.metrics.formula_direction import parse_kpi_text

    return {name: parse_kpi_text(text) for name, text in _parse_pairs("--kpi", texts).items()}


def _parse_pairs(option: str, texts: Sequence[str] | None) -> dict[str, str]:
    """The values of an option of the form `NAME=VALUE`, by name. Raises: `WrongUsage`."""
    example = "quality=ACCURACY" if option == "--kpi" else "quality=0.05"
    pairs = dict[str, str]()
    for text in texts or ():
        name, equals, assigned = (part.strip() for part in text.partition("="))
        if not (name and equals and assigned):
            raise WrongUsage(
                f"{text!r} does not have the form NAME=VALUE", hint=f"write {option} {example}"
            )
        if name in pairs:
            raise WrongUsage(f"{option} is given twice for {name}", hint="keep one of them")
        pairs[name] = assigned
    return pairs


def _parse_margins(option: str, texts: Sequence[str] | None) -> dict[str, float]:
    pairs = _parse_pairs(option, texts)
    return {name: _parse_margin(name, text) for name, text in pairs.items()}


def _parse_margin(name: str, text: str) -> float:
    try:
        margin = float(text)
    except ValueError:
        margin = math.nan
    if not (math.isfinite(margin) and margin > 0):
        raise WrongUsage(f"{text!r} for {name} is not a positive number", hint=f"write {name}=0.05")
    return margin


def _print(result: "GateResult", output: GateFormat, usage: dict[str, Any] | None) -> None:
    from mosaico.gating.reports import (
        CHECK_TITLES,
        FIGURE_TITLES,
        check_rows,
        figure_rows,
        gate_json,
        gate_markdown,
        headline,
        sentences,
    )

    if output is GateFormat.JSON:
        print_json({**gate_json(result), **({"llmUsage": usage} if usage else {})})
        return
    if output is GateFormat.MARKDOWN:
        print_result(gate_markdown(result).rstrip("\n"))
        return
    print_result(format_cell(headline(result)))
    if result.checks:
        _print_rows(CHECK_TITLES, check_rows(result))
    for sentence in sentences(result):
        print_result(format_cell(sentence))
    if result.figures:
        print_result("")
        _print_rows(FIGURE_TITLES, figure_rows(result))


def _print_rows(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print_table(Table(titles, [list(map(format_cell, row)) for row in rows]))
