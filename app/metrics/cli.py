"""`mosaico score`: metrics and a KPI of a file of traces, without any server."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from app.core.console.input_files import opened
from app.core.console.table import Table, format_cell, print_table
from app.core.console.terminal import (
    CommandGroup,
    Format,
    OutputFormat,
    as_json,
    print_status,
    print_warning,
)
from app.core.errors import AppError, Invalid

if TYPE_CHECKING:
    from app.formula import CompiledFormula, FormulaValue, Reference
    from app.metrics.aggregate import Aggregate
    from app.metrics.types import MetricRef, TraceMeasurements
    from app.traces.types import Trace

UNDEFINED = 3

cli = CommandGroup("score", help="Score the traces of a file, without any server.")


class NoTraces(AppError):
    """A file holds no trace, so nothing can be said about it."""

    code = "no-traces"
    status = 422
    exit_code = 2


class Scored(NamedTuple):
    """A file after scoring: rows in its order, one aggregate a metric, and the KPI when asked."""

    rows: "Sequence[TraceMeasurements]"
    aggregates: "Mapping[str, Aggregate]"
    formula: "CompiledFormula | None"
    kpi: "FormulaValue | None"


@cli.command("score")
def score(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE.jsonl", help="Traces, one JSON object a line; - is stdin."),
    ],
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            envvar="MOSAICO_METRICS",
            help="ROUGE,BLEU: all that have a value when left out.",
        ),
    ] = None,
    formula: Annotated[
        str | None,
        typer.Option("--formula", envvar="MOSAICO_FORMULA", help="A KPI of all the traces."),
    ] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Score the traces of a file and print what they are worth.

    Exit codes: 0 scored, 2 no file or no trace in it, 3 the formula has no value, 65 a line, metric
    option or formula is invalid, 66 no such metric.
    """
    scored = _score_file(file, metrics, formula)
    if not scored.rows:
        raise NoTraces(f"{file} holds no trace", hint="write one JSON object a line")
    _print_missing(scored)
    (_print_json if output is OutputFormat.JSON else _print_table)(scored)
    if scored.kpi is not None and scored.kpi.value is None:
        print_status(f"error: the formula is undefined: {scored.kpi.reason}")
        raise typer.Exit(UNDEFINED)


def _score_file(file: Path, metrics: str | None, formula: str | None) -> Scored:
    from app.formula import compile_formula
    from app.metrics.engine import measure_all
    from app.metrics.registry import load_metrics, names_of
    from app.traces.ndjson import iter_traces

    load_metrics(
        lambda plugin: print_warning(f"the plugin {plugin.name} was not loaded: {plugin.error}")
    )
    chosen = _chosen(metrics)
    compiled = None
    if formula is not None:
        compiled = compile_formula(formula, names_of(chosen))
    refs = _with_scores(chosen, compiled)
    kept = _Kept(refs)
    with opened(file) as lines:
        rows = list(measure_all(kept.watch(iter_traces(lines)), refs))
    aggregates = kept.aggregates(rows)
    kpi = compiled.evaluate(_values(compiled.references, aggregates)) if compiled else None
    scored = Scored(rows, aggregates, compiled, kpi)
    return scored if metrics else _with_values(scored)


def _with_values(scored: Scored) -> Scored:
    """Without the metrics that no trace has a value of; nobody asked for them by name."""
    kept = [found.n > 0 for found in scored.aggregates.values()]
    return scored._replace(
        rows=[row._replace(values=tuple(compress(row.values, kept))) for row in scored.rows],
        aggregates=dict(compress(scored.aggregates.items(), kept)),
    )


def _chosen(metrics: str | None) -> "tuple[MetricRef, ...]":
    from app.metrics.registry import default_refs, plain_keys
    from app.metrics.remote import is_remote

    if metrics is None:
        return tuple(ref for ref in default_refs(plain_keys()) if not is_remote(ref))
    names = [name.strip().upper() for name in metrics.split(",")]
    chosen = default_refs(dict.fromkeys(name for name in names if name))
    for ref in filter(is_remote, chosen):
        raise Invalid(
            f"{ref.key} asks a model, which no file can answer; name it in a benchmark and start a"
            " run of that"
        )
    return chosen


def _with_scores(
    refs: "tuple[MetricRef, ...]", formula: "CompiledFormula | None"
) -> "tuple[MetricRef, ...]":
    """The metrics, and the scores of the traces that the formula reads."""
    from app.metrics.registry import ref_of_column

    read = formula.references if formula else ()
    named = (ref_of_column(reference.key) for reference in read)
    return tuple(dict.fromkeys((*refs, *named)))


class _Kept:
    """The traces, but only when a metric wants all of them again for its value of the run."""

    def __init__(self, refs: "tuple[MetricRef, ...]") -> None:
        from app.metrics.registry import providers_for
        from app.metrics.types import RunMetric

        self._providers = providers_for(refs)
        self._wanted = any(isinstance(provider, RunMetric) for provider in self._providers)
        self._traces: list[Trace] = []
        self._items: list[str] = []

    def watch(self, traces: "Iterable[Trace]") -> "Iterator[Trace]":
        for trace in traces:
            self._items.append(trace.item_id)
            if self._wanted:
                self._traces.append(trace)
            yield trace

    def aggregates(self, rows: "Sequence[TraceMeasurements]") -> "dict[str, Aggregate]":
        from app.metrics.aggregate import aggregate_run, missing_counts

        return {
            provider.spec.key: aggregate_run(
                provider,
                [row.values[place] for row in rows],
                self._traces,
                missing=missing_counts(rows, provider.spec.key),
                items=self._items,
            )
            for place, provider in enumerate(self._providers)
        }


def _values(
    references: "Iterable[Reference]", aggregates: "Mapping[str, Aggregate]"
) -> "dict[Reference, float | None]":
    from app.metrics.registry import column_of

    return {
        reference: aggregates[column_of(reference.key)].statistic(reference.stat)
        for reference in references
    }


def _print_json(scored: Scored) -> None:
    """One document, written row by row."""
    keys = list(scored.aggregates)
    write = sys.stdout.write
    write('{"rows":[')
    for place, row in enumerate(scored.rows):
        values = dict(zip(keys, row.values, strict=True))
        write(",\n" if place else "\n")
        write(as_json({"traceId": row.trace_id, "values": values}, sys.stdout))
    aggregates = {key: found.as_json() for key, found in scored.aggregates.items()}
    write(f'\n],"aggregates":{as_json(aggregates, sys.stdout)}')
    if scored.formula is not None and scored.kpi is not None:
        kpi = {"formula": scored.formula.text, **scored.kpi._asdict()}
        write(f',"kpi":{as_json(kpi, sys.stdout)}')
    write("}\n")


def _print_table(scored: Scored) -> None:
    columns = ("mean", "n", "std", "min", "max", "p50", "p95", "p99", "coverage")
    rows = [
        [key, *(format_cell(found.statistic(name)) for name in columns)]
        for key, found in scored.aggregates.items()
    ]
    if scored.formula is not None and scored.kpi is not None:
        rows.append(
            [scored.formula.text, format_cell(scored.kpi.value), *[""] * (len(columns) - 1)]
        )
    print_table(Table(["metric", *columns], rows))


def _print_missing(scored: Scored) -> None:
    for key, found in scored.aggregates.items():
        if found.missing:
            reasons = ", ".join(f"{name} {count}" for name, count in found.missing.items())
            print_warning(f"{key} is missing on {sum(found.missing.values())} traces: {reasons}")
