"""`mosaico score`: compute the metrics and a KPI of a trace file without a server."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mosaico.core.console.table import Table, format_cell, print_table
from mosaico.core.console.terminal import (
    CommandGroup,
    Format,
    OutputFormat,
    encode_json,
    print_status,
    print_warning,
    warn_failed_plugin,
)
from mosaico.core.errors import UnusableInput
from mosaico.core.text import join_words
from mosaico.metrics.file_options import (
    METRICS_HELP,
    ModelLimits,
    open_models,
)
from mosaico.project_file.benchmark_options import BenchmarkOptions, choose_benchmark
from mosaico.traces.files.options import InputOptions, open_reader

if TYPE_CHECKING:
    from mosaico.metrics.file_scores import FileScores
    from mosaico.metrics.offline_models import LlmUsage

EXIT_UNDEFINED = 3
STATISTICS = ("mean", "n", "std", "min", "max", "p50", "p95", "p99", "coverage")

cli = CommandGroup("score", help="Compute metrics of a file of results. No server is needed.")


@cli.command("score")
def score(
    *,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="File of results (docs/import.md lists the formats); - is stdin."
        ),
    ],
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="NAMES",
            help=f"{METRICS_HELP} (default: all with a value).",
        ),
    ] = None,
    benchmark_options: BenchmarkOptions,
    formula: Annotated[
        str | None,
        typer.Option("--formula", help="Formula of a KPI over all traces."),
    ] = None,
    input_options: InputOptions,
    limits: ModelLimits,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Compute metrics of a file of results. No server is needed.

    Metrics that call a model (docs/metrics-models.md) use the server of MOSAICO_LLM_BASE_URL, and only
    when they are named.

    Exit codes: 0 computed, 2 the file is missing or has no trace, 3 the formula is undefined or a
    limit of requests is too low, 65 a line, metric option or formula is invalid, or no model is
    configured, 66 a metric does not exist, 75 the model server does not respond.
    """
    from mosaico.metrics.file_scores import score_file
    from mosaico.metrics.registry import load_metrics

    load_metrics(warn_failed_plugin)
    chosen = choose_benchmark(metrics, benchmark_options)
    reader = open_reader(input_options, infra_errors=chosen.infra_errors, columns=chosen.columns)
    with open_models(limits) as models:
        formulas = {name: kpi.formula for name, kpi in chosen.kpis.items()}
        scores = score_file(file, chosen.metrics, formula, reader, models, formulas)
    if not scores.rows:
        raise UnusableInput(
            f"{file} has no traces", hint="write one JSON object per line, or a CSV table"
        )
    _print_missing(scores)
    for name, kpi in scores.kpis.items():
        if kpi.value is None:
            print_warning(f"KPI {format_cell(name)} is undefined: {kpi.reason}")
    if scores.warning:
        print_warning(format_cell(scores.warning))
    if output is OutputFormat.JSON:
        _print_json(scores, models.usage)
    else:
        _print_table(scores)
    if scores.kpi is not None and scores.kpi.value is None:
        print_status(f"error: the formula is undefined: {scores.kpi.reason}")
        raise typer.Exit(EXIT_UNDEFINED)


def _print_json(scores: "FileScores", usage: "LlmUsage") -> None:
    """Print one JSON document, row by row so that a large file is not encoded as a whole."""
    keys = list(scores.aggregates)
    write = sys.stdout.write
    write('{"rows":[')
    for index, row in enumerate(scores.rows):
        values = dict(zip(keys, row.values, strict=True))
        write(",\n" if index else "\n")
        document = {"traceId": row.trace_id, "values": values}
        if row.reasons:
            document["reasons"] = dict(row.reasons)
        write(encode_json(document, sys.stdout))
    aggregates = {key: aggregate.as_json() for key, aggregate in scores.aggregates.items()}
    write(f'\n],"aggregates":{encode_json(aggregates, sys.stdout)}')
    if scores.formula is not None and scores.kpi is not None:
        kpi = {"formula": scores.formula.text, **scores.kpi._asdict()}
        write(f',"kpi":{encode_json(kpi, sys.stdout)}')
    if scores.kpis:
        kpis = {name: kpi._asdict() for name, kpi in scores.kpis.items()}
        write(f',"kpis":{encode_json(kpis, sys.stdout)}')
    if usage:
        write(f',"llmUsage":{encode_json(usage.as_json(), sys.stdout)}')
    write("}\n")


def _print_table(scores: "FileScores") -> None:
    rows = [
        [key, *(format_cell(aggregate.statistic(name)) for name in STATISTICS)]
        for key, aggregate in scores.aggregates.items()
    ]
    values = {name: kpi.value for name, kpi in scores.kpis.items()}
    if scores.formula is not None and scores.kpi is not None:
        values[scores.formula.text] = scores.kpi.value
    empty = [""] * (len(STATISTICS) - 1)
    rows += [[format_cell(name), format_cell(value), *empty] for name, value in values.items()]
    print_table(Table(["metric", *STATISTICS], rows))


def _print_missing(scores: "FileScores") -> None:
    """One warning for all metrics with the same missing values."""
    metrics_by_cause = dict[str, list[str]]()
    for key, aggregate in scores.aggregates.items():
        if aggregate.missing:
            reasons = ", ".join(f"{name} {count}" for name, count in aggregate.missing.items())
            cause = f"no value on {sum(aggregate.missing.values())} traces: {reasons}"
            metrics_by_cause.setdefault(cause, []).append(key)
    for cause, metrics in metrics_by_cause.items():
        verb = "has" if len(metrics) == 1 else "have"
        print_warning(f"{join_words(metrics, 'and')} {verb} {cause}")
