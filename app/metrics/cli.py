"""`mosaico score`: compute the metrics and a KPI of a trace file without a server."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from app.core.console.table import Table, format_cell, print_table
from app.core.console.terminal import (
    CommandGroup,
    Format,
    OutputFormat,
    encode_json,
    print_status,
    print_warning,
    warn_failed_plugin,
)
from app.core.errors import AppError, Invalid
from app.traces.file_options import InputFormat, MapColumns, open_reader

if TYPE_CHECKING:
    from app.formula import CompiledFormula, FormulaValue, Reference
    from app.metrics.aggregate import Aggregate
    from app.metrics.run_value import StoredSummary
    from app.metrics.types import MetricRef, TraceMeasurements
    from app.traces.trace_file import TraceReader
    from app.traces.types import Trace

EXIT_UNDEFINED = 3
SUMMARIZED_TRACES = 1_000
STATISTICS = ("mean", "n", "std", "min", "max", "p50", "p95", "p99", "coverage")

cli = CommandGroup("score", help="Compute metrics of a file of results. No server is needed.")


class EmptyTraceFile(AppError):
    """A trace file is empty; write one trace per line into it."""

    code = "no-traces"
    status = 422
    exit_code = 2


class FileScores(NamedTuple):
    """The scores of a file: rows in file order, one aggregate per metric, and the KPI if requested."""

    rows: "Sequence[TraceMeasurements]"
    aggregates: "Mapping[str, Aggregate]"
    formula: "CompiledFormula | None"
    kpi: "FormulaValue | None"


@cli.command("score")
def score(
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
            help="Metrics, comma-separated, such as ROUGE,BLEU (default: all with a value).",
        ),
    ] = None,
    formula: Annotated[
        str | None,
        typer.Option("--formula", help="Formula of a KPI over all traces."),
    ] = None,
    map_columns: MapColumns = None,
    input_format: InputFormat = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Compute metrics of a file of results. No server is needed.

    Exit codes: 0 computed, 2 the file is missing or has no trace, 3 the formula is undefined, 65 a
    line, metric option or formula is invalid, 66 a metric does not exist.
    """
    scores = _score_file(file, metrics, formula, open_reader(map_columns, input_format))
    if not scores.rows:
        raise EmptyTraceFile(
            f"{file} has no traces", hint="write one JSON object per line, or a CSV table"
        )
    _print_missing(scores)
    (_print_json if output is OutputFormat.JSON else _print_table)(scores)
    if scores.kpi is not None and scores.kpi.value is None:
        print_status(f"error: the formula is undefined: {scores.kpi.reason}")
        raise typer.Exit(EXIT_UNDEFINED)


def _score_file(
    file: Path, metrics: str | None, formula: str | None, reader: "TraceReader"
) -> FileScores:
    from app.formula import compile_formula
    from app.metrics.engine import measure_all
    from app.metrics.registry import load_metrics, names_of

    load_metrics(warn_failed_plugin)
    selected = _select_metrics(metrics)
    compiled = None
    if formula is not None:
        compiled = compile_formula(formula, names_of(selected))
    refs = _add_trace_scores(selected, compiled)
    collector = _TraceCollector(refs)
    with reader.open(file) as traces:
        measured = measure_all(collector.collect(traces), refs)
        rows = list(collector.collect_rows(measured))
    aggregates = collector.aggregate(rows)
    kpi = compiled.evaluate(_values(compiled.references, aggregates)) if compiled else None
    scores = FileScores(rows, aggregates, compiled, kpi)
    return scores if metrics else _drop_empty(scores)


def _drop_empty(scores: FileScores) -> FileScores:
    """The scores without the default metrics that have no value on any trace."""
    has_values = [aggregate.n > 0 for aggregate in scores.aggregates.values()]
    return scores._replace(
        rows=[row._replace(values=tuple(compress(row.values, has_values))) for row in scores.rows],
        aggregates=dict(compress(scores.aggregates.items(), has_values)),
    )


def _select_metrics(metrics: str | None) -> "tuple[MetricRef, ...]":
    from app.metrics.model_metrics import is_remote
    from app.metrics.registry import default_refs, plain_keys

    if metrics is None:
        return tuple(ref for ref in default_refs(plain_keys()) if not is_remote(ref))
    names = [name.strip().upper() for name in metrics.split(",")]
    refs = default_refs(dict.fromkeys(name for name in names if name))
    for ref in filter(is_remote, refs):
        raise Invalid(
            f"{ref.key} calls a model, which needs the service; add it to a benchmark and start a"
            " run of that benchmark"
        )
    return refs


