"""`mosaico score`: metrics and a KPI of a file of traces, without any server."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from app.core.errors import AppError
    from app.formula import CompiledFormula, FormulaValue, Reference
    from app.metrics.aggregate import Aggregate
    from app.metrics.types import MetricRef, TraceMeasurements
    from app.traces.types import Trace

ZERO_CASES = 2
UNDEFINED = 3
NO_INPUT = 66


class OutputFormat(StrEnum):
    TABLE = "table"
    JSON = "json"


class Scored(NamedTuple):
    """A file after scoring: rows in its order, one aggregate a metric, and the KPI when asked."""

    rows: "Sequence[TraceMeasurements]"
    aggregates: "Mapping[str, Aggregate]"
    formula: "CompiledFormula | None"
    kpi: "FormulaValue | None"


def score(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE.jsonl", help="Traces, one JSON object a line; - is stdin."),
    ],
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", envvar="MOSAICO_METRICS", help="ROUGE,BLEU: all when left out."),
    ] = None,
    formula: Annotated[
        str | None,
        typer.Option("--formula", envvar="MOSAICO_FORMULA", help="A KPI of all the traces."),
    ] = None,
    output: Annotated[
        OutputFormat,
        typer.Option("--format", envvar="MOSAICO_FORMAT", help="How to print the answer."),
    ] = OutputFormat.TABLE,
) -> None:
    """Score the traces of a file and print what they are worth.

    Exit codes: 0 scored, 2 no trace in the file, 3 the formula has no value, 65 a line, metric
    option or formula is invalid, 66 no such file or metric.
    """
    from app.core.errors import AppError

    try:
        scored = _score_file(file, metrics, formula)
    except AppError as error:
        _tell(error, output)
        raise typer.Exit(error.exit_code) from None
    except OSError as error:
        sys.stderr.write(f"error: {file}: {error.strerror}\nhint: name a file that can be read\n")
        raise typer.Exit(NO_INPUT) from None
    if not scored.rows:
        sys.stderr.write(f"error: {file} holds no trace\nhint: write one JSON object a line\n")
        raise typer.Exit(ZERO_CASES)
    _print_missing(scored)
    (_print_json if output is OutputFormat.JSON else _print_table)(scored)
    if scored.kpi is not None and scored.kpi.value is None:
        sys.stderr.write(f"error: the formula is undefined: {scored.kpi.reason}\n")
        raise typer.Exit(UNDEFINED)


def _score_file(file: Path, metrics: str | None, formula: str | None) -> Scored:
    from app.formula import compile_formula
    from app.metrics.engine import measure_all
    from app.metrics.registry import load_metrics
    from app.traces.ndjson import read_traces

    load_metrics(lambda plugin: _warn(f"the plugin {plugin.name} was not loaded: {plugin.error}"))
    chosen = _chosen(metrics)
    compiled = None
    if formula is not None:
        compiled = compile_formula(formula, frozenset(ref.key for ref in chosen))
    refs = _with_scores(chosen, compiled)
    kept = _Kept(refs)
    with nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as lines:
        rows = list(measure_all(kept.watch(read_traces(lines)), refs))
    aggregates = kept.aggregates(rows)
    kpi = compiled.evaluate(_values(compiled.references, aggregates)) if compiled else None
    return Scored(rows, aggregates, compiled, kpi)


def _chosen(metrics: str | None) -> "tuple[MetricRef, ...]":
    from app.metrics.registry import default_refs, plain_keys

    if metrics is None:
        return default_refs(plain_keys())
    names = [name.strip().upper() for name in metrics.split(",")]
    return default_refs(dict.fromkeys(name for name in names if name))


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

    def watch(self, traces: "Iterable[Trace]") -> "Iterator[Trace]":
        for trace in traces:
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
            )
            for place, provider in enumerate(self._providers)
        }


def _values(
    references: "Iterable[Reference]", aggregates: "Mapping[str, Aggregate]"
) -> "dict[Reference, float | None]":
    return {
        reference: aggregates[reference.key].statistic(reference.stat) for reference in references
    }


def _print_json(scored: Scored) -> None:
    """One document, written row by row."""
    keys = list(scored.aggregates)
    write = sys.stdout.write
    write('{"rows":[')
    for place, row in enumerate(scored.rows):
        values = dict(zip(keys, row.values, strict=True))
        write(",\n" if place else "\n")
        write(_json({"traceId": row.trace_id, "values": values}))
    aggregates = {key: found.as_json() for key, found in scored.aggregates.items()}
    write(f'\n],"aggregates":{_json(aggregates)}')
    if scored.formula is not None and scored.kpi is not None:
        kpi = {"formula": scored.formula.text, **scored.kpi._asdict()}
        write(f',"kpi":{_json(kpi)}')
    write("}\n")


def _print_table(scored: Scored) -> None:
    columns = ("mean", "n", "std", "min", "max", "p50", "p95", "p99", "coverage")
    lines = [
        [key, *(_shown(found.statistic(name)) for name in columns)]
        for key, found in scored.aggregates.items()
    ]
    if scored.formula is not None and scored.kpi is not None:
        lines.append([scored.formula.text, _shown(scored.kpi.value), *[""] * (len(columns) - 1)])
    header = ["metric", *columns]
    if sys.stdout.isatty():
        _print_rich(header, lines)
    else:
        sys.stdout.writelines("\t".join(line) + "\n" for line in [header, *lines])


def _print_rich(header: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for place, name in enumerate(header):
        table.add_column(name, justify="right" if place else "left", overflow="fold")
    for line in lines:
        table.add_row(*map(Text, line))
    Console().print(table)


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def _print_missing(scored: Scored) -> None:
    for key, found in scored.aggregates.items():
        if found.missing:
            reasons = ", ".join(f"{name} {count}" for name, count in found.missing.items())
            _warn(f"{key} is missing on {sum(found.missing.values())} traces: {reasons}")


def _warn(message: str) -> None:
    sys.stderr.write(f"warning: {message}\n")


def _tell(error: "AppError", output: OutputFormat) -> None:
    if output is OutputFormat.TABLE:
        sys.stderr.write(f"error: {error}\n")
        return
    problem = {
        "type": f"/problems/{error.error_code}",
        "title": (type(error).__doc__ or "").strip().splitlines()[0],
        "status": error.status,
        "detail": error.detail,
        "errors": [{"pointer": item.pointer, "detail": item.detail} for item in error.errors],
    }
    sys.stderr.write(_json(problem) + "\n")


def _json(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, allow_nan=False)
