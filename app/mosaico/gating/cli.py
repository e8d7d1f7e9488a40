"""`mosaico gate`: pass or fail a run against its baseline, for CI."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from mosaico.core.console.files import write_text
from mosaico.core.console.service import open_api
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
from mosaico.gating.gate_options import (
    BaselineRun,
    CandidateRun,
    GateFormat,
    Inconclusive,
    JudgedOptions,
    MapOptions,
    ResultOptions,
)
from mosaico.gating.history_options import earlier_runs
from mosaico.metrics.file_options import (
    ModelLimits,
    open_models,
    parse_better,
    parse_ranges,
)
from mosaico.project_file.benchmark_options import BenchmarkOptions, choose_benchmark
from mosaico.traces.files.options import (
    InputOptions,
    map_source,
    open_reader,
    reading_lines,
)

if TYPE_CHECKING:
    from mosaico.gating.file_inputs import FileInputs
    from mosaico.gating.offline_metrics import OfflineMetrics
    from mosaico.gating.rules import GateResult, GateTerms
    from mosaico.metrics.formula_direction import KpiFormulaText
    from mosaico.metrics.offline_models import OfflineModels
    from mosaico.project_file.file_benchmark import FileBenchmark

cli = CommandGroup("gate", help="Pass or fail a run against its baseline, for CI.")


@cli.command("gate")
def gate(
    *,
    run: CandidateRun,
    baseline: BaselineRun = None,
    judged: JudgedOptions,
    benchmark_options: BenchmarkOptions,
    input_options: InputOptions,
    maps: MapOptions,
    limits: ModelLimits,
    result_options: ResultOptions,
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
    from mosaico.metrics.registry import load_metrics
    from mosaico.traces.files.trace_file import is_file_name

    _refuse_input_as_junit(result_options.junit, (run, baseline or run))
    terms = _parse_terms(judged, result_options.inconclusive, has_baseline=baseline is not None)
    load_metrics(warn_failed_plugin)
    usage: dict[str, Any] | None = None
    if is_file_name(run):
        file_options = FileOptions(judged, benchmark_options, input_options, maps, limits)
        result, usage = _gate_files(_file_pair(run, baseline), terms, file_options)
    else:
        _refuse_file_options(judged, benchmark_options, input_options, maps, limits)
        result = _gate_stored(run, baseline, terms)
    _report(result, result_options, usage)
    raise typer.Exit(result.exit_code)


class FileOptions(NamedTuple):
    """The options of a gate of two files."""

    judged: JudgedOptions
    benchmark: BenchmarkOptions
    input_options: InputOptions
    maps: MapOptions
    limits: ModelLimits


def _refuse_input_as_junit(junit: Path | None, names: Sequence[str]) -> None:
    if junit is not None and junit.resolve() in {Path(name).resolve() for name in names}:
        raise WrongUsage(f"--junit {junit} is an input file", hint="name another file")


def _parse_terms(
    judged: JudgedOptions, inconclusive: Inconclusive | None, *, has_baseline: bool
) -> "GateTerms":
    from mosaico.comparison.deciders import parse_about
    from mosaico.gating.rules import GateTerms

    return GateTerms(
        max_drop=_parse_margins("--max-drop", judged.max_drop),
        non_inferiority_margins=_parse_margins(
            "--non-inferiority-margin", judged.non_inferiority_margin
        ),
        inconclusive_passes=None if inconclusive is None else inconclusive is Inconclusive.PASS,
        is_chosen_baseline=has_baseline,
        about=parse_about(judged.about),
        run_sd=judged.run_sd,
    )


def _refuse_file_options(
    judged: JudgedOptions,
    benchmark: BenchmarkOptions,
    input_options: InputOptions,
    maps: MapOptions,
    limits: ModelLimits,
) -> None:
    """Raises: `WrongUsage` for an option that a run of the service does not have."""
    of_metrics = (judged.metrics, judged.kpi, judged.better, judged.ranges)
    of_files = (*input_options, *maps, *limits)
    if any((*of_metrics, judged.history, *benchmark, *of_files)):
        raise WrongUsage(
            "--metrics, --config, --benchmark, --no-config, --kpi, --better, --range, --map, --input-format, --history and the options of models"
            " apply to files only; a run has its own metrics and its own series",
            hint="remove these options; --max-drop NAME=DROP names what to judge",
        )


def _gate_stored(run: str, baseline: str | None, terms: "GateTerms") -> "GateResult":
    """The result of a run of the service, with its page."""
    from mosaico.comparison.cli import COMPARISON_TIMEOUT_S
    from mosaico.core.web.page_paths import comparison_page_path, run_page_path
    from mosaico.gating.stored_gate import gate_run

    with open_api(COMPARISON_TIMEOUT_S) as api:
        result = api.perform(gate_run(run, baseline, terms))
        page = f"{api.pages_url}{run_page_path(result.candidate)}"
        compared = comparison_page_path(result.baselines, result.candidate, terms.names)
        comparison_page = f"{api.pages_url}{compared}" if result.baselines else None
    print_status(f"page: {comparison_page or page}")
    return replace(result, page=page, comparison_page=comparison_page)


def _gate_files(
    paths: tuple[Path, Path], terms: "GateTerms", options: FileOptions
) -> "tuple[GateResult, dict[str, Any] | None]":
    """The result of two files, baseline first, and the usage of models: None without any."""
    from mosaico.gating.file_inputs import FileInputs
    from mosaico.gating.offline_gate import gate_files
    from mosaico.gating.offline_metrics import ScoreOptions

    base_file, run_file = paths
    judged, maps = options.judged, options.maps
    sources = map_source(base_file, maps.base_map), map_source(run_file, maps.run_map)
    earlier = earlier_runs(judged.history, maps.base_map, base_file, run_file)
    with reading_lines() as lines, open_models(options.limits) as models:
        chosen = choose_benchmark(judged.metrics, options.benchmark)
        reader = open_reader(
            options.input_options,
            print_line=lines.append,
            infra_errors=chosen.infra_errors,
            columns=chosen.columns,
        )
        inputs = FileInputs(
            sources, reader, ScoreOptions(parse_better(judged.better), parse_ranges(judged.ranges))
        )
        selected = _select_metrics(chosen, _parse_kpis(judged.kpi), terms, inputs, models)
        result = gate_files(
            *sources, selected, terms, reader, announce=lines.append, warn=print_warning,
            earlier=earlier,
        )  # fmt: skip
    if chosen.line:
        result = replace(result, remarks=[chosen.line, *result.remarks])
    return result, models.usage.as_json() if models.usage else None


def _select_metrics(
    chosen: "FileBenchmark",
    kpis: "dict[str, KpiFormulaText]",
    terms: "GateTerms",
    inputs: "FileInputs",
    models: "OfflineModels",
) -> "OfflineMetrics":
    """The metrics and KPIs to compute. Raises: `WrongUsage`."""
    from mosaico.gating.file_inputs import select_gated
    from mosaico.gating.offline_metrics import judge_kpis, kpi_warnings

    try:
        selected = select_gated(chosen.metrics, {**chosen.kpis, **kpis}, terms, inputs, models)
    except NotFound as error:
        raise WrongUsage(str(error), hint="`mosaico plugins` lists the metrics") from error
    except Invalid as error:
        raise WrongUsage(str(error)) from error
    if chosen.kpis:
        selected = judge_kpis(selected, kpis)
    for warning in kpi_warnings(selected):
        print_warning(warning)
    return selected._replace(benchmark=chosen)


def _file_pair(run: str, baseline: str | None) -> tuple[Path, Path]:
    """The two files, baseline first. Raises: `WrongUsage` without another file as baseline."""
    from mosaico.traces.files.trace_file import is_file_name

    if baseline is None or not is_file_name(baseline):
        raise WrongUsage(
            "a file needs another file as its baseline",
            hint=f"add --baseline BEFORE{Path(run).suffix}",
        )
    return Path(baseline), Path(run)


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


def _report(result: "GateResult", options: ResultOptions, usage: dict[str, Any] | None) -> None:
    """Print the result, and write it as JUnit XML where that is requested."""
    from mosaico.gating.reports import gate_junit

    _print(result, options.output, usage)
    if options.junit is not None:
        write_text(options.junit, gate_junit(result))


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