def _add_trace_scores(
    refs: "tuple[MetricRef, ...]", formula: "CompiledFormula | None"
) -> "tuple[MetricRef, ...]":
    """The metrics, and the scores in the traces that the formula reads."""
    from app.metrics.registry import ref_of_column

    references = formula.references if formula else ()
    formula_refs = (ref_of_column(reference.key) for reference in references)
    return tuple(dict.fromkeys((*refs, *formula_refs)))


class _TraceCollector:
    """Collects what aggregation needs: item IDs, and summaries for metrics of the whole run.

    Traces are kept until 1,000 of them are summarized, so that a large file needs little memory.
    """

    def __init__(self, refs: "tuple[MetricRef, ...]") -> None:
        from app.metrics.registry import providers_for
        from app.metrics.types import RunMetric

        self._providers = providers_for(refs)
        self._run_providers = [
            (index, provider)
            for index, provider in enumerate(self._providers)
            if isinstance(provider, RunMetric)
        ]
        self._traces: list[Trace] = []
        self._rows: list[TraceMeasurements] = []
        self._items: list[str] = []
        self._summaries: dict[int, StoredSummary] = {}

    def collect(self, traces: "Iterable[Trace]") -> "Iterator[Trace]":
        for trace in traces:
            self._items.append(trace.item_id)
            if self._run_providers:
                self._traces.append(trace)
            yield trace

    def collect_rows(self, rows: "Iterable[TraceMeasurements]") -> "Iterator[TraceMeasurements]":
        """The rows of the collected traces, in their order."""
        for row in rows:
            if self._run_providers:
                self._rows.append(row)
                if len(self._rows) == SUMMARIZED_TRACES:
                    self._summarize()
            yield row

    def aggregate(self, rows: "Sequence[TraceMeasurements]") -> "dict[str, Aggregate]":
        from app.metrics.aggregate import aggregate_measured, missing_counts, with_run_value
        from app.metrics.run_value import run_value

        self._summarize()
        aggregates = [
            aggregate_measured(
                [row.values[index] for row in rows],
                missing=missing_counts(rows, provider.spec.key),
                items=self._items,
            )
            for index, provider in enumerate(self._providers)
        ]
        for index, provider in self._run_providers:
            if aggregates[index].n:
                value = run_value(provider, self._summaries[index])
                aggregates[index] = with_run_value(aggregates[index], value)
        return dict(
            zip((provider.spec.key for provider in self._providers), aggregates, strict=True)
        )

    def _summarize(self) -> None:
        """Replace the kept traces by their summaries."""
        from app.metrics.run_value import merge_with, summarize_with

        if not self._rows:
            return
        # The engine reads traces ahead of its rows.
        traces, self._traces = self._traces[: len(self._rows)], self._traces[len(self._rows) :]
        for index, provider in self._run_providers:
            column = [row.values[index] for row in self._rows]
            notes = [summarize_with(provider, column, traces)]
            if index in self._summaries:
                notes.insert(0, self._summaries[index])
            self._summaries[index] = merge_with(provider, notes)
        self._rows = []


def _values(
    references: "Iterable[Reference]", aggregates: "Mapping[str, Aggregate]"
) -> "dict[Reference, float | None]":
    from app.metrics.registry import column_of

    return {
        reference: aggregates[column_of(reference.key)].statistic(reference.stat)
        for reference in references
    }


def _print_json(scores: FileScores) -> None:
    """Print one JSON document, row by row so that a large file is not encoded as a whole."""
    keys = list(scores.aggregates)
    write = sys.stdout.write
    write('{"rows":[')
    for index, row in enumerate(scores.rows):
        values = dict(zip(keys, row.values, strict=True))
        write(",\n" if index else "\n")
        write(encode_json({"traceId": row.trace_id, "values": values}, sys.stdout))
    aggregates = {key: aggregate.as_json() for key, aggregate in scores.aggregates.items()}
    write(f'\n],"aggregates":{encode_json(aggregates, sys.stdout)}')
    if scores.formula is not None and scores.kpi is not None:
        kpi = {"formula": scores.formula.text, **scores.kpi._asdict()}
        write(f',"kpi":{encode_json(kpi, sys.stdout)}')
    write("}\n")


def _print_table(scores: FileScores) -> None:
    rows = [
        [key, *(format_cell(aggregate.statistic(name)) for name in STATISTICS)]
        for key, aggregate in scores.aggregates.items()
    ]
    if scores.formula is not None and scores.kpi is not None:
        rows.append(
            [scores.formula.text, format_cell(scores.kpi.value), *[""] * (len(STATISTICS) - 1)]
        )
    print_table(Table(["metric", *STATISTICS], rows))


def _print_missing(scores: FileScores) -> None:
    for key, aggregate in scores.aggregates.items():
        if aggregate.missing:
            reasons = ", ".join(f"{name} {count}" for name, count in aggregate.missing.items())
            print_warning(
                f"{key} has no value on {sum(aggregate.missing.values())} traces: {reasons}"
            )
